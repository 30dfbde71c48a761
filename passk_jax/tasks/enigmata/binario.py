"""Binario: a grid of 0 and 1, balanced, without three equal neighbours in a line."""

import itertools
from collections.abc import Sequence

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import Grid, Puzzle, columns, grid_text
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, integer_grid, symbol_rows

# Data holds this for an empty cell.
EMPTY = -1

_SIDES = ((4, 6), (4, 6), (6, 8))
# For each level, minimum and maximum of empty cells, in percent.
_HOLES = ((12, 25), (18, 30), (20, 45))


class Binario(Puzzle):
    """Binario; data: ``grid``, the clues, with -1 for an empty cell.

    Any valid grid is right. The strict rule also reads the spellings of
    ``spellings.integer_grid``: commas, bars, tables and lists, digits without
    separators.
    """

    name = 'binario'
    category = 'Grid'
    rules = (
        'Fill this square grid with 0 and 1. Each row and each column holds as many 0 '
        'as 1. No three equal numbers stand next to each other in a row or a column. '
        'Rows may be equal, and so may columns. The character _ is an empty cell. If '
        'there are several solutions, any of them is right.\n'
        'Answer: the complete grid, one row a line, numbers separated by spaces.'
    )

    def generate(self, draws, level):
        side = draws.choice(_SIDES[level])
        full = _random_grid(side, draws)
        low, high = (share * side * side // 100 for share in _HOLES[level])
        holes = set(draws.sample(range(side * side), draws.between(low, high)))
        grid = [
            [EMPTY if r * side + c in holes else full[r][c] for c in range(side)]
            for r in range(side)
        ]
        return {'grid': grid, 'answer': grid_text(full)}

    def question(self, data):
        cells = [['_' if c == EMPTY else c for c in row] for row in data['grid']]
        return grid_text(cells)

    def usual(self, data, answer):
        return spellings.integer_grid(answer)

    def check(self, data, answer):
        grid = integer_grid(answer, side=len(data['grid']))
        if any(cell not in (0, 1) for row in grid for cell in row):
            raise Wrong('a number is neither 0 nor 1')
        self._check(data, grid)

    def check_official(self, data, answer):
        """Checks like ``check``, but allows integers other than 0 and 1."""
        self._check(data, integer_grid(answer, side=len(data['grid'])))

    def picture(self, data, answer):
        clues = [[None if n == EMPTY else n for n in row] for row in data['grid']]
        grid, wrong = None, set()
        if answer:
            grid = integer_grid(answer, side=len(clues))
            wrong = boards.beyond(grid, 0, 1)
            for line in boards.lines_of(grid):
                wrong.update(_out_of_line([grid[r][c] for r, c in line], line))
        return boards.Board(boards.filled(clues, grid, wrong=wrong))

    def read(self, record):
        rows = symbol_rows(record['meta']['question'])
        if any(len(row) != len(rows) for row in rows) or not 0 < len(rows) <= 64:
            raise ValueError('not a square')
        values = {'_': EMPTY, '0': 0, '1': 1}
        grid = [[values[cell] for cell in row] for row in rows]
        return {'grid': grid, 'answer': str(record['answer'])}

    def _check(self, data, grid: Grid) -> None:
        for clues, row in zip(data['grid'], grid, strict=True):
            if any(a not in (EMPTY, b) for a, b in zip(clues, row, strict=True)):
                raise Wrong('a clue is changed')
        for kind, lines in (('row', grid), ('column', columns(grid))):
            for place, line in enumerate(lines, start=1):
                if any(2 * line.count(cell) > len(line) for cell in line):
                    raise Wrong(f'{kind} {place} is not balanced')
                if _has_triple(line):
                    raise Wrong(f'{kind} {place} has three equal neighbours')


def _random_grid(side: int, draws: Draws) -> Grid:
    """Draws a valid grid row by row; starts over at a dead end."""
    rows = [row for row in itertools.product((0, 1), repeat=side) if _balanced(row)]
    grid: Grid = []
    while len(grid) < side:
        for row in draws.shuffled(rows):
            longer = [*grid, list(row)]
            if all(_can_continue(column, side) for column in columns(longer)):
                grid = longer
                break
        else:
            grid = []
    return grid


def _balanced(line: tuple[int, ...]) -> bool:
    return 2 * sum(line) == len(line) and _can_continue(line, len(line))


def _can_continue(line: tuple[int, ...], side: int) -> bool:
    """Tells whether the first cells of a line break no rule."""
    ones = sum(line)
    return 2 * max(ones, len(line) - ones) <= side and not _has_triple(line)


def _out_of_line(
    line: Sequence[int], places: Sequence[boards.Place]
) -> set[boards.Place]:
    """Returns the places of three equal neighbours, or of a number too many."""
    wrong = {
        place
        for number, place in zip(line, places, strict=True)
        if 2 * line.count(number) > len(line)
    }
    for start in range(len(line) - 2):
        if _has_triple(line[start : start + 3]):
            wrong.update(places[start : start + 3])
    return wrong


def _has_triple(line: Sequence[int]) -> bool:
    return any(line[i] == line[i + 1] == line[i + 2] for i in range(len(line) - 2))


BINARIO = Binario()
