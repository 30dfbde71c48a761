"""Counts the costs of a compiled program on one chip: products, traffic, collectives.

XLA's own ``cost_analysis`` counts the body of a loop once. Here each instruction counts
as often as it runs (hlo.py), at XLA's cost: a product has two FLOPs per multiplication,
an instruction reads its operands and writes its result once, and slicing reads only the
slice. A conditional counts as the branch that takes longest on a chip with
:data:`INTENSITY`. Access to a TPU's on-chip memory is not traffic: prefetches count
when they read main memory, evictions when they write it. A hand-written kernel counts
by its operands and results, or by the bytes that it states, if they are fewer.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping

from passk_jax.planning import collectives, hlo
from passk_jax.planning.collectives import Groups

# These opcodes move no data themselves.
_FREE = re.compile(
    'parameter|constant|iota|tuple|get-tuple-element|bitcast|while|conditional|call'
    '|async-start|async-update|after-all|add-dependency|opt-barrier|partition-id'
    '|replica-id|.*-done'
)
INTENSITY = 200.0
"""FLOPs in the time of a byte of traffic, roughly those of all chips here."""
_SLICES = ('dynamic-slice', 'slice', 'gather')
_STATED_BYTES = re.compile(r'"cost_estimate":\{[^}]*"bytes_accessed":"(\d+)"')


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Collectives of one kind on a chip: their number, and the bytes received."""

    count: float
    size: float


@dataclasses.dataclass(frozen=True)
class Costs:
    """Costs of one run of the program, or of one step of its loop, on one chip.

    Attributes:
        flops: FLOPs of matrix products and convolutions outside kernels.
        memory: bytes read from and written to main memory.
        collectives: kind -> traffic.
        unknown_loops: the number of loops of unknown length, which count once.
        by_groups: the groups of devices of a collective -> bytes received.
    """

    flops: float
    memory: float
    collectives: Mapping[str, Traffic]
    unknown_loops: int
    by_groups: Mapping[Groups, float] = dataclasses.field(default_factory=dict)

    @property
    def network(self) -> float:
        """Bytes that a chip receives."""
        return sum(traffic.size for traffic in self.collectives.values())


def count(
    text: str, *, num_devices: int, num_slices: int = 1, loop_steps: int = 0
) -> Costs:
    """Counts a compiled program of ``num_devices`` devices from its text.

    If ``loop_steps`` is not 0, only one step of the loop of unknown length counts; an
    iteration has ``loop_steps`` steps.
    """
    module = hlo.parse(text)

    def products(computation: hlo.Computation) -> float:
        return sum(
            _flops(inner, collective)
            for instruction in computation.instructions.values()
            for inner, collective in _with_fused(module, computation, instruction)
        )

    def traffic_of(computation: hlo.Computation) -> float:
        return sum(
            _memory(module, computation, instruction)
            for instruction in computation.instructions.values()
        )

    runs, unknown_loops = hlo.executions(
        module,
        work=lambda x: max(products(x), INTENSITY * traffic_of(x)),
        in_loop=bool(loop_steps),
    )
    flops = memory = 0.0
    counts, sizes = (collections.defaultdict[str, float](float) for _ in range(2))
    by_groups = collections.defaultdict[Groups, float](float)
    for name, num_runs in runs.items():
        computation = module.computations[name]
        times = num_runs / max(loop_steps, 1)
        flops += times * products(computation)
        memory += times * traffic_of(computation)
        for instruction in computation.instructions.values():
            for collective in collectives.collectives(
                module, computation, instruction, devices=num_devices, slices=num_slices
            ):
                counts[collective.kind] += times
                sizes[collective.kind] += times * collective.size
                by_groups[collective.groups] += times * collective.size
    traffic = {kind: Traffic(counts[kind], sizes[kind]) for kind in sorted(counts)}
    return Costs(flops, memory, traffic, unknown_loops, dict(by_groups))


def _with_fused(
    module: hlo.Module, computation: hlo.Computation, instruction: hlo.Instruction
) -> Iterator[tuple[hlo.Computation, hlo.Instruction]]:
    yield computation, instruction
    if instruction.opcode == 'fusion':
        inner = module.computations[instruction.called('calls')]
        for fused in inner.instructions.values():
            yield from _with_fused(module, inner, fused)


