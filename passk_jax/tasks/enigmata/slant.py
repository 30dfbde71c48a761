r"""Slant: a diagonal in every cell, numbers at the corners, and no closed loop.

Any valid solution is right, and there may be several. 1 is the diagonal / from the
lower left to the upper right corner, as in Enigmata's stored answers; its prompt
describes the other one. Most stored answers close a loop, against the prompt's rule, so
the strict rule rejects them.
"""

import re
from collections.abc import Iterator, Sequence

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import Data, Grid, Puzzle, grid_text, read_grid
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, integer_grid, symbol_rows

# The value of a corner without a number.
UNKNOWN = -1

_SIDE = 6
# For each level, minimum and maximum of corners with a number, in percent.
_NUMBERED = ((80, 90), (60, 70), (50, 50))


_DIAGONALS = str.maketrans('╱╲⟋⟍∕', '/\\/\\/')
_QUOTED = re.compile(r'"([/\\])"')


class Slant(Puzzle):
    """Slant; data: ``corners``, with -1 for a corner without a number.

    Any valid grid is right. The strict rule also reads / and \\ themselves, and the
    spellings of ``spellings.integer_grid``: commas, bars, tables and lists, cells
    without separators.
    """

    name = 'slant'
    category = 'Search'
    rules = (
        'Draw one diagonal in each cell of a square grid: / from the lower left to the '
        'upper right corner, or \\ from the upper left to the lower right corner. The '
        'puzzle shows the corners of the cells, so it has one row and one column more '
        'than the grid. A number says how many diagonals touch its corner; a dot says '
        'nothing. The diagonals form no closed loop. If there are several solutions, '
        'any of them is right.\n'
        'Answer: the grid, one row a line, numbers separated by spaces: 1 for / and '
        '-1 for \\.'
    )

    def generate(self, draws, level):
        grid = _without_loops(_SIDE, draws)
        size = _SIDE + 1
        count = draws.between(*_NUMBERED[level]) * size * size // 100
        numbered = set(draws.permutation(size * size)[:count])
        corners = [
            [
                touch if r * size + c in numbered else UNKNOWN
                for c, touch in enumerate(row)
            ]
            for r, row in enumerate(_touches(grid))
        ]
        return {'corners': corners, 'answer': grid_text(grid)}

    def question(self, data):
        return grid_text(
            [['.' if n == UNKNOWN else n for n in row] for row in data['corners']]
        )

    def usual(self, data, answer):
        """Reads also / and \\ themselves."""
        signs = answer.translate(_DIAGONALS)
        if '"' in signs:
            # JSON writes two backslashes for one.
            signs = _QUOTED.sub(r'\1', signs.replace('\\\\', '\\'))
        if not re.search('[0-9]', signs):
            signs = signs.replace('/', ' 1 ').replace('\\', ' -1 ')
        return spellings.integer_grid(signs)

    def check(self, data, answer):
        grid = _slants(data, answer)
        for numbers, touches in zip(data['corners'], _touches(grid), strict=True):
            if any(
                number not in (UNKNOWN, touch)
                for number, touch in zip(numbers, touches, strict=True)
            ):
                raise Wrong('a corner does not touch its number of diagonals')
        joined = _Joined(len(grid))
        if not all(joined.join(ends) for ends in _diagonals(grid)):
            raise Wrong('diagonals form a closed loop')

    def check_official(self, data, answer):
        """Compares with the stored answer."""
        side = len(data['corners']) - 1
        if integer_grid(answer, side=side) != integer_grid(data['answer'], side=side):
            raise Wrong('not the stored answer')

    def picture(self, data, answer):
        """Marks the last diagonal, in reading order, of a closed loop as wrong."""
        side = len(data['corners']) - 1
        cells = {(r, c): boards.Cell() for r in range(side) for c in range(side)}
        touches = None
        if answer:
            grid = _slants(data, answer)
            touches = boards.cells_by_place(_touches(grid))
            joined = _Joined(side)
            for (r, c), ends in zip(cells, _diagonals(grid), strict=True):
                shape = '/' if grid[r][c] == 1 else '\\'
                wrong = not joined.join(ends)
                cells[r, c] = boards.Cell(shape=shape, new=True, wrong=wrong)
        corners = {
            place: boards.Cell(
                str(number), wrong=touches is not None and number != touches[place]
            )
            for place, number in boards.cells_by_place(data['corners']).items()
            if number != UNKNOWN
        }
        return boards.Board(cells, corners=corners)

    def read(self, record):
        rows = symbol_rows(record['meta']['question'])
        values = {'.': UNKNOWN} | {str(number): number for number in range(5)}
        if not 2 <= len(rows) <= 64 or any(len(row) != len(rows) for row in rows):
            raise ValueError('no square of 2 to 64 rows')
        corners = [[values[number] for number in row] for row in rows]
        grid = read_grid(record['answer'], side=len(corners) - 1)
        return {'corners': corners, 'answer': grid_text(grid)}


def _slants(data: Data, answer: str) -> Grid:
    grid = integer_grid(answer, side=len(data['corners']) - 1)
    if any(abs(cell) != 1 for row in grid for cell in row):
        raise Wrong('a number is neither 1 nor -1')
    return grid


Corner = tuple[int, int]


class _Joined:
    """The corners of a grid, joined by diagonals into trees."""

    def __init__(self, side: int):
        size = range(side + 1)
        self._above = {(r, c): (r, c) for r in size for c in size}

    def join(self, ends: tuple[Corner, Corner]) -> bool:
        """Joins two corners; False if they are already connected."""
        a, b = (self._root(end) for end in ends)
        self._above[a] = b
        return a != b

    def _root(self, corner: Corner) -> Corner:
        while (above := self._above[corner]) != corner:
            # Path halving keeps the ways short.
            self._above[corner] = self._above[above]
            corner = above
        return corner


def _without_loops(side: int, draws: Draws) -> Grid:
    """Draws a grid; if one diagonal of a cell closes a loop, the other one does not.

    The loop separates the ends of the other diagonal, so a way that joins them would
    cross it. Both could only meet at a corner. But the sum of row and column is even at
    every corner of one of them and odd at every corner of the other.
    """
    grid = [[0] * side for _ in range(side)]
    joined = _Joined(side)
    for place in draws.permutation(side * side):
        r, c = divmod(place, side)
        slant = draws.choice((1, -1))
        if not joined.join(_ends(r, c, slant)):
            slant = -slant
            joined.join(_ends(r, c, slant))
        grid[r][c] = slant
    return grid


def _ends(row: int, column: int, slant: int) -> tuple[Corner, Corner]:
    if slant == 1:
        return (row + 1, column), (row, column + 1)
    return (row, column), (row + 1, column + 1)


def _diagonals(grid: Sequence[Sequence[int]]) -> Iterator[tuple[Corner, Corner]]:
    for r, row in enumerate(grid):
        for c, slant in enumerate(row):
            yield _ends(r, c, slant)


def _touches(grid: Sequence[Sequence[int]]) -> Grid:
    """Counts the diagonals that touch each corner."""
    touches = [[0] * (len(grid) + 1) for _ in range(len(grid) + 1)]
    for ends in _diagonals(grid):
        for r, c in ends:
            touches[r][c] += 1
    return touches


SLANT = Slant()
