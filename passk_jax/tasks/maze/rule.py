r"""Judges a path through a text maze, one response at a time, in plain Python.

This restates the rule of the paper's released verifier. ``*`` is a wall and ``.`` is
free, as in the released verifier and data; the paper's appendix says the opposite. A
path need not be shortest and may cross ``E`` before it ends there. The verdict on a
wrong path has a reason. :mod:`passk_jax.tasks.maze.rule_on_arrays` applies the same
rule to arrays.

The released verifier reads every letter U, D, L, R as a move, also in LaTeX commands:
``\rightarrow`` is RRR, ``\mathrm{U}`` is RU, ``\text{U}`` is U. Its verdict stands, and
the reason of a wrong path names such commands.
"""

import dataclasses
import functools
import re

from passk_jax.errors import InputError
from passk_jax.types import Verdict
from passk_jax.verifiers.extract import extract_boxed

WALL, FREE, START, END = '*', '.', 'S', 'E'
SYMBOLS = WALL + FREE + START + END
MOVES = 'UDLR'
# Move -> (row, column) step.
STEPS = {'U': (-1, 0), 'D': (1, 0), 'L': (0, -1), 'R': (0, 1)}

_NOT_A_MOVE = re.compile(f'[^{MOVES}]+')
_COMMAND = re.compile(r'\\[A-Za-z]+')
# LaTeX commands that a reason names.
_MOST_COMMANDS = 3


@dataclasses.dataclass(frozen=True)
class Maze:
    """A well-formed maze.

    Attributes:
        rows: strings over ``SYMBOLS``, all of the same length.
        start: row and column of the only ``S``.
    """

    rows: tuple[str, ...]
    start: tuple[int, int]


@functools.lru_cache(maxsize=4096)
def parse_maze(text: str) -> Maze:
    """Reads a maze, ignoring white space around it.

    A maze has exactly one ``S`` and at least one ``E``; a path may end on any ``E``.
    Raises a ValueError that says what is wrong with a malformed maze.
    """
    rows = tuple(text.strip().split('\n'))
    if not rows[0]:
        raise InputError('malformed maze: empty')
    if len({len(row) for row in rows}) != 1:
        raise InputError('malformed maze: rows of different lengths')
    cells = ''.join(rows)
    if foreign := sorted(set(cells) - set(SYMBOLS)):
        raise InputError(f'malformed maze: {foreign[0]!r} is none of {SYMBOLS}')
    if (starts := cells.count(START)) != 1:
        raise InputError(f'malformed maze: {starts} S, not one')
    if END not in cells:
        raise InputError('malformed maze: no E')
    return Maze(rows, divmod(cells.index(START), len(rows[0])))


_OTHER_WAY = str.maketrans(START + END, END + START)


def canonical_form(text: str) -> str:
    """Returns the same text for a maze, its rotations and its mirror images.

    Also S and E may be exchanged, unless there are several E. A path through one of
    these mazes gives a path through any other: rotate it, mirror it, or walk it
    backwards. The result is the first of their texts in alphabetical order.

    >>> {canonical_form(text) for text in ('S.\\n*E', 'S*\\n.E', '*E\\nS.')}
    {'*E\\nS.'}
    """
    rows = text.split('\n')
    forms = []
    for _ in range(4):
        # A mirror image and a reversal of rows together are a quarter turn.
        rows = [''.join(column) for column in zip(*rows, strict=True)]
        forms.append('\n'.join(rows))
        rows.reverse()
        forms.append('\n'.join(rows))
    if text.count(END) == 1:
        forms += [form.translate(_OTHER_WAY) for form in forms]
    return min(forms)


def parse_moves(response: str) -> str:
    r"""Reads the moves of a response: the letters U, D, L, R of its box, in any case.

    Other characters are skipped, so ``Right, Down`` reads as ``RD``. If the response
    has no box, the letters of its entire text count. So do those of LaTeX commands.

    >>> parse_moves(r'I go \boxed{R, R, d}')
    'RRD'
    """
    return _NOT_A_MOVE.sub('', extract_boxed(response).upper())


def verdict(maze: str, response: str) -> Verdict:
    """Judges whether a response leads from S to E, and if not, says why.

    The rows of ``maze`` are separated by newlines. If it is malformed, the response is
    wrong and the error says how.
    """
    moves = parse_moves(response)
    try:
        error = _first_fault(parse_maze(maze), moves)
        if error and (commands := _commands_with_moves(response)):
            error += f'; letters of {", ".join(commands)} count as moves'
    except ValueError as e:
        error = str(e)
    return Verdict(correct=error is None, parsed=moves, error=error)


def _commands_with_moves(response: str) -> list[str]:
    """Returns the first LaTeX commands of an answer that have letters of moves."""
    commands = dict.fromkeys(_COMMAND.findall(extract_boxed(response)))
    moving = [x for x in commands if not {*x.upper()}.isdisjoint(MOVES)]
    return moving[:_MOST_COMMANDS]


def _first_fault(maze: Maze, moves: str) -> str | None:
    if not moves:
        return 'no moves'
    height, width = len(maze.rows), len(maze.rows[0])
    row, column = maze.start
    for count, move in enumerate(moves, start=1):
        down, right = STEPS[move]
        row, column = row + down, column + right
        if not (0 <= row < height and 0 <= column < width):
            return f'left the grid at move {count}'
        if maze.rows[row][column] == WALL:
            return f'stepped on a wall at move {count}'
    if (last := maze.rows[row][column]) != END:
        return f'ended at {last} not {END}'
    return None