def _memory(
    module: hlo.Module, computation: hlo.Computation, instruction: hlo.Instruction
) -> float:
    """Counts the bytes that an instruction reads from and writes to main memory."""
    opcode = instruction.opcode
    if _FREE.fullmatch(opcode):
        return 0.0
    operands = collectives.operand_shapes(computation, instruction)
    results = instruction.shapes
    if opcode.endswith('-start'):
        # Its result is a tuple: operands, results and internal state. That of a copy
        # begins with its result (hlo_instruction.h of XLA: CreateCopyStart).
        count = sum(map(len, operands))
        copies = opcode == 'copy-start'
        results = results[:1] if copies else results[count : 2 * count] or results
        opcode = opcode.removesuffix('-start')
    written = sum(map(_traffic, results))
    if opcode == 'fusion':
        inner = module.computations[instruction.called('calls')]
        if collectives.starts(inner):
            # Its result is like that of an instruction that starts a collective.
            return sum(map(_traffic, results[1:2])) + sum(map(_traffic, operands[0]))
        return _fusion_memory(inner, instruction, operands)
    if opcode in _SLICES:
        # It reads as many bytes as it returns.
        size = sum(shape.size for shape in results)
        return written + (size if any(x.in_memory for x in operands[0]) else 0.0)
    if opcode == 'dynamic-update-slice':
        return 2 * sum(map(_traffic, operands[1]))
    size = written + sum(_traffic(shape) for shapes in operands for shape in shapes)
    stated = _STATED_BYTES.search(instruction.attributes)
    return min(size, float(stated[1])) if stated else size


def _traffic(shape: hlo.Shape) -> float:
    return shape.size if shape.in_memory else 0.0


def _fusion_memory(
    inner: hlo.Computation,
    fusion: hlo.Instruction,
    operands: list[tuple[hlo.Shape, ...]],
) -> float:
    """Counts the traffic of a fusion; slices and in-place updates by their sizes."""
    # A collective that continues here counts where it started. Its arrays, and the
    # parameters that the root only passes on, are neither read nor written.
    passes = collectives.goes_on(inner)
    users: dict[str, list[hlo.Instruction]] = {}
    for inner_instruction in inner.instructions.values():
        for name in inner_instruction.operands:
            users.setdefault(name, []).append(inner_instruction)

    def read(name: str, full_bytes: float) -> float:
        parts = 0.0
        for user in users.get(name, []):
            if user.opcode in ('bitcast', 'copy') and user.name != inner.root:
                parts += read(user.name, full_bytes)
            elif user.opcode in _SLICES and user.operands[0] == name:
                parts += sum(shape.size for shape in user.shapes)
            elif not (
                (user.opcode == 'dynamic-update-slice' and user.operands[0] == name)
                or (
                    passes
                    and (collectives.is_collective(user) or user.name == inner.root)
                )
            ):
                return full_bytes
        return min(parts, full_bytes)

    total = 0.0
    for parameter in inner.instructions.values():
        if parameter.opcode == 'parameter':
            full_bytes = sum(map(_traffic, operands[int(parameter.literal)]))
            total += read(parameter.name, full_bytes)
    root = inner.instructions[inner.root]
    results = root.operands if root.opcode == 'tuple' else (root.name,)
    for name, shape in zip(results, fusion.shapes, strict=False):
        producer = inner.instructions[name]
        if passes and (
            collectives.is_collective(producer)
            or producer.opcode in ('parameter', 'custom-call')
        ):
            continue
        while producer.opcode in ('bitcast', 'copy') and (
            copied := inner.operand(producer, 0)
        ):
            producer = copied
        if shape.in_memory:
            updates = producer.opcode == 'dynamic-update-slice'
            update = inner.operand(producer, 1) if updates else None
            total += update.shapes[0].size if update else shape.size
    return total


def _flops(computation: hlo.Computation, instruction: hlo.Instruction) -> float:
    """Counts two FLOPs for each multiplication of a product, dot or convolution.

    Every axis of a product occurs in two of left, right and result, and every batch
    axis in all three. So the number of multiplications is the square root of the
    product of all sizes, with each batch axis divided out once. This leaves out
    padding, which is most of the window if a TPU turns a batched product into a
    convolution. No other convolution occurs.
    """
    if instruction.opcode not in ('dot', 'convolution'):
        return 0.0
    shapes = *collectives.operand_shapes(computation, instruction), instruction.shapes
    sizes = [shape[0].dims for shape in shapes]
    if instruction.opcode == 'dot':
        axes = re.search(r'lhs_batch_dims=\{([\d,]*)\}', instruction.attributes)
        shared = [sizes[0][int(axis)] for axis in axes[1].split(',')] if axes else []
    else:
        labels = hlo.find(r'dim_labels=(\w+)_(\w+)->(\w+)', instruction.attributes)
        first, *other_sizes = map(dict, map(zip, labels.groups(), sizes))
        shared = [
            size
            for axis, size in first.items()
            if axis.isdigit() and all(other[axis] == size for other in other_sizes)
        ]
    squared = math.prod(map(math.prod, sizes)) // math.prod(shared)
    return 2.0 * math.sqrt(squared)
