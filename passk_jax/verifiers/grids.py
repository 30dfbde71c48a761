"""Grids of ARC-AGI as text: up to 30 x 30 cells, each a digit."""

import re
from collections.abc import Sequence
from typing import Any

from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, symbol_rows

Grid = list[list[int]]

MAX_SIDE = 30
# Characters: the largest grid has 2,761 as a nested list, and may be indented.
MAX_TEXT = 10_000

_CELL = re.compile('[0-9]')
_ROW = re.compile(r'\[([0-9](?:,[0-9])*)\]')
_LIST = re.compile(rf'\[{_ROW.pattern}(?:,{_ROW.pattern})*\]')
# Grids inside a text: lists of lists, or lines of cells.
_LISTS = re.compile(r'\[\s*(?:\[[0-9,\s]*\][,\s]*)+\]')
_LINE = r'[ \t]*[0-9](?:[ \t,]+[0-9])*[ \t]*'
_LINES = re.compile(rf'^{_LINE}(?:\n{_LINE})*$', re.MULTILINE)


def read_grid(text: str) -> Grid:
    r"""Reads a grid, in time that is linear in the length of the text.

    Args:
        text: rows as lines, cells separated by blanks or commas; or a list of lists.

    Raises:
        Wrong: the text is anything else, or a side is longer than 30.

    >>> read_grid('[[1, 2], [3, 4]]') == read_grid('1 2\n3,4')
    True
    """
    if len(text) > MAX_TEXT:
        raise Wrong(f'a grid of more than {MAX_TEXT} characters')
    if text.lstrip().startswith('['):
        rows = _rows_of_list(text)
    else:
        rows = symbol_rows(text.replace(',', ' '))
    if not rows:
        raise Wrong('an empty grid')
    width = len(rows[0])
    if len(rows) > MAX_SIDE or width > MAX_SIDE:
        raise Wrong(f'a grid of {len(rows)} x {width}, beyond {MAX_SIDE}')
    for row in rows:
        if len(row) != width:
            raise Wrong(f'a row of {len(row)} cells below one of {width}')
        if wrong := [cell for cell in row if not _CELL.fullmatch(cell)]:
            raise Wrong(f'{wrong[0][:20]!r} is not a digit')
    return [[int(cell) for cell in row] for row in rows]


def usual_grid(text: str) -> str:
    """Rewrites a grid in a usual spelling as lines of cells separated by blanks.

    Usual spellings are digits without blanks, one list a line, a table, and numpy's.

    Raises:
        Wrong: the text is anything else.
    """
    return spellings.integer_grid(text, cell=_CELL)


def may_be_grid(text: str) -> bool:
    """Returns whether a text is or resembles a grid, unlike a program or a sentence."""
    if not re.search(r'[^\W0-9_]', text):
        return True
    try:
        return bool(usual_grid(text[:MAX_TEXT]))
    except Wrong:
        return False


def grids_in(text: str) -> list[Grid]:
    r"""Reads the grids in a text, in order: lists of lists, or else lines of cells.

    Raises:
        Wrong: one of them is not a grid.

    >>> grids_in('From\n1 2\n3 4\nto\n5')
    [[[1, 2], [3, 4]], [[5]]]
    """
    blocks = _LISTS.findall(text) or _LINES.findall(text)
    return [read_grid(block) for block in blocks]


def _rows_of_list(text: str) -> list[list[str]]:
    # Blanks between digits must not join them.
    if re.search(r'[0-9]\s+[0-9]', text):
        raise Wrong('no comma between two cells')
    text = ''.join(text.split())
    if not _LIST.fullmatch(text):
        raise Wrong('no list of lists of digits')
    return [row.split(',') for row in _ROW.findall(text)]


def grid_text(grid: Sequence[Sequence[int]]) -> str:
    """Writes a grid as lines of cells separated by spaces."""
    return '\n'.join(' '.join(map(str, row)) for row in grid)


def check_grid(value: Any) -> Grid:
    """Returns the grid of a record; raises ValueError if it is not a grid."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_SIDE:
        raise ValueError(f'a grid must be a list of 1 to {MAX_SIDE} rows')
    for row in value:
        if not isinstance(row, list) or not 1 <= len(row) <= MAX_SIDE:
            raise ValueError(f'a row must be a list of 1 to {MAX_SIDE} cells')
        if len(row) != len(value[0]):
            raise ValueError('rows of a grid have different lengths')
        if not all(type(cell) is int and 0 <= cell <= 9 for cell in row):
            raise ValueError('a cell is not a digit')
    return value
