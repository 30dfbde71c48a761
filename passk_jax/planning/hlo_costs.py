"""Costs of a compiled program on one chip: products, memory traffic, collectives.

XLA's own ``cost_analysis`` counts the body of a loop once. Here each instruction counts
as often as it runs (hlo.py), at XLA's cost: a product has two FLOPs per multiplication,
an instruction reads its operands and writes its result once, and slicing reads only the
slice. A conditional counts as its branch with the most FLOPs. Data that stays in a
TPU's on-chip memory is not traffic. A hand-written kernel counts by its operands and
results alone.
"""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping

from passk_jax.planning.hlo import (
    Computation,
    Instruction,
    Module,
    Shape,
    executions,
    parse,
)

# These opcodes move no data themselves.
_FREE = re.compile(
    'parameter|constant|iota|tuple|get-tuple-element|bitcast|while|conditional|call'
    '|async-start|async-update|after-all|add-dependency|opt-barrier|partition-id'
    '|replica-id|.*-done'
)
_SLICES = ('dynamic-slice', 'slice', 'gather')
_COLLECTIVES = re.compile(
    'all-gather|all-reduce|reduce-scatter|(ragged-)?all-to-all'
    '|collective-permute|collective-broadcast'
)


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Collectives of one kind on a chip: their number, and the bytes received."""

    count: int
    size: float


@dataclasses.dataclass(frozen=True)
class Costs:
    """Costs of one run of the program on one chip.

    Attributes:
        flops: of matrix products and convolutions outside kernels.
        memory: bytes read from and written to main memory.
        collectives: by kind.
        unknown_loops: loops whose length is unknown, each counted once.
    """

    flops: float
    memory: float
    collectives: Mapping[str, Traffic]
    unknown_loops: int

    @property
    def network(self) -> float:
        """Bytes that a chip receives from others."""
        return sum(traffic.size for traffic in self.collectives.values())


def count(text: str, *, num_devices: int) -> Costs:
    """Counts a compiled program of ``num_devices`` devices from its text."""
    module = parse(text)

    def products(computation: Computation) -> float:
        return sum(
            _flops(inner, each)
            for instruction in computation.instructions.values()
            for inner, each, _ in _with_fused(module, computation, instruction)
        )

    runs, unknown_loops = executions(module, work=products)
    flops = memory = 0.0
    found: dict[str, Traffic] = {}
    for name, times in runs.items():
        computation = module.computations[name]
        for instruction in computation.instructions.values():
            memory += times * _memory(module, computation, instruction)
            for inner, each, scattered in _with_fused(module, computation, instruction):
                flops += times * _flops(inner, each)
                kind, size = _collective(inner, each, num_devices, scattered=scattered)
                if kind:
                    old = found.get(kind, Traffic(0, 0.0))
                    found[kind] = Traffic(old.count + times, old.size + times * size)
    return Costs(flops, memory, dict(sorted(found.items())), unknown_loops)


def _with_fused(
    module: Module, computation: Computation, instruction: Instruction
) -> Iterator[tuple[Computation, Instruction, bool]]:
    """An instruction and those fused into it, and whether an all-reduce is scattered.

    On TPU a reduce-scatter is a fusion of an all-reduce and a slice.
    """
    yield computation, instruction, False
    if instruction.opcode == 'fusion':
        inner = module.computations[instruction.called('calls')]
        scattered = 'all-reduce-scatter' in f'{instruction.name} {inner.name}'
        for each in inner.instructions.values():
            for of, fused, deeper in _with_fused(module, inner, each):
                yield of, fused, scattered or deeper


def _operand_shapes(
    computation: Computation, instruction: Instruction
) -> list[tuple[Shape, ...]]:
    found = (computation.instructions.get(name) for name in instruction.operands)
    return [() if each is None else each.shapes for each in found]


def _memory(
    module: Module, computation: Computation, instruction: Instruction
) -> float:
    """Bytes that an instruction reads from and writes to main memory."""
    opcode = instruction.opcode
    if _FREE.fullmatch(opcode):
        return 0.0
    operands = _operand_shapes(computation, instruction)
    results = instruction.shapes
    if opcode.endswith('-start'):
        # Its result is a tuple: operands, results and internal state.
        results = results[1:2]
        opcode = opcode.removesuffix('-start')
    written = sum(map(_traffic, results))
    if opcode == 'fusion':
        inner = module.computations[instruction.called('calls')]
        return _fusion_memory(inner, instruction, operands)
    if opcode in _SLICES:
        # It reads as many bytes as it returns.
        made = sum(shape.size for shape in results)
        return written + (made if any(x.in_memory for x in operands[0]) else 0.0)
    if opcode == 'dynamic-update-slice':
        return 2 * sum(map(_traffic, operands[1]))
    return written + sum(_traffic(shape) for shapes in operands for shape in shapes)


def _traffic(shape: Shape) -> float:
    return shape.size if shape.in_memory else 0.0


def _fusion_memory(
    inner: Computation, fusion: Instruction, operands: list[tuple[Shape, ...]]
) -> float:
    """Traffic of a fusion; slices and updates in place count by their own size."""
    users: dict[str, list[Instruction]] = {}
    for each in inner.instructions.values():
        for name in each.operands:
            users.setdefault(name, []).append(each)

    def read(name: str, whole: float) -> float:
        parts = 0.0
        for user in users.get(name, []):
            if user.opcode in ('bitcast', 'copy') and user.name != inner.root:
                parts += read(user.name, whole)
            elif user.opcode in _SLICES and user.operands[0] == name:
                parts += sum(shape.size for shape in user.shapes)
            elif user.opcode == 'dynamic-update-slice' and user.operands[0] == name:
                continue
            else:
                return whole
        return min(parts, whole)

    total = 0.0
    for each in inner.instructions.values():
        if each.opcode == 'parameter':
            total += read(each.name, sum(map(_traffic, operands[int(each.literal)])))
    root = inner.instructions[inner.root]
    roots = [root.name] if root.opcode != 'tuple' else list(root.operands)
    for name, shape in zip(roots, fusion.shapes, strict=False):
        made = inner.instructions[name]
        while made.opcode in ('bitcast', 'copy') and inner.operand(made, 0):
            made = inner.operand(made, 0)
        updates = made.opcode == 'dynamic-update-slice'
        written = inner.operand(made, 1).shapes[0] if updates else shape
        total += written.size if shape.in_memory else 0.0
    return total


def _flops(computation: Computation, instruction: Instruction) -> float:
    """Two FLOPs for each multiplication of a matrix product, dot or convolution.

    Every axis of a product is in two of left, right and result, and every batch axis in
    all three. So the number of multiplications is the root of the product of all sizes,
    with each batch axis divided out once. It leaves out padding, which is most of the
    window where a TPU turns a batched product into a convolution. No other convolution
    occurs.
    """
    if instruction.opcode not in ('dot', 'convolution'):
        return 0.0
    left, right = (each[0].dims for each in _operand_shapes(computation, instruction))
    sizes = left, right, instruction.shapes[0].dims
    if instruction.opcode == 'dot':
        axes = re.search(r'lhs_batch_dims=\{([\d,]*)\}', instruction.attributes)
        shared = [left[int(axis)] for axis in axes[1].split(',')] if axes else []
    else:
        labels = re.search(r'dim_labels=(\w+)_(\w+)->(\w+)', instruction.attributes)
        first, *others = map(dict, map(zip, labels.groups(), sizes))
        shared = [
            size
            for axis, size in first.items()
            if axis.isdigit() and all(other[axis] == size for other in others)
        ]
    squared = math.prod(map(math.prod, sizes)) // math.prod(shared)
    return 2.0 * math.sqrt(squared)


def _collective(
    computation: Computation,
    instruction: Instruction,
    num_devices: int,
    *,
    scattered: bool,
) -> tuple[str | None, float]:
    """The kind of a collective and the bytes a chip receives; ``None`` for others.

    In a group of g chips each receives what the others hold: (g - 1) / g of a gathered
    result. A reduction needs as much to sum the chip's own share; an all-reduce needs
    as much again for the shares of the others.
    """
    kind = instruction.opcode.removesuffix('-start')
    if not _COLLECTIVES.fullmatch(kind):
        return None, 0.0
    shapes = instruction.shapes
    if instruction.opcode.endswith('-start') and kind != 'all-reduce':
        # Operands, then results, then flags on TPU.
        operands = sum(map(len, _operand_shapes(computation, instruction)))
        shapes = shapes[operands : 2 * operands]
    result = sum(shape.size for shape in shapes)
    if kind in ('collective-permute', 'collective-broadcast'):
        return kind, result
    group = group_size(instruction.attributes, num_devices)
    others = (group - 1) / group
    if kind == 'all-reduce' and scattered:
        return 'reduce-scatter', result * others
    if kind == 'all-reduce':
        return kind, 2 * result * others
    if kind == 'reduce-scatter':
        return kind, result * (group - 1)
    return kind, result * others


def group_size(attributes: str, num_devices: int) -> int:
    """Number of devices in a collective's group, in any notation."""
    if match := re.search(r'replica_groups=\{\{([\d,]+)\}', attributes):
        return len(match[1].split(','))
    if match := re.search(r'replica_groups=\[(\d+),(\d+)\]', attributes):
        return int(match[2])
    if match := re.search(r'replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}', attributes):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
        # An axis, or part of one: 'axis_0':(2)4 has size 4.
        axes = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", match[2])
        return math.prod(int(part or sizes[axis]) for axis, part in axes)
    return num_devices
