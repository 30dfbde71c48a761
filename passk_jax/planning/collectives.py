"""Reads collectives from the text of a compiled program: kind, bytes, devices.

A collective counts once, although the compiler may spread it over instructions:

* Of a ``-start`` and its ``-done``, only the start counts.
* A TPU may fuse one collective into several products, so that they overlap. The first
  of these fusions ends in the custom call ``AsyncCollectiveStart``, the last in
  ``AsyncCollectiveDone``, and all of them repeat the collective. They may span a loop.
  Only the first fusion counts.
* On TPU, a reduce-scatter is a fusion of an all-reduce and a slice.
* Between slices of TPUs, a collective is a ``send`` to and a ``recv`` from the host,
  whose attributes name it. Only the ``recv`` counts. Such a text numbers only the
  devices of one slice.
"""

import dataclasses
import math
import re
from collections.abc import Iterator

import numpy as np

from passk_jax.planning.hlo import Computation, Instruction, Module, Shape, find

Groups = tuple[tuple[int, ...], ...]
"""The groups of devices that exchange data, numbered as in the mesh."""

KINDS = re.compile(
    'all-gather|all-reduce|reduce-scatter|(ragged-)?all-to-all'
    '|collective-permute|collective-broadcast'
)
_GROUPS = re.compile(r'replica_groups=(\{\}|\{\{.*?\}\}|mesh\[.*?\}|\[\S*)')
_BETWEEN_SLICES = re.compile(r'_xla_megascale_transfer_type="(\w+)"')
_START, _DONE = 'AsyncCollectiveStart', 'AsyncCollectiveDone'
_BETWEEN = 'async_collective_fusion'


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective: opcode without ``-start``, mean bytes that a device receives."""

    kind: str
    size: float
    groups: Groups


def collectives(
    module: Module,
    computation: Computation,
    instruction: Instruction,
    *,
    devices: int,
    slices: int = 1,
) -> Iterator[Collective]:
    """Yields the collectives that begin in an instruction or in its fused computation.

    The module runs on ``devices`` devices in ``slices`` slices.
    """
    if instruction.opcode == 'recv':
        if transfer := _BETWEEN_SLICES.search(instruction.attributes):
            kind = transfer[1].lower().replace('_', '-')
            kind = 'collective-permute' if kind == 'one-to-one' else kind
            # The group has the same place of each slice.
            group = tuple(range(0, devices, devices // slices))
            size = _received(kind, instruction.shapes[0].size, slices)
            yield Collective(f'{kind} between slices', size, (group,))
        return
    if instruction.opcode == 'fusion':
        inner = module.computations[instruction.called('calls')]
        if not goes_on(inner):
            scattered = 'all-reduce-scatter' in f'{instruction.name} {inner.name}'
            for fused in inner.instructions.values():
                for collective in collectives(
                    module, inner, fused, devices=devices, slices=slices
                ):
                    if scattered and collective.kind == 'all-reduce':
                        size = collective.size / 2
                        collective = Collective(
                            'reduce-scatter', size, collective.groups
                        )
                    yield collective
    elif is_collective(instruction):
        yield _collective(computation, instruction, devices // slices)


def is_collective(instruction: Instruction) -> bool:
    """Returns whether an instruction is a collective or starts one."""
    return bool(KINDS.fullmatch(instruction.opcode.removesuffix('-start')))


def starts(fused: Computation) -> bool:
    """Returns whether a fused computation starts a collective that others continue."""
    return _START in fused.instructions[fused.root].attributes


def goes_on(fused: Computation) -> bool:
    """Returns whether a fused computation continues or ends a collective."""
    ends = _DONE in fused.instructions[fused.root].attributes
    return ends or (fused.name.startswith(_BETWEEN) and not starts(fused))


def operand_shapes(
    computation: Computation, instruction: Instruction
) -> list[tuple[Shape, ...]]:
    """Returns the shapes of each operand; ``()`` for one outside the computation."""
    operands = (computation.instructions.get(name) for name in instruction.operands)
    return [() if operand is None else operand.shapes for operand in operands]


def _collective(
    computation: Computation, instruction: Instruction, devices: int
) -> Collective:
    kind = instruction.opcode.removesuffix('-start')
    shapes = instruction.shapes
    if instruction.opcode.endswith('-start') and kind != 'all-reduce':
        # The shapes of the operands, then of the results, then of flags on TPU.
        operands = sum(map(len, operand_shapes(computation, instruction)))
        shapes = shapes[operands : 2 * operands]
    result = sum(shape.size for shape in shapes)
    groups = device_groups(instruction.attributes, devices)
    return Collective(kind, _received(kind, result, len(groups[0])), groups)


def _received(kind: str, result: float, group: int) -> float:
    """Counts the bytes that a device receives for a result of ``result`` bytes.

    In a group of g devices, gathering receives the parts of the other devices: (g - 1)
    / g of the result. A reduction receives as much to sum the device's share. An
    all-reduce receives as much again for the shares of the other devices.
    """
    if kind in ('collective-permute', 'collective-broadcast'):
        return result
    share_of_others = (group - 1) / group
    factors = {'all-reduce': 2 * share_of_others, 'reduce-scatter': group - 1.0}
    return result * factors.get(kind, share_of_others)


def device_groups(attributes: str, devices: int) -> Groups:
    """Reads the groups of a collective, or the pairs of a permutation.

    Raises:
        ValueError: the notation is unknown.
    """
    if match := re.search(r'source_target_pairs=\{(\{.*?\})\}', attributes):
        return _lists(match[1])
    match = _GROUPS.search(attributes)
    text = match[1] if match else '{}'
    if text == '{}':
        return (tuple(range(devices)),)
    if text.startswith('{'):
        return _lists(text[1:-1])
    if match := re.match(r'\[(\d+),(\d+)\]<=(\[[\d,]+\](?:T\([\d,]+\))?)', text):
        table = _iota(match[3]).reshape(int(match[1]), int(match[2]))
    elif text.startswith('mesh['):
        table = _read_mesh(text)
    else:
        raise ValueError(f'unknown notation of the groups of a collective: {text}')
    return tuple(tuple(map(int, group)) for group in table)


def _lists(text: str) -> Groups:
    groups_text = re.findall(r'\{([\d,]+)\}', text)
    return tuple(tuple(map(int, group.split(','))) for group in groups_text)


def _iota(text: str) -> np.ndarray:
    """Returns the numbers 0, 1, ... in an order such as ``[2,4]T(1,0)``."""
    match = find(r'^\[([\d,]+)\](?:T\(([\d,]+)\))?', text)
    sizes = [int(size) for size in match[1].split(',')]
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    order = match[2] and [int(axis) for axis in match[2].split(',')]
    return (numbers.transpose(order) if order else numbers).reshape(-1)


def _read_mesh(text: str) -> np.ndarray:
    """Reads ``mesh['a'=8,'b'=4], device_ids=([4,8]T(1,0)) {'b'}``.

    A part of an axis counts as an axis: ``'a':(2)4`` is the inner 4 of an axis of 8.
    """
    head, _, chosen = text.rpartition('{')
    sizes = [(name, int(size)) for name, size in re.findall(r"'(\w+)'=(\d+)", head)]
    ids = re.search(r'device_ids=\((.*?\]\S*?)\)(?= |$)', head)
    count = math.prod(size for _, size in sizes)
    numbers = _iota(ids[1]) if ids else np.arange(count)
    parts = {
        name: (int(before or 1), int(size) if size else None)
        for name, before, size in re.findall(r"'(\w+)'(?::\((\d+)\)(\d+))?", chosen)
    }
    shape, inside = [], []
    for name, size in sizes:
        before, part = parts.get(name, (size, 1))
        part = size // before if part is None else part
        inside.append(len(shape) + 1)
        shape += [before, part, size // before // part]
    outside = [axis for axis in range(len(shape)) if axis not in inside]
    group = math.prod(shape[axis] for axis in inside)
    return numbers.reshape(shape).transpose(outside + inside).reshape(-1, group)
