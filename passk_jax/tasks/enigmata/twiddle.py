"""Twiddle: counterclockwise turns of 2x2 cells that sort a square of 3x3."""

from collections.abc import Sequence

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import Grid, Puzzle, grid_text, read_grid
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, pair_chain

_GOAL = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
# For each level, the turns of the scramble. One or two, as in Enigmata's easy problems,
# give only 20 boards, too few for disjoint splits.
_TURNS = ((3, 4), (5, 5), (6, 6))


class Twiddle(Puzzle):
    """Twiddle; data: ``board``. Any sequence of turns to the goal is right.

    The strict rule also reads the spellings of ``spellings.pairs``: other arrows,
    commas, spaces or lines between the pairs, a list of pairs.
    """

    name = 'twiddle'
    category = 'Sequential'
    rules = (
        'The board has 3 rows of 3 cells with the numbers 1 to 9. A step (i, j) turns '
        'the four cells of rows i and i+1 and columns j and j+1 counterclockwise by '
        'one place; i and j are 0 or 1, the first row and column are 0. Reach the '
        'board whose rows are 1 2 3, 4 5 6 and 7 8 9. A solution exists.\n'
        'Answer: the steps joined by arrows, for example (0,0)->(1,1)->(0,1)'
    )

    def generate(self, draws, level):
        board = _GOAL
        steps = []
        for _ in range(draws.between(*_TURNS[level])):
            corner = draws.choice(CORNERS)
            # Three more turns undo one.
            for _ in range(3):
                board = turned(board, *corner)
            steps.append(corner)
        if board == _GOAL:
            return self.generate(draws, level)
        answer = '->'.join(f'({i},{j})' for i, j in reversed(steps))
        return {'board': board, 'answer': answer}

    def question(self, data):
        return grid_text(data['board'])

    def usual(self, data, answer):
        return '->'.join(f'({i},{j})' for i, j in spellings.pairs(answer))

    def check(self, data, answer):
        board, error = _reached(data['board'], pair_chain(answer))
        if error:
            raise Wrong(error)
        if board != _GOAL:
            raise Wrong('the numbers are not in order')

    def picture(self, data, answer):
        start, end, error = data['board'], None, ''
        if answer:
            end, error = _reached(start, pair_chain(answer))
        return boards.moved(start, end, _GOAL, note=error)

    def read(self, record):
        board = read_grid(record['meta']['question'], side=3)
        steps = record['answer']
        if not isinstance(steps, list):
            return {'board': board, 'answer': str(steps)}
        answer = '->'.join(f'({int(i)},{int(j)})' for i, j in steps)
        return {'board': board, 'answer': answer}


def _reached(board: Grid, steps: Sequence[tuple[int, int]]) -> tuple[Grid, str]:
    """Returns the board before the first failing step, and why it fails, or ``''``."""
    for count, corner in enumerate(steps, start=1):
        if corner not in CORNERS:
            return board, f'step {count} is outside the board'
        board = turned(board, *corner)
    return board, ''


def turned(board: Grid, row: int, column: int) -> Grid:
    """Returns the board after a step."""
    result = [list(line) for line in board]
    result[row][column] = board[row][column + 1]
    result[row + 1][column] = board[row][column]
    result[row + 1][column + 1] = board[row + 1][column]
    result[row][column + 1] = board[row + 1][column + 1]
    return result


TWIDDLE = Twiddle()
