"""Minesweeper: the mines that the revealed numbers force.

The answer is unique: the hidden cells that are mines in every assignment that fits the
numbers. The number of mines is unknown. Enigmata's stored answers have only the mines
that a single number forces, so the strict rule rejects most of them.
"""

from typing import Any

from passk_jax.tasks.enigmata import boards, counts
from passk_jax.tasks.enigmata.chosen_cells import (
    Cell,
    ChosenCells,
    cells_text,
    read_cells,
)
from passk_jax.tasks.enigmata.puzzle import Grid, grid_text, read_grid
from passk_jax.verifiers.answers import Wrong

# Boards of data have numbers from 0 to 8, or this.
HIDDEN = -2

_SIDES = (9, 12, 16)
# For each level, the percent of mines, and the minimum percent of cells examined.
_MINES = (10, 15, 20)
_LOOKS = (30, 20, 15)
# The maximum percent of cells examined is this much higher than the minimum.
_MORE_LOOKS = 5
_MOST_SIDE = 32


class Minesweeper(ChosenCells):
    """Minesweeper; data: ``board`` and ``forced``, the forced mines as pairs.

    The answer lists all forced mines, in any order; a few generated problems have none.
    """

    name = 'minesweeper'
    none = 'Unable to determine any mine locations.'
    rules = (
        'Each cell of this grid is a mine or safe. A number is a safe cell and says '
        'how many of the up to eight cells around it, diagonal ones too, are mines. '
        'The character ? is a hidden cell, which is a mine or not; how many mines '
        'there are is not known. Find all mines that the numbers force: the hidden '
        'cells that are mines in every arrangement that fits all numbers. Rows and '
        'columns are numbered from 0.\n'
        'Answer: all forced mines and no other cell as a list of (row, column), for '
        f'example [(0, 0), (1, 3)]. If no mine is forced: "{none}"'
    )

    def generate(self, draws, level):
        """Draws a board; draws again for most boards without a forced mine."""
        side = _SIDES[level]
        while True:
            cells = draws.permutation(side * side)
            mines = set(cells[: side * side * _MINES[level] // 100])
            share = draws.between(_LOOKS[level], _LOOKS[level] + _MORE_LOOKS)
            looks = set(draws.permutation(side * side)[: side * side * share // 100])
            board = [
                [
                    sum(r * side + c in mines for r, c in _around((row, column), side))
                    if row * side + column in looks - mines
                    else HIDDEN
                    for column in range(side)
                ]
                for row in range(side)
            ]
            try:
                forced = forced_mines(board)
            except counts.Undecided:
                continue
            if forced or draws.chance(1, 4):
                return _data(board, forced)

    def question(self, data):
        rows = [['?' if n == HIDDEN else n for n in row] for row in data['board']]
        return grid_text(rows)

    def shape(self, data):
        return len(data['board']), len(data['board'])

    def check_none(self, data):
        if data['forced']:
            raise Wrong('a mine is forced')

    def check_cells(self, data, cells):
        forced = {tuple(cell) for cell in data['forced']}
        if not set(cells) <= forced:
            raise Wrong('a cell is not a forced mine')
        if set(cells) != forced:
            raise Wrong('a forced mine is missing')

    def board_of(self, data, chosen, *, answered):
        """Describes the board; a ring marks a forced mine that the answer lacks."""
        forced = {tuple(cell) for cell in data['forced']} if answered else set()
        cells = {}
        for place, number in boards.cells_by_place(data['board']).items():
            wrong = (place in chosen) != (place in forced)
            if number != HIDDEN:
                cells[place] = boards.Cell(str(number), wrong=wrong)
            else:
                shape = 'mine' if place in chosen else 'ring' if wrong else ''
                new = place in chosen
                cells[place] = boards.Cell('', 'hidden', shape, new, wrong)
        return boards.Board(cells)

    def read(self, record):
        board = read_grid(record['meta']['question'])
        if len(board) > _MOST_SIDE or any(
            number != HIDDEN and not 0 <= number <= 8 for row in board for number in row
        ):
            raise ValueError('a large board, or a number that is not -2 or 0 to 8')
        answer = read_cells(record['answer'])
        try:
            forced = forced_mines(board)
        except counts.Undecided:
            raise ValueError('the numbers leave too much open') from None
        return _data(board, forced) | {'answer': answer}


def forced_mines(board: Grid) -> list[Cell]:
    """Finds the mines of every arrangement that fits a board's numbers, in order.

    Raises ValueError if no arrangement fits, and ``counts.Undecided`` as
    :func:`counts.forced_ones` does.
    """
    side = len(board)
    revealed = []
    for r, row in enumerate(board):
        for c, number in enumerate(row):
            if number != HIDDEN:
                near = [
                    i * side + j
                    for i, j in _around((r, c), side)
                    if board[i][j] == HIDDEN
                ]
                revealed.append(counts.Count(tuple(near), number))
    forced = counts.forced_ones(revealed)
    if forced is None:
        raise ValueError('no arrangement of mines fits the numbers')
    return [divmod(cell, side) for cell in sorted(forced)]


def _data(board: Grid, forced: list[Cell]) -> dict[str, Any]:
    answer = cells_text(forced) if forced else f'"{Minesweeper.none}"'
    return {'board': board, 'forced': [list(cell) for cell in forced], 'answer': answer}


def _around(cell: Cell, side: int) -> list[Cell]:
    """Returns the cells that touch a cell, also diagonally."""
    rows, columns = (range(max(n - 1, 0), min(n + 2, side)) for n in cell)
    return [(r, c) for r in rows for c in columns if (r, c) != cell]


MINESWEEPER = Minesweeper()
