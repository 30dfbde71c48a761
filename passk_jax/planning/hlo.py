"""Parses the text of compiled programs, as far as hlo_costs.py needs it.

:func:`parse` splits a compiled module into computations and their instructions.
:func:`executions` counts how often each computation runs. On CPU and GPU the compiler
notes the length of a loop; on TPU the length follows from the loop's counter.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping

_BYTES = {'pred': 1, 'token': 0, 'opaque': 0, 's4': 0.5, 'u4': 0.5, 'f4e2m1fn': 0.5}
_ARRAY = re.compile(r'([a-z]\w*)\[([\d,<=]*)\](\{[^}]*\})?')
_NAME = re.compile(r'%([\w.-]+)')
_INSTRUCTION = re.compile(r'^\s+(ROOT )?%?([\w.-]+) = ')
_COMPUTATION = re.compile(r'^(ENTRY )?%?([\w.-]+) (\(.*\) -> .*)?\{$')


def find(pattern: str, text: str) -> re.Match[str]:
    """Returns the first match of a pattern that the text must have."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f'not the text of a compiled module: no {pattern} in {text!r}')
    return match


@dataclasses.dataclass(frozen=True)
class Shape:
    """The shape of an array; ``in_memory``: in main memory, not on-chip memory."""

    dtype: str
    dims: tuple[int, ...]
    in_memory: bool

    @property
    def size(self) -> float:
        """Bytes, in any memory."""
        width = _BYTES.get(self.dtype)
        if width is None:
            # The first number is the bits: s32, bf16, f8e4m3fn, c64.
            width = int(find(r'\d+', self.dtype)[0]) / 8
        return math.prod(self.dims) * width


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction: result, opcode, operands, and the remaining text."""

    name: str
    shapes: tuple[Shape, ...]
    opcode: str
    operands: tuple[str, ...]
    literal: str
    attributes: str

    def called(self, attribute: str) -> str:
        """Returns the computation that an attribute (``'body'``) names."""
        return find(rf'\b{attribute}=%?([\w.-]+)', self.attributes)[1]


@dataclasses.dataclass(frozen=True)
class Computation:
    """A computation: its instructions by name, in order, and its result's name."""

    name: str
    instructions: Mapping[str, Instruction]
    root: str

    def operand(self, instruction: Instruction, index: int) -> Instruction | None:
        """Returns an operand's instruction; ``None`` outside this computation."""
        if index >= len(instruction.operands):
            return None
        return self.instructions.get(instruction.operands[index])


@dataclasses.dataclass(frozen=True)
class Module:
    """A compiled module: its computations by name, and the name of the entry."""

    computations: Mapping[str, Computation]
    entry: str


def parse(text: str) -> Module:
    """Parses the text of a compiled module.

    Raises:
        ValueError: the text has no entry computation.
    """
    computations, entry, name, body, root = {}, None, None, {}, ''
    for line in text.splitlines():
        if name is None:
            if match := _COMPUTATION.match(line):
                name, body, root = match[2], {}, ''
                entry = name if match[1] else entry
        elif line.startswith('}'):
            # The metadata after a kernel's instruction may have such a line too.
            if line.strip() == '}' or line.startswith('}, execution_thread='):
                computations[name] = Computation(name, body, root)
                name = None
        elif match := _INSTRUCTION.match(line):
            instruction = _instruction(match[2], line[match.end() :])
            body[instruction.name] = instruction
            root = instruction.name if match[1] else root
    if entry is None:
        raise ValueError('not the text of a compiled module: it has no ENTRY')
    return Module(computations, entry)


def _instruction(name: str, text: str) -> Instruction:
    end = _closing(text, 0) if text.startswith('(') else text.index(' ')
    shapes, text_after = _shapes(text[:end]), text[end:].lstrip()
    opening = text_after.index('(')
    closing = _closing(text_after, opening)
    inside = text_after[opening + 1 : closing - 1]
    names = tuple(_NAME.findall(inside))
    return Instruction(
        name, shapes, text_after[:opening], names, inside, text_after[closing:]
    )


