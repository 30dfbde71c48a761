"""Skyscrapers: a Latin square with clues about the view from its four sides.

In ``skyscraper`` a clue counts the visible buildings; in ``sum_skyscraper`` it adds up
their heights.
"""

from collections.abc import Callable, Sequence

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import (
    Grid,
    Puzzle,
    columns,
    grid_text,
    read_grid,
    read_ints,
)
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, integer_grid

_SIDES = ((3, 4), (5, 6), (7, 8))
# The order of the lines of clues, as in Enigmata's prompts.
_EDGES = ('top', 'left', 'right', 'bottom')


class Skyscraper(Puzzle):
    """Skyscrapers; data: ``clues``, four lines in the order of ``question``.

    Any valid grid is right. The strict rule also reads the spellings of
    ``spellings.integer_grid``: commas, bars, tables and lists, digits without
    separators.
    """

    category = 'Grid'

    def __init__(self, name: str, count: str, clue: Callable[[Sequence[int]], int]):
        self.name = name
        self._clue = clue
        self.rules = (
            'Fill a grid of n by n cells with building heights from 1 to n, so that no '
            'height occurs twice in a row or a column. A building hides all lower ones '
            f'behind it. A clue at the end of a row or a column is the {count} that '
            'are seen from there. The first line has the clues above the columns, from '
            'left to right; the second those on the left of the rows, from top to '
            'bottom; the third those on the right of the rows, from top to bottom; the '
            'fourth those below the columns, from left to right. If there are several '
            'solutions, any of them is right.\n'
            'Answer: the complete grid, one row a line, numbers separated by spaces.'
        )

    def generate(self, draws, level):
        grid = latin_square(draws.choice(_SIDES[level]), draws)
        return {'clues': self._clues(grid), 'answer': grid_text(grid)}

    def question(self, data):
        return grid_text(data['clues'])

    def usual(self, data, answer):
        return spellings.integer_grid(answer)

    def check(self, data, answer):
        side = len(data['clues'][0])
        grid = integer_grid(answer, side=side)
        numbers = list(range(1, side + 1))
        for kind, lines in (('row', grid), ('column', columns(grid))):
            for place, line in enumerate(lines, start=1):
                if sorted(line) != numbers:
                    raise Wrong(f'{kind} {place} does not hold 1 to {side} once each')
        self._check_clues(data, grid)

    def check_official(self, data, answer):
        """Checks only the clues: the grid need not be a Latin square."""
        self._check_clues(data, integer_grid(answer, side=len(data['clues'][0])))

    def picture(self, data, answer):
        side = len(data['clues'][0])
        grid, wrong, seen_counts = None, set(), [None] * len(_EDGES)
        if answer:
            grid = integer_grid(answer, side=side)
            wrong = boards.repeated(boards.lines_of(grid), grid)
            wrong |= boards.beyond(grid, 1, side)
            seen_counts = self._clues(grid)
        edges = {
            edge: boards.compared(clues, seen)
            for edge, clues, seen in zip(
                _EDGES, data['clues'], seen_counts, strict=True
            )
        }
        cells = boards.filled([[None] * side] * side, grid, wrong=wrong)
        return boards.Board(cells | boards.clues(side, side, **edges))

    def read(self, record):
        question = record['meta']['question']
        clues = [read_ints(question[edge]) for edge in _EDGES]
        if len({len(line) for line in clues}) != 1 or not 0 < len(clues[0]) <= 64:
            raise ValueError('clues of different lengths')
        return {'clues': clues, 'answer': grid_text(read_grid(record['answer']))}

    def _check_clues(self, data, grid: Grid) -> None:
        for edge, clue, seen in zip(
            _EDGES, data['clues'], self._clues(grid), strict=True
        ):
            if list(clue) != seen:
                raise Wrong(f'a clue differs: {edge}')

    def _clues(self, grid: Grid) -> list[list[int]]:
        lines = columns(grid)
        return [
            [self._clue(column) for column in lines],
            [self._clue(row) for row in grid],
            [self._clue(row[::-1]) for row in grid],
            [self._clue(column[::-1]) for column in lines],
        ]


def visible(heights: Sequence[int]) -> list[int]:
    """Returns the heights visible from the first building's side.

    >>> visible([2, 1, 4, 3])
    [2, 4]
    """
    seen: list[int] = []
    for height in heights:
        if not seen or height > seen[-1]:
            seen.append(height)
    return seen


def latin_square(side: int, draws: Draws) -> Grid:
    """Draws a Latin square; every one is possible, not all are equally likely.

    A row is a perfect matching of columns and the numbers that they lack. One exists
    for every Latin rectangle (Hall's theorem).
    """
    lacking = [set(range(1, side + 1)) for _ in range(side)]
    grid: Grid = []
    for _ in range(side):
        column_of: dict[int, int] = {}
        orders = [draws.shuffled(sorted(numbers)) for numbers in lacking]
        for column in draws.permutation(side):
            _match(column, orders, column_of, set())
        row = [0] * side
        for number, column in column_of.items():
            row[column] = number
            lacking[column].remove(number)
        grid.append(row)
    return grid


def _match(
    column: int, orders: list[list[int]], column_of: dict[int, int], tried: set[int]
) -> bool:
    """Assigns a number to the column; reassigns those of others if necessary."""
    for number in orders[column]:
        if number in tried:
            continue
        tried.add(number)
        other = column_of.get(number)
        if other is None or _match(other, orders, column_of, tried):
            column_of[number] = column
            return True
    return False


SKYSCRAPER = Skyscraper(
    'skyscraper', 'number of buildings', lambda line: len(visible(line))
)
SUM_SKYSCRAPER = Skyscraper(
    'sum_skyscraper', 'sum of the heights of the buildings', lambda x: sum(visible(x))
)
