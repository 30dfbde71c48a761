"""What a drawing of a puzzle shows: cells, clues around them, a way through them.

A puzzle describes its board here; :mod:`passk_jax.tasks.enigmata.drawing` draws it.
Places count from (0, 0), the upper left cell of the board; clues stand beside it.
"""

import collections
import dataclasses
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Place = tuple[int, int]
Rows = Sequence[Sequence[Any]]

# The grounds of a cell.
KINDS = ('free', 'given', 'wall', 'hidden', 'lit', 'picked', 'start', 'end')
# Beside the board a cell has no ground: a clue, or the number of a row or a column.
BESIDE = ('clue', 'index')


class Cell(NamedTuple):
    """A cell of a board, or a clue beside it.

    Attributes:
        text: a number or a few letters.
        kind: one of ``KINDS`` or ``BESIDE``.
        shape: a key of ``drawing.SHAPES`` that is drawn in the cell; ``''``: none.
        new: whether the answer put the text or the shape there.
        wrong: whether the cell breaks a rule.
    """

    text: str = ''
    kind: str = 'free'
    shape: str = ''
    new: bool = False
    wrong: bool = False

    @property
    def on_board(self) -> bool:
        """Whether this is a cell and not a clue."""
        return self.kind not in BESIDE


@dataclasses.dataclass(frozen=True)
class Board:
    """A problem, or a problem with an answer in it.

    Attributes:
        cells: by place; a place without a cell stays empty.
        box: a thick line after so many rows and columns; 0: none.
        corners: by the place of the cell to the lower right of the corner.
        way: places that follow one another.
        blocked: where the way would go on, but must not.
        after: what the answer made of this board, if that is another one.
        note: a few words below the board.
    """

    cells: Mapping[Place, Cell]
    box: int = 0
    corners: Mapping[Place, Cell] = dataclasses.field(default_factory=dict)
    way: Sequence[Place] = ()
    blocked: Place | None = None
    after: 'Board | None' = None
    note: str = ''


def cells_by_place(rows: Rows) -> dict[Place, Any]:
    """The items of a grid by place."""
    return {(r, c): item for r, row in enumerate(rows) for c, item in enumerate(row)}


def filled(
    clues: Rows, answer: Rows | None, *, wrong: Collection[Place] = ()
) -> dict[Place, Cell]:
    """The cells of a grid of numbers.

    Args:
        clues: the numbers of the problem, with ``None`` for an empty cell.
        answer: the complete grid, or ``None``; a given number that it changes is wrong.
        wrong: cells that break a rule; those with a given number are not at fault.
    """
    answered = cells_by_place(answer or clues)
    cells = {}
    for place, number in cells_by_place(clues).items():
        symbol = answered[place]
        text = '' if symbol is None else str(symbol)
        if number is not None and symbol == number:
            cells[place] = Cell(text, 'given')
        else:
            broken = number is not None or place in wrong
            cells[place] = Cell(text, new=True, wrong=broken)
    return cells


def clues(
    height: int,
    width: int,
    *,
    top: Iterable[tuple[Any, bool]] = (),
    left: Iterable[tuple[Any, bool]] = (),
    right: Iterable[tuple[Any, bool]] = (),
    bottom: Iterable[tuple[Any, bool]] = (),
) -> dict[Place, Cell]:
    """Numbers on the sides of a board, each with whether the answer breaks it."""
    cells = {}
    for row, numbers in ((-1, top), (height, bottom)):
        for column, (number, wrong) in enumerate(numbers):
            cells[row, column] = Cell(str(number), 'clue', wrong=wrong)
    for column, numbers in ((-1, left), (width, right)):
        for row, (number, wrong) in enumerate(numbers):
            cells[row, column] = Cell(str(number), 'clue', wrong=wrong)
    return cells


def compared(wanted: Sequence[Any], counted: Sequence[Any] | None) -> list:
    """Clues as :func:`clues` wants them: those that differ from what was found."""
    return [
        (clue, counted is not None and clue != counted[place])
        for place, clue in enumerate(wanted)
    ]


def lines_of(rows: Rows) -> list[list[Place]]:
    """The places of each row and of each column of a grid."""
    across = [[(r, c) for c in range(len(row))] for r, row in enumerate(rows)]
    return across + [list(column) for column in zip(*across, strict=True)]


def repeated(groups: Iterable[Sequence[Place]], rows: Rows) -> set[Place]:
    """The places whose number stands twice in a group of places; 0 does not count."""
    places: set[Place] = set()
    for group in groups:
        count = collections.Counter(rows[r][c] for r, c in group)
        places |= {(r, c) for r, c in group if rows[r][c] and count[rows[r][c]] > 1}
    return places


def beyond(rows: Rows, low: int, high: int) -> set[Place]:
    """The places whose number is not in ``[low, high]``."""
    return {
        place
        for place, number in cells_by_place(rows).items()
        if not low <= number <= high
    }


def moved(start: Rows, end: Rows | None, goal: Rows, *, note: str = '') -> Board:
    """A board of tiles, and what moves made of it; 0 is the blank.

    Args:
        start: the tiles of the problem.
        end: those after the moves of an answer; ``None``: there are no moves.
        goal: where each tile belongs; after the moves, one elsewhere is wrong.
        note: a few words, for example on a move that fails.
    """
    first = filled([[tile or None for tile in row] for row in start], None)
    wanted = cells_by_place(goal)
    last = {place: Cell() for place in first}
    for place, tile in cells_by_place(end or []).items():
        if tile:
            last[place] = Cell(str(tile), new=True, wrong=tile != wanted[place])
    return Board(first, after=Board(last), note=note)


def outside(places: Iterable[Place], cells: Container[Place]) -> str:
    """A note on the places that no cell has; ``''`` without any."""
    count = sum(place not in cells for place in places)
    return f'{count} outside the board' if count else ''
