"""The 8 puzzle and the 15 puzzle; a letter moves the blank, as in Enigmata's verifier.

Enigmata's prompt says that tiles move, which would reverse every letter.
"""

import re
from collections.abc import Sequence

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import Grid, Puzzle, cells_of, read_grid
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, claims

_NONE = 'No feasible move path exists.'
# The blank's step: row and column.
_STEPS = {'U': (-1, 0), 'D': (1, 0), 'L': (0, -1), 'R': (0, 1)}
_BACK = {'U': 'D', 'D': 'U', 'L': 'R', 'R': 'L'}
_FOREIGN = re.compile(r'[^UDLR]')
_SPACES = re.compile(r'[ \t\r\n]')


class SlidingPuzzle(Puzzle):
    """The 8 or the 15 puzzle; data: ``board``, with 0 for the blank.

    Any path to the goal is right. The strict rule also reads the spellings of
    ``spellings.moves``: lower case, words, arrows, lists.
    """

    category = 'Sequential'
    none = _NONE

    def __init__(self, name: str, side: int, moves: Sequence[tuple[int, int]]):
        self.name = name
        self._side = side
        # For each level, minimum and maximum of moves of the scramble.
        self._moves = moves
        self.rules = (
            f'The board has {side} rows of {side} cells, the tiles 1 to '
            f'{side * side - 1} and a blank, written as 0. A move swaps the blank with '
            'the tile above (U), below (D), left (L) or right (R) of it. Reach the '
            'board whose tiles are in order, row by row, with the blank in the last '
            'cell, or find that it is impossible. The path need not be the shortest.\n'
            'Answer: the moves of the blank as one string of the letters U, D, L and '
            f'R, for example LURD. If it is impossible: {_NONE}'
        )

    def generate(self, draws, level):
        """Scrambles by random moves; one in six boards is impossible."""
        board = _goal(self._side)
        blank, last, moves = (self._side - 1, self._side - 1), '', []
        num_moves = draws.between(*self._moves[level])
        while len(moves) < num_moves:
            move = draws.choice('UDLR')
            ahead = _move(board, blank, move)
            if ahead is None or move == _BACK.get(last):
                continue
            board, blank = ahead
            last = move
            moves.append(move)
        answer = ''.join(_BACK[move] for move in reversed(moves))
        if draws.chance(1, 6):
            # Swapping two tiles changes the parity, which moves preserve.
            where = {
                cell: divmod(i, self._side) for i, cell in enumerate(cells_of(board))
            }
            (a, b), (c, d) = where[1], where[2]
            board[a][b], board[c][d] = 2, 1
            answer = _NONE
        elif board == _goal(self._side):
            return self.generate(draws, level)
        return {'board': board, 'answer': answer}

    def question(self, data):
        return _aligned(data['board'])

    def usual(self, data, answer):
        return spellings.moves(answer)

    def check(self, data, answer):
        if claims(answer, _NONE):
            if solvable(data['board']):
                raise Wrong('there is a path')
            return
        self._check_moves(data, read_moves(answer))

    def check_official(self, data, answer):
        """Checks like ``check``, but ignores characters that are not moves."""
        if claims(answer, _NONE):
            return self.check(data, answer)
        moves = _FOREIGN.sub('', answer)
        if not moves:
            raise Wrong('no moves')
        return self._check_moves(data, moves)

    def picture(self, data, answer):
        start, end, error = data['board'], None, ''
        if answer:
            end, error = _reached(start, read_moves(answer))
        return boards.moved(start, end, _goal(len(start)), note=error)

    def read(self, record):
        board = read_grid(record['meta']['question'], side=self._side)
        if sorted(cells_of(board)) != list(range(self._side**2)):
            raise ValueError('the board does not hold every tile once')
        return {'board': board, 'answer': '' if solvable(board) else _NONE}

    def _check_moves(self, data, moves: str) -> None:
        board, error = _reached(data['board'], moves)
        if error:
            raise Wrong(error)
        if board != _goal(len(board)):
            raise Wrong('the tiles are not in order')


def read_moves(answer: str) -> str:
    """Reads the moves of an answer, which may be separated."""
    moves = _SPACES.sub('', answer)
    if foreign := _FOREIGN.search(moves):
        raise Wrong(f'{foreign[0]!r} is not a move')
    return moves


def solvable(board: Sequence[Sequence[int]]) -> bool:
    """Tells whether moves of the blank lead to the goal.

    Each move swaps two cells and moves the blank by one. So whether the parity of the
    permutation equals that of the blank's distance to its corner never changes.
    """
    side = len(board)
    cells = [cell or side * side for cell in cells_of(board)]
    row, column = divmod(cells.index(side * side), side)
    way = (side - 1 - row) + (side - 1 - column)
    return (odd(cells) + way) % 2 == 0


def odd(cells: Sequence[int]) -> bool:
    """Tells whether an odd number of swaps sorts the cells, which differ.

    >>> odd([2, 1, 3]), odd([2, 3, 1])
    (True, False)
    """
    inversions = sum(
        earlier > later for i, earlier in enumerate(cells) for later in cells[i + 1 :]
    )
    return inversions % 2 == 1


def _reached(start: Sequence[Sequence[int]], moves: str) -> tuple[Grid, str]:
    """Returns the board before the first failing move, and why it fails, or ``''``."""
    board = [list(row) for row in start]
    side = len(board)
    row, column = divmod(cells_of(board).index(0), side)
    for count, move in enumerate(moves, start=1):
        down, right = _STEPS[move]
        to_row, to_column = row + down, column + right
        if not (0 <= to_row < side and 0 <= to_column < side):
            return board, f'left the board at move {count}'
        board[row][column] = board[to_row][to_column]
        row, column = to_row, to_column
        board[row][column] = 0
    return board, ''


def _goal(side: int) -> Grid:
    cells = [*range(1, side * side), 0]
    return [cells[i : i + side] for i in range(0, side * side, side)]


def _move(
    board: Grid, blank: tuple[int, int], move: str
) -> tuple[Grid, tuple[int, int]] | None:
    """Returns the board and the blank's cell after a move; ``None`` if outside."""
    row, column = (a + b for a, b in zip(blank, _STEPS[move], strict=True))
    if not (0 <= row < len(board) and 0 <= column < len(board)):
        return None
    board = [list(line) for line in board]
    board[blank[0]][blank[1]] = board[row][column]
    board[row][column] = 0
    return board, (row, column)


def _aligned(board: Sequence[Sequence[int]]) -> str:
    width = len(str(len(board) ** 2))
    return '\n'.join(' '.join(f'{cell:>{width}}' for cell in row) for row in board)


EIGHT_PUZZLE = SlidingPuzzle('eight_puzzle', 3, ((8, 12), (13, 18), (19, 30)))
FIFTEEN_PUZZLE = SlidingPuzzle('fifteen_puzzle', 4, ((8, 16), (17, 32), (33, 60)))
