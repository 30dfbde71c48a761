"""Stack permutations: Push and Pop that turn one sequence into another."""

import re

from passk_jax.tasks.enigmata.puzzle import Data, Puzzle, read_ints
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, claims, text_list

_LENGTHS = ((4, 5), (6, 7), (8, 9))
_NONE = 'The output sequence is not a valid stack permutation.'
_PUSH = re.compile(r'Push\(([0-9]{1,9})\)')
_POP = 'Pop()'
_USUAL = re.compile(
    r'\bpush(?:\s*\(\s*([0-9]{1,9})\s*\)|[\s:]*([0-9]{1,9}))|\bpop\b(?:\s*\(\s*\))?',
    re.IGNORECASE,
)
# The value of :func:`read_operations` for a Pop.
POP = -1


class StackPermutation(Puzzle):
    """Stack permutation; data: ``input`` and ``output``. It has one solution or none.

    The strict rule also reads the spellings of ``spellings.items``, such as lines,
    arrows and no quotes, lower case, ``Push 1`` and ``Pop``.
    """

    name = 'stack_permutation'
    category = 'Sequential'
    none = _NONE
    rules = (
        'Push moves the next number of the input sequence onto a stack; Pop moves the '
        'top of the stack to the end of the output. Turn the input sequence into the '
        'output sequence, or find that it is impossible.\n'
        'Answer: the operations as a list, for example '
        '["Push(1)", "Pop()", "Push(2)", "Pop()"]. If it is impossible: '
        f'"{_NONE}"'
    )

    def generate(self, draws, level):
        """Draws a problem; half the outputs are random, mostly impossible."""
        length = draws.between(*_LENGTHS[level])
        numbers = [place + 1 for place in draws.permutation(length)]
        if draws.chance(1, 2):
            output = draws.shuffled(numbers)
        else:
            output, stack = [], []
            for number in numbers:
                stack.append(number)
                while stack and draws.chance(1, 2):
                    output.append(stack.pop())
            output += reversed(stack)
        operations = _operations(numbers, output)
        answer = f'"{_NONE}"' if operations is None else _text(operations)
        return {'input': numbers, 'output': output, 'answer': answer}

    def question(self, data):
        return (
            f'Input sequence: {list(data["input"])}\n'
            f'Output sequence: {list(data["output"])}'
        )

    def usual(self, data, answer):
        return spellings.items(
            answer, _USUAL, lambda m: f'Push({m[1] or m[2]})' if m[1] or m[2] else _POP
        )

    def check(self, data, answer):
        if claims(answer, _NONE):
            if _operations(data['input'], data['output']) is not None:
                raise Wrong('it is possible')
            return
        waiting, stack, output = list(reversed(data['input'])), [], []
        for count, operation in enumerate(read_operations(answer), start=1):
            if operation == POP:
                if not stack:
                    raise Wrong(f'operation {count} pops from an empty stack')
                output.append(stack.pop())
            elif waiting and waiting[-1] == operation:
                stack.append(waiting.pop())
            else:
                raise Wrong(f'operation {count} pushes another number')
        if output != list(data['output']):
            raise Wrong('another output')

    def read(self, record):
        data = self._sequences(record['meta'])
        operations = _operations(data['input'], data['output'])
        answer = f'"{_NONE}"' if operations is None else _text(operations)
        return data | {'answer': answer}

    def _sequences(self, meta: Data) -> dict[str, list[int]]:
        first, last = (
            read_ints(meta['input_sequence']),
            read_ints(meta['output_sequence']),
        )
        if sorted(first) != sorted(last) or len(set(first)) != len(first):
            raise ValueError('the output is not a permutation of the input')
        return {'input': first, 'output': last}


def read_operations(answer: str) -> list[int]:
    """Reads the operations of an answer: the number to push, or ``POP``."""
    operations = []
    for count, operation in enumerate(text_list(answer), start=1):
        push = _PUSH.fullmatch(operation)
        if not push and operation != _POP:
            raise Wrong(f'operation {count} is neither Push(number) nor Pop()')
        operations.append(int(push[1]) if push else POP)
    return operations


def _operations(numbers: list[int], output: list[int]) -> list[str] | None:
    """Finds the only operations that make the output; ``None`` if impossible."""
    operations: list[str] = []
    stack: list[int] = []
    outputs = iter(output)
    following = next(outputs, None)
    for number in numbers:
        stack.append(number)
        operations.append(f'Push({number})')
        while stack and stack[-1] == following:
            stack.pop()
            operations.append(_POP)
            following = next(outputs, None)
    return None if stack else operations


def _text(operations: list[str]) -> str:
    return '[' + ', '.join(f'"{operation}"' for operation in operations) + ']'


STACK_PERMUTATION = StackPermutation()
