"""Sudoku of 9x9 and of 4x4 cells (``sudoku2``); any valid completion is right."""

from collections.abc import Sequence
from typing import Any

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import (
    Puzzle,
    cells_of,
    columns,
    grid_text,
    read_grid,
)
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, integer_grid


class Sudoku(Puzzle):
    """Sudoku; data: ``grid``, the clues, with 0 for an empty cell.

    The strict rule also reads the spellings of ``spellings.integer_grid``: commas,
    bars, tables and lists, digits without separators.
    """

    category = 'Grid'

    def __init__(self, name: str, box: int, holes: Sequence[tuple[int, int]]):
        self.name = name
        self._box = box
        # For each level, minimum and maximum of empty cells.
        self._holes = holes
        side = box * box
        self.rules = (
            f'Complete this Sudoku of {side} rows, {side} columns and {side} boxes of '
            f'{box} by {box} cells. Each row, each column and each box holds every '
            f'number from 1 to {side} once. A dot is an empty cell. If there are '
            f'several solutions, any of them is right.\n'
            f'Answer: the complete grid, one row a line, numbers separated by spaces.'
        )

    def generate(self, draws, level):
        """Shuffles a solution and removes cells; there may be other solutions."""
        box = self._box
        side = box * box
        digits = draws.permutation(side)
        rows, places = self._lines(draws), self._lines(draws)
        full = [
            [digits[(r % box * box + r // box + c) % side] + 1 for c in places]
            for r in rows
        ]
        if draws.chance(1, 2):
            full = [list(column) for column in columns(full)]
        low, high = self._holes[level]
        holes = set(draws.sample(range(side * side), draws.between(low, high)))
        grid = [
            [0 if r * side + c in holes else full[r][c] for c in range(side)]
            for r in range(side)
        ]
        return {'grid': grid, 'answer': grid_text(full)}

    def question(self, data):
        return grid_text([[cell or '.' for cell in row] for row in data['grid']])

    def usual(self, data, answer):
        return spellings.integer_grid(answer)

    def check(self, data, answer):
        side = len(data['grid'])
        grid = integer_grid(answer, side=side)
        numbers = list(range(1, side + 1))
        for kind, groups in self._groups(grid).items():
            for place, group in enumerate(groups, start=1):
                if sorted(group) != numbers:
                    raise Wrong(f'{kind} {place} does not hold 1 to {side} once each')
        for clues, row in zip(data['grid'], grid, strict=True):
            if any(
                clue not in (0, cell) for clue, cell in zip(clues, row, strict=True)
            ):
                raise Wrong('a clue is changed')

    def picture(self, data, answer):
        side = len(data['grid'])
        clues = [[clue or None for clue in row] for row in data['grid']]
        grid, wrong = None, set()
        if answer:
            grid = integer_grid(answer, side=side)
            places = [[(r, c) for c in range(side)] for r in range(side)]
            groups = cells_of(self._groups(places).values())
            wrong = boards.repeated(groups, grid) | boards.beyond(grid, 1, side)
        cells = boards.filled(clues, grid, wrong=wrong)
        return boards.Board(cells, box=self._box)

    def read(self, record):
        side = self._box**2
        grid = read_grid(record['meta']['question'], side=side)
        answer = grid_text(read_grid(record['answer'], side=side))
        return {'grid': grid, 'answer': answer}

    def _lines(self, draws) -> list[int]:
        """Draws an order of rows or columns that keeps the boxes together."""
        box = self._box
        bands = draws.permutation(box)
        return [band * box + line for band in bands for line in draws.permutation(box)]

    def _groups(
        self, grid: Sequence[Sequence[Any]]
    ) -> dict[str, Sequence[Sequence[Any]]]:
        box, starts = self._box, range(0, len(grid), self._box)
        boxes = [
            [
                cell
                for row in grid[top : top + box]
                for cell in row[column : column + box]
            ]
            for top in starts
            for column in starts
        ]
        return {'row': grid, 'column': columns(grid), 'box': boxes}


SUDOKU2 = Sudoku('sudoku2', 2, ((4, 5), (6, 7), (8, 9)))
SUDOKU = Sudoku('sudoku', 3, ((10, 20), (20, 33), (34, 50)))