def _closing(text: str, start: int) -> int:
    """Returns the position after the bracket that closes the one at ``start``."""
    depth = 0
    for match in re.compile(r'[()]').finditer(text, start):
        depth += 1 if match[0] == '(' else -1
        if depth == 0:
            return match.end()
    return len(text)


def _shapes(text: str) -> tuple[Shape, ...]:
    return tuple(
        Shape(
            dtype,
            tuple(int(size.lstrip('<=')) for size in dims.split(',') if size),
            # Layouts name the memory, S(0) being the main one.
            in_memory=not re.search(r'S\([1-9]', layout),
        )
        for dtype, dims, layout in _ARRAY.findall(text)
    )


# Calls from the entry on: a computation, and its instruction that runs the next one.
_Frames = tuple[tuple[Computation, Instruction], ...]


def executions(
    module: Module, *, work: Callable[[Computation], float], in_loop: bool = False
) -> tuple[dict[str, int], int]:
    """Counts how often each computation of the control flow runs, from the entry on.

    It leaves out computations inside fusions and reductions. A conditional runs its
    branch with the most work.

    Args:
        module: the module.
        work: returns the work of one run of a computation, without those that it calls.
        in_loop: whether to count only one iteration of a loop: the loop of unknown
            length with the most work.

    Returns:
        The counts, and the number of loops of unknown length, which count as one
        iteration.

    Raises:
        ValueError: the module has no loop of unknown length to count.
    """
    unknown_bodies: list[tuple[str, _Frames]] = []

    def runs(name: str, frames: _Frames) -> tuple[collections.Counter[str], int]:
        counts, unknown = collections.Counter([name]), 0
        computation = module.computations[name]
        for instruction in computation.instructions.values():
            inside = (*frames, (computation, instruction))
            length = 1
            if instruction.opcode == 'while':
                length = _loop_length(module, inside)
                if length is None:
                    length, unknown = 1, unknown + 1
                    unknown_bodies.append((instruction.called('body'), inside))
            branches = [runs(called, inside) for called in _called(instruction)]
            if instruction.opcode == 'conditional':
                branches = [max(branches, key=work_of)]
            for branch, loops in branches:
                for body, times in branch.items():
                    counts[body] += times * length
                unknown += loops
        return counts, unknown

    def work_of(counted: tuple[collections.Counter[str], int]) -> float:
        counts, _ = counted
        return sum(n * work(module.computations[name]) for name, n in counts.items())

    counts, unknown = runs(module.entry, ())
    if in_loop:
        if not unknown_bodies:
            raise ValueError('the program has no loop whose length is unknown')
        bodies = [runs(*body) for body in tuple(unknown_bodies)]
        counts, unknown = max(bodies, key=work_of)
    return dict(counts), unknown


def _called(instruction: Instruction) -> Iterator[str]:
    """Yields the computations that an instruction may call, all branches included."""
    if instruction.opcode == 'while':
        yield instruction.called('body')
    elif instruction.opcode == 'call':
        yield instruction.called('to_apply')
    elif instruction.opcode == 'conditional':
        branches = re.search(r'branch_computations=\{([^}]*)\}', instruction.attributes)
        if branches:
            yield from _NAME.findall(branches[1])
        else:
            yield instruction.called('true_computation')
            yield instruction.called('false_computation')
    elif instruction.opcode in ('async-start', 'call-start'):
        yield instruction.called('(?:calls|to_apply)')


