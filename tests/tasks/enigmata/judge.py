"""What the tests of the puzzles share."""

import functools

from hypothesis import strategies as st

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata.puzzle import AnyPuzzle, Puzzle

# The data of a problem of each puzzle that reads files.
FILE_DATA = {
    'full_crosswords': {
        'question': '_ _ _\n_ * _\n_ _ _',
        'answer': 'across: CAT, TEN\ndown: CUT, TIN',
    },
    'symbolic_hard': {'question': 'Test input:\n0', 'answer': '3 0\n2 1'},
    'big_bench_symbolic': {'question': '[1] -> [1]\n[7, 10] ->', 'answer': '[7, 10]'},
    'checkmate_in_one': {'question': '1. f3 e5 2. g4', 'answer': 'Qh4#'},
    'FOLIO': {'question': 'Premises:\n1. A.\nConclusion: B.', 'answer': 'Unknown'},
}

_FRAGMENTS = st.sampled_from(
    [
        *('```', '\n', '<begin_board>', '<end_board>', '[', ']', '(', ')', ',', '->'),
        *('"', "'", ' ', '0', '1', '2', '-1', '9' * 30, '+', '*', '/', '**', '.', 'X'),
        *('_', 'U', 'R11', 'C12', '"R11"', 'Push(1)', 'Pop()', 'NO', 'cannot form 24'),
        *('"X"', '"O"', '""', 'not exist', '[(0, 0), ', '/', '-1 1'),
        *('\x00', '\ud800', '²', '٣', '１', '𝔸', '\u2028', '__import__("os")', 'e9'),
    ]
)
# Short texts with pieces of answers, and what breaks parsers.
TEXTS = st.lists(st.one_of(_FRAGMENTS, st.text(max_size=5)), max_size=30).map(''.join)
# About 100 kB each.
LONG = [
    '`' * 100_000, '```\n' * 25_000, '```' * 33_333, '[' * 100_000, '(' * 100_000,
    '[(' * 50_000, '1 ' * 50_000, '1+' * 50_000, '((1)' * 25_000, '1\n' * 50_000,
    '<begin_board>' * 7_700, '<begin_board><end_board>' * 4_000, '"' * 100_000,
    '9' * 100_000, '9*' * 50_000, '->' * 50_000, '(0,0)->' * 15_000, 'UD' * 50_000,
    ' ' * 100_000, '\u2003é' * 50_000, '-' * 100_000, '[' + '1,' * 50_000 + ']',
]  # fmt: skip


def error_of(puzzle: AnyPuzzle, data, answer: str, *, official: bool = False):
    """Why the answer is wrong; ``None`` if it is right."""
    return puzzle.verdict(data, puzzle.response(answer), official=official).error


def drawn(puzzle: Puzzle, level: int, count: int = 100):
    """The data of some problems."""
    return [puzzle.generate(Draws(puzzle.name, level, i), level) for i in range(count)]


@functools.cache
def problem_of(puzzle: AnyPuzzle, level: int):
    """The data of a problem, of a generator or a file."""
    if puzzle.name in FILE_DATA:
        return FILE_DATA[puzzle.name]
    return puzzle.generate(Draws(level), level)
