"""Puzzles whose answer is a list of cells in any order, or the claim of no solution."""

import abc
import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

from passk_jax.tasks.enigmata.boards import Board, outside
from passk_jax.tasks.enigmata.puzzle import Data, Puzzle, read_ints
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, claims, pair_list

Cell = tuple[int, int]


class ChosenCells(Puzzle):
    """A puzzle whose answer is a list of cells (row, column).

    Attributes:
        first: the number of the first row and of the first column.
        official_set: whether the official verifier allows repeated cells.

    The strict rule also reads the spellings of ``spellings.pairs``: without the list,
    in any brackets, one per line, as rows and columns.
    """

    category = 'Search'
    first: ClassVar[int] = 0
    official_set: ClassVar[bool] = True

    def usual(self, data, answer):
        return cells_text(spellings.pairs(answer))

    def check(self, data, answer):
        if claims(answer, self.none):
            self.check_none(data)
            return
        cells = pair_list(answer)
        if len(set(cells)) != len(cells):
            raise Wrong('a cell twice')
        height, width = self.shape(data)
        rows, columns = (
            range(self.first, self.first + size) for size in (height, width)
        )
        if not all(row in rows and column in columns for row, column in cells):
            raise Wrong('a cell outside the grid')
        self.check_cells(data, cells)

    def check_official(self, data, answer):
        """Compares with the stored answer."""
        stored = data['answer']
        if claims(answer, self.none):
            same = claims(stored, self.none)
        elif same := not claims(stored, self.none):
            kind = set if self.official_set else list
            chosen, stored_cells = (
                sorted(kind(pair_list(text))) for text in (answer, stored)
            )
            same = chosen == stored_cells
        if not same:
            raise Wrong('not the stored answer')

    def picture(self, data, answer):
        pairs = pair_list(answer) if answer else []
        chosen = {(row - self.first, column - self.first) for row, column in pairs}
        board = self.board_of(data, chosen, answered=bool(answer))
        cells = {place for place, cell in board.cells.items() if cell.on_board}
        return dataclasses.replace(board, note=outside(chosen, cells))

    @abc.abstractmethod
    def shape(self, data: Data) -> tuple[int, int]:
        """Returns the number of rows and of columns."""

    def check_none(self, data: Data) -> None:
        """Raises ``Wrong`` if there is a solution; the stored answer decides."""
        if not claims(data['answer'], self.none):
            raise Wrong('there is a solution')

    @abc.abstractmethod
    def check_cells(self, data: Data, cells: list[Cell]) -> None:
        """Raises ``Wrong`` if these distinct cells of the grid break a rule."""

    @abc.abstractmethod
    def board_of(self, data: Data, chosen: set[Cell], *, answered: bool) -> Board:
        """Describes the board; cells count from 0 and may lie outside the grid."""


def read_cells(answer: Any) -> str:
    """Returns a record's stored answer as text; raises ValueError or TypeError."""
    if isinstance(answer, list):
        return cells_text(tuple(read_ints(cell)) for cell in answer)
    return str(answer)


def cells_text(cells: Iterable[tuple[int, ...]]) -> str:
    """Formats a list of cells as an answer."""
    return str(list(cells))


def neighbours(cell: Cell, *, height: int, width: int) -> list[Cell]:
    """Returns the cells that share a side with a cell, numbered from 0."""
    row, column = cell
    around = [
        (row - 1, column),
        (row, column - 1),
        (row, column + 1),
        (row + 1, column),
    ]
    return [(r, c) for r, c in around if 0 <= r < height and 0 <= c < width]