def _loop_length(module: Module, frames: _Frames) -> int | None:
    """Counts the iterations of a ``while``; ``None`` if the text does not say.

    Without the compiler's note, the loop must have a counter: a tuple element whose
    start, limit and increment are constants.
    """
    computation, loop = frames[-1]
    if note := re.search(r'known_trip_count\D*(\d+)', loop.attributes):
        return int(note[1])
    condition = module.computations[loop.called('condition')]
    body = module.computations[loop.called('body')]
    compared = condition.instructions[condition.root]
    if compared.opcode != 'compare':
        return None
    counter = _element_index(module, condition, compared.operands[0])
    if counter is None:
        return None
    added = _element(module, body, body.root, counter)
    if added is None or added.opcode != 'add':
        return None
    increments = [
        x for x in added.operands if _element_index(module, body, x) != counter
    ]
    if len(increments) != 1:
        return None
    step = _constant(module, body, increments[0], frames)
    limit = _constant(module, condition, compared.operands[1], frames)
    begun = _element(module, computation, loop.operands[0], counter)
    if begun is None:
        return None
    start = _constant(module, computation, begun.name, frames[:-1])
    direction = find(r'direction=(\w\w)', compared.attributes)[1]
    if start is None or limit is None or not step or direction == 'EQ':
        return None
    limit += {'LE': 1, 'GE': -1}.get(direction, 0)
    return max(0, math.ceil((limit - start) / step))


def _source(module: Module, computation: Computation, name: str) -> Instruction | None:
    """Returns the instruction whose value ``name`` copies; ``None`` if it is elsewhere.

    A value may pass through tuples, and through fusions that continue a collective.
    """
    instruction = computation.instructions.get(name)
    while instruction is not None:
        if instruction.opcode in ('copy', 'bitcast', 'copy-start', 'copy-done'):
            instruction = computation.operand(instruction, 0)
        elif instruction.opcode == 'get-tuple-element':
            index = int(find(r'index=(\d+)', instruction.attributes)[1])
            passed = _passed(module, computation, instruction.operands[0], index)
            if passed is None:
                return instruction
            instruction = computation.instructions.get(passed)
        else:
            return instruction
    return None


def _passed(
    module: Module, computation: Computation, name: str, index: int
) -> str | None:
    """Names the value that an instruction passes on as an element of its tuple.

    ``None``: the instruction computes the element.
    """
    producer = computation.instructions.get(name)
    if producer is None:
        return None
    if producer.opcode == 'tuple':
        return producer.operands[index]
    if producer.opcode == 'opt-barrier':
        return _passed(module, computation, producer.operands[0], index)
    if producer.opcode == 'fusion':
        inner = module.computations[producer.called('calls')]
        root = inner.instructions[inner.root]
        if root.opcode == 'tuple':
            passed = inner.instructions[root.operands[index]]
            if passed.opcode == 'parameter':
                return producer.operands[int(passed.literal)]
    return None


def _element(
    module: Module, computation: Computation, name: str, index: int
) -> Instruction | None:
    """Returns the source of an element of a tuple; ``None`` if it is elsewhere."""
    passed = _passed(module, computation, name, index)
    return None if passed is None else _source(module, computation, passed)


def _element_index(module: Module, computation: Computation, name: str) -> int | None:
    """Returns the index if ``name`` is an element of the computation's parameter."""
    instruction = _source(module, computation, name)
    if instruction is None or instruction.opcode != 'get-tuple-element':
        return None
    source = computation.operand(instruction, 0)
    if source is None or source.opcode != 'parameter':
        return None
    return int(find(r'index=(\d+)', instruction.attributes)[1])


def _constant(
    module: Module, computation: Computation, name: str, frames: _Frames
) -> int | None:
    """Returns the constant integer of a value, also from the loops around it."""
    instruction = _source(module, computation, name)
    if instruction is not None and instruction.opcode == 'constant':
        match = re.fullmatch(r'-?\d+', instruction.literal)
        return int(match[0]) if match else None
    index = _element_index(module, computation, name)
    if index is None or not frames or frames[-1][1].opcode != 'while':
        return None
    outer, loop = frames[-1]
    carried = _element(module, outer, loop.operands[0], index)
    if carried is None:
        return None
    return _constant(module, outer, carried.name, frames[:-1])
