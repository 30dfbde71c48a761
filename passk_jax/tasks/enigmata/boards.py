"""Describes boards of puzzles: cells, clues around them, a way through them.

A puzzle describes its board with these types; :mod:`passk_jax.tasks.enigmata.drawing`
draws it. A place is (row, column) from (0, 0), the upper left cell of the board; clues
lie outside.
"""

import collections
import dataclasses
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Place = tuple[int, int]
Rows = Sequence[Sequence[Any]]

# The backgrounds of a cell.
KINDS = ('free', 'given', 'wall', 'hidden', 'lit', 'picked', 'start', 'end')
# A clue or a line number beside the board has no background.
BESIDE = ('clue', 'index')


class Cell(NamedTuple):
    """A cell of a board, or a clue beside it.

    Attributes:
        text: a number or a few letters.
        kind: one of ``KINDS`` or ``BESIDE``.
        shape: a key of ``drawing.SHAPES`` to draw in the cell; ``''``: none.
        new: whether text or shape comes from the answer.
        wrong: whether the cell breaks a rule.
    """

    text: str = ''
    kind: str = 'free'
    shape: str = ''
    new: bool = False
    wrong: bool = False

    @property
    def on_board(self) -> bool:
        """Tells whether this is a cell of the board, not a clue."""
        return self.kind not in BESIDE


@dataclasses.dataclass(frozen=True)
class Board:
    """A problem, perhaps with an answer in it.

    Attributes:
        cells: cells by place; a place without a cell stays empty.
        box: a thick line after every so many rows and columns; 0: none.
        corners: corners by the place of the cell to their lower right.
        way: successive places.
        blocked: the place where the way fails to continue.
        after: the board after the answer, if it is a different one.
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
    """Maps places to the items of a grid."""
    return {(r, c): item for r, row in enumerate(rows) for c, item in enumerate(row)}


def filled(
    clues: Rows, answer: Rows | None, *, wrong: Collection[Place] = ()
) -> dict[Place, Cell]:
    """Makes the cells of a grid of numbers.

    Args:
        clues: the numbers of the problem, with ``None`` for an empty cell.
        answer: the complete grid, or ``None``; a clue that it changes is wrong.
        wrong: cells that break a rule; unchanged clues among them are not marked.
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
    """Makes the clues on the sides of a board, from pairs (number, is it broken)."""
    cells = {}
    for row, numbers in ((-1, top), (height, bottom)):
        for column, (number, wrong) in enumerate(numbers):
            cells[row, column] = Cell(str(number), 'clue', wrong=wrong)
    for column, numbers in ((-1, left), (width, right)):
        for row, (number, wrong) in enumerate(numbers):
            cells[row, column] = Cell(str(number), 'clue', wrong=wrong)
    return cells


def compared(numbers: Sequence[Any], counted: Sequence[Any] | None) -> list:
    """Pairs clues for :func:`clues`; one is broken if the answer's count differs."""
    return [
        (clue, counted is not None and clue != counted[place])
        for place, clue in enumerate(numbers)
    ]


def lines_of(rows: Rows) -> list[list[Place]]:
    """Returns the places of each row and of each column of a grid."""
    across = [[(r, c) for c in range(len(row))] for r, row in enumerate(rows)]
    return across + [list(column) for column in zip(*across, strict=True)]


def repeated(groups: Iterable[Sequence[Place]], rows: Rows) -> set[Place]:
    """Returns the places whose number repeats in a group; 0 does not count."""
    places: set[Place] = set()
    for group in groups:
        count = collections.Counter(rows[r][c] for r, c in group)
        places |= {(r, c) for r, c in group if rows[r][c] and count[rows[r][c]] > 1}
    return places


def beyond(rows: Rows, low: int, high: int) -> set[Place]:
    """Returns the places whose number is not in ``[low, high]``."""
    return {
        place
        for place, number in cells_by_place(rows).items()
        if not low <= number <= high
    }


def moved(start: Rows, end: Rows | None, goal: Rows, *, note: str = '') -> Board:
    """Makes a board of tiles, with the board after the moves; 0 is the blank.

    Args:
        start: the tiles of the problem.
        end: the tiles after the answer's moves; ``None``: there are no moves.
        goal: the right place of each tile; after the moves, any other place is wrong.
        note: a few words, for example on a move that fails.
    """
    first = filled([[tile or None for tile in row] for row in start], None)
    goal_cells = cells_by_place(goal)
    last = {place: Cell() for place in first}
    for place, tile in cells_by_place(end or []).items():
        if tile:
            last[place] = Cell(str(tile), new=True, wrong=tile != goal_cells[place])
    return Board(first, after=Board(last), note=note)


def outside(places: Iterable[Place], cells: Container[Place]) -> str:
    """Notes the places outside the board; ``''`` if there are none."""
    count = sum(place not in cells for place in places)
    return f'{count} outside the board' if count else ''
