"""Hitori: blacken cells until no row or column shows a number twice.

Any valid solution is right, and there may be several.
"""

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.chosen_cells import (
    Cell,
    ChosenCells,
    cells_text,
    neighbours,
    read_cells,
)
from passk_jax.tasks.enigmata.puzzle import columns, grid_text, read_grid
from passk_jax.tasks.enigmata.skyscraper import latin_square
from passk_jax.verifiers.answers import Wrong

_SIDES = (4, 4, 5)
# For each level, minimum and maximum of black cells, if there is room for so many.
_BLACK = ((2, 3), (4, 5), (5, 7))


class Hitori(ChosenCells):
    """Hitori; data: ``grid``. Any valid set of black cells is right, in any order.

    Every generated problem has a solution.
    """

    name = 'hitori'
    none = 'No valid solution exists for the given Hitori puzzle.'
    rules = (
        'Blacken cells of this square grid of numbers. Among the cells that stay white '
        'no number stands twice in a row or in a column. No two black cells share a '
        'side. All white cells hang together: from each to any other there is a way '
        'over white cells that share sides. Rows and columns are numbered from 0. If '
        'there are several solutions, any of them is right.\n'
        'Answer: the black cells as a list of (row, column), for example '
        f'[(0, 0), (1, 3)]. If there is no solution: "{none}"'
    )

    def generate(self, draws, level):
        """Draws a Latin square; a black cell repeats a white one in its line."""
        side = _SIDES[level]
        grid = latin_square(side, draws)
        black = _random_black(side, draws.between(*_BLACK[level]), draws)
        for r, c in black:
            row, column = [(r, k) for k in range(side)], [(k, c) for k in range(side)]
            white = [cell for cell in row + column if cell not in black]
            i, j = draws.choice(white)
            grid[r][c] = grid[i][j]
        return {'grid': grid, 'answer': cells_text(black)}

    def question(self, data):
        return grid_text(data['grid'])

    def shape(self, data):
        return len(data['grid']), len(data['grid'])

    def check_cells(self, data, cells):
        grid = [list(row) for row in data['grid']]
        if not _apart(cells, len(grid)):
            raise Wrong('two black cells share a side')
        for r, c in cells:
            grid[r][c] = 0
        for kind, lines in (('row', grid), ('column', columns(grid))):
            for place, line in enumerate(lines):
                seen = [number for number in line if number]
                if len(set(seen)) != len(seen):
                    raise Wrong(f'{kind} {place} shows a number twice')
        if not _white_connected(set(cells), len(grid)):
            raise Wrong('the white cells do not hang together')

    def board_of(self, data, chosen, *, answered):
        grid = data['grid']
        numbers = boards.cells_by_place(grid)
        white = [
            [0 if (r, c) in chosen else number for c, number in enumerate(row)]
            for r, row in enumerate(grid)
        ]
        wrong = boards.repeated(boards.lines_of(white), white) if answered else set()
        for place in chosen:
            if chosen & set(neighbours(place, height=len(grid), width=len(grid))):
                wrong.add(place)
        cells = {}
        for place, number in numbers.items():
            kind = 'picked' if place in chosen else 'free'
            cells[place] = boards.Cell(str(number), kind, wrong=place in wrong)
        return boards.Board(cells)

    def read(self, record):
        grid = read_grid(record['meta']['question'])
        if any(number < 1 for row in grid for number in row):
            raise ValueError('a number below 1')
        return {'grid': grid, 'answer': read_cells(record['answer'])}


def _random_black(side: int, count: int, draws: Draws) -> list[Cell]:
    """Draws up to ``count`` cells that share no side and leave the rest connected."""
    black: list[Cell] = []
    for place in draws.permutation(side * side):
        if len(black) == count:
            break
        more = [*black, divmod(place, side)]
        if _apart(more, side) and _white_connected(set(more), side):
            black = more
    return sorted(black)


def _apart(cells: list[Cell], side: int) -> bool:
    chosen = set(cells)
    return not any(
        chosen & set(neighbours(cell, height=side, width=side)) for cell in cells
    )


def _white_connected(black: set[Cell], side: int) -> bool:
    white = {(r, c) for r in range(side) for c in range(side)} - black
    if not white:
        return False
    reached = [min(white)]
    white.remove(reached[0])
    # The loop appends to this list.
    for cell in reached:
        near = white.intersection(neighbours(cell, height=side, width=side))
        white -= near
        reached += sorted(near)
    return not white


HITORI = Hitori()
