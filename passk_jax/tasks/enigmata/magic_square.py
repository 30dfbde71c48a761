"""Magic squares of 3x3 cells with blanks; any valid completion is right."""

import collections

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import Grid, Puzzle, columns, grid_text, read_grid
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, integer_grid

# For each level, minimum and maximum of blanks.
_BLANKS = ((2, 3), (4, 5), (6, 7))
# A blank is None in records and in data.
_BLANK = None


class MagicSquare(Puzzle):
    """Magic square; data: ``numbers``, 0 for a blank, and ``given``, 1 for a number.

    The strict rule also reads the spellings of ``spellings.integer_grid``: commas,
    bars, tables and lists, digits without separators.
    """

    name = 'magic_square'
    category = 'Grid'
    rules = (
        'Complete this square so that the integers in every row, every column and both '
        'diagonals have the same sum. A dot is a blank. No integer that you fill in '
        'may equal one that is given. Integers may be negative. If there are several '
        'solutions, any of them is right.\n'
        'Answer: the complete grid, one row a line, numbers separated by spaces.'
    )

    def generate(self, draws, level):
        full = _random_square(draws, level)
        low, high = _BLANKS[level]
        blanks = set(draws.sample(range(9), draws.between(low, high)))
        is_clue = [[int(3 * r + c not in blanks) for c in range(3)] for r in range(3)]
        numbers = [[full[r][c] * is_clue[r][c] for c in range(3)] for r in range(3)]
        return {'numbers': numbers, 'given': is_clue, 'answer': grid_text(full)}

    def question(self, data):
        return grid_text(
            [
                [cell if is_clue else '.' for cell, is_clue in zip(*rows, strict=True)]
                for rows in zip(data['numbers'], data['given'], strict=True)
            ]
        )

    def usual(self, data, answer):
        return spellings.integer_grid(answer)

    def check(self, data, answer):
        side = len(data['numbers'])
        grid = integer_grid(answer, side=side)
        cells = [
            (cell, number, is_clue)
            for rows in zip(grid, data['numbers'], data['given'], strict=True)
            for cell, number, is_clue in zip(*rows, strict=True)
        ]
        if any(is_clue and cell != number for cell, number, is_clue in cells):
            raise Wrong('a given number is changed')
        clues = {number for _, number, is_clue in cells if is_clue}
        if any(not is_clue and cell in clues for cell, _, is_clue in cells):
            raise Wrong('a filled number equals a given one')
        if len(set(_sums(grid).values())) != 1:
            raise Wrong('the sums differ')

    def check_official(self, data, answer):
        """Compares with the stored answer; an answer with a sign is malformed."""
        grid = integer_grid(answer, side=len(data['numbers']))
        if '-' in answer or '+' in answer:
            raise Wrong('a sign, which the official verifier cannot read')
        if grid_text(grid) != data['answer']:
            raise Wrong('not the stored answer')

    def picture(self, data, answer):
        """Shows an answer's sums beside the square, the less frequent ones as wrong."""
        pairs = zip(data['numbers'], data['given'], strict=True)
        clues = [
            [n if clue_numbers else None for n, clue_numbers in zip(*rows, strict=True)]
            for rows in pairs
        ]
        if not answer:
            room = dict.fromkeys(_sums(data['numbers']), boards.Cell(kind='clue'))
            return boards.Board(boards.filled(clues, None) | room)
        grid = integer_grid(answer, side=len(clues))
        clue_numbers = {n for row in clues for n in row if n is not None}
        wrong = {p for p, n in boards.cells_by_place(grid).items() if n in clue_numbers}
        cells = boards.filled(clues, grid, wrong=wrong)
        sums = _sums(grid)
        ((usual, _),) = collections.Counter(sums.values()).most_common(1)
        for place, total in sums.items():
            cells[place] = boards.Cell(str(total), 'clue', wrong=total != usual)
        return boards.Board(cells)

    def read(self, record):
        question = record['meta']['question']
        numbers = read_grid(question)
        is_clue = [[int(cell is not _BLANK) for cell in row] for row in question]
        answer = grid_text(read_grid(record['answer'], side=len(numbers)))
        return {'numbers': numbers, 'given': is_clue, 'answer': answer}


def _sums(grid: Grid) -> dict[boards.Place, int]:
    """Returns the sum of each line, by the place at its end beside the square."""
    side = len(grid)
    sums = {(place, side): sum(row) for place, row in enumerate(grid)}
    for place, column in enumerate(columns(grid)):
        sums[side, place] = sum(column)
    sums[side, side] = sum(grid[i][i] for i in range(side))
    sums[side, -1] = sum(grid[i][side - 1 - i] for i in range(side))
    return sums


def _random_square(draws, level: int) -> Grid:
    """Draws a magic square of nine different numbers.

    Every magic square has the form [[c-a, c+a+b, c-b], [c+a-b, c, c-a+b], [c+b, c-a-b,
    c+a]].
    """
    while True:
        c, a, b = (draws.between(-m, m) for m in (20 + 10 * level, 15, 15))
        grid = [
            [c - a, c + a + b, c - b],
            [c + a - b, c, c - a + b],
            [c + b, c - a - b, c + a],
        ]
        if len({cell for row in grid for cell in row}) == 9:
            return grid


MAGIC_SQUARE = MagicSquare()
