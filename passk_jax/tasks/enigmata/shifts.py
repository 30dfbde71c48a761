"""The 9 and 16 puzzles: cyclic shifts of rows and columns that sort a square.

A shift of three cells is an even permutation, so half of all 3x3 boards cannot be
sorted; with four cells a shift is odd, and every 4x4 board can be.
"""

import re
from collections.abc import Sequence

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import (
    Grid,
    Puzzle,
    cells_of,
    columns,
    grid_text,
    read_grid,
)
from passk_jax.tasks.enigmata.sliding import odd
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, claims, text_list

_NONE = 'No valid sequence of moves exists.'
_MOVE = re.compile(r'([RC])([1-9])([1-9])')
_USUAL = re.compile(
    r'\b([RC])[ _(-]?\{?([1-9])[ ,-]{0,2}([1-9])\b\}?\)?', re.IGNORECASE
)


class ShiftPuzzle(Puzzle):
    """The 9 or the 16 puzzle; data: ``board``.

    Any sequence of moves to the goal is right. The strict rule also reads the spellings
    of ``spellings.items``, such as lines, arrows and no quotes, lower case, ``R1,2``
    and ``R(1,2)``.
    """

    category = 'Sequential'
    none = _NONE

    def __init__(self, name: str, side: int, moves: Sequence[tuple[int, int]]):
        self.name = name
        self._side = side
        # For each level, minimum and maximum of moves of the scramble.
        self._moves = moves
        self.rules = (
            f'The board has {side} rows of {side} cells with the numbers 1 to '
            f'{side * side}. The move RAB shifts row A to the left by B cells, and CAB '
            'shifts column A upwards by B cells; what leaves the board comes in at the '
            f'other end. A is a number from 1 to {side} and B from 1 to {side - 1}. '
            'Reach the board whose numbers are in order, row by row, or find that it '
            'is impossible.\n'
            'Answer: the moves as a list, for example ["R11", "C21"]. If it is '
            f'impossible: "{_NONE}"'
        )

    def generate(self, draws, level):
        """Scrambles by random moves; one in six 3x3 boards is impossible."""
        side = self._side
        board, moves, last = _goal(side), [], ''
        num_moves = draws.between(*self._moves[level])
        while len(moves) < num_moves:
            line = draws.choice('RC') + str(draws.between(1, side))
            # Shifting the same line twice in a row amounts to one shift.
            if line == last:
                continue
            steps = draws.between(1, side - 1)
            board = shifted(board, line[0], int(line[1]), steps)
            moves.append(f'{line}{side - steps}')
            last = line
        answer = '[' + ', '.join(f'"{move}"' for move in reversed(moves)) + ']'
        if side == 3 and draws.chance(1, 6):
            cells = [{1: 2, 2: 1}.get(cell, cell) for cell in cells_of(board)]
            board = [cells[i : i + side] for i in range(0, side * side, side)]
            answer = f'"{_NONE}"'
        elif board == _goal(side):
            return self.generate(draws, level)
        return {'board': board, 'answer': answer}

    def question(self, data):
        return grid_text(data['board'])

    def usual(self, data, answer):
        return spellings.items(
            answer, _USUAL, lambda move: ''.join(move.groups()).upper()
        )

    def check(self, data, answer):
        if claims(answer, _NONE):
            if solvable(data['board']):
                raise Wrong('there is a sequence of moves')
            return
        board = data['board']
        for move in read_moves(answer, side=self._side):
            board = shifted(board, *move)
        if board != _goal(self._side):
            raise Wrong('the numbers are not in order')

    def check_official(self, data, answer):
        """Checks like ``check``, but always rejects the claim that there is no way."""
        if claims(answer, _NONE):
            raise Wrong('the official verifier accepts no such claim')
        self.check(data, answer)

    def picture(self, data, answer):
        start, end, error = data['board'], None, ''
        if answer:
            end, error = _reached(start, text_list(answer))
        return boards.moved(start, end, _goal(self._side), note=error)

    def read(self, record):
        board = read_grid(record['meta']['question'], side=self._side)
        if sorted(cells_of(board)) != list(range(1, self._side**2 + 1)):
            raise ValueError('the board does not hold every number once')
        return {'board': board, 'answer': '' if solvable(board) else f'"{_NONE}"'}


def read_moves(answer: str, *, side: int) -> list[tuple[str, int, int]]:
    """Reads the moves of an answer: R or C, the line from 1, and the distance."""
    moves = []
    for count, move in enumerate(text_list(answer), start=1):
        if (read := _read_move(move, side=side)) is None:
            raise Wrong(f'move {count} is not a move')
        moves.append(read)
    return moves


def _read_move(move: str, *, side: int) -> tuple[str, int, int] | None:
    match = _MOVE.fullmatch(move)
    if not match or int(match[2]) > side or int(match[3]) >= side:
        return None
    return match[1], int(match[2]), int(match[3])


def solvable(board: Sequence[Sequence[int]]) -> bool:
    """Tells whether shifts sort the board."""
    return len(board) % 2 == 0 or not odd(cells_of(board))


def _reached(board: Grid, moves: Sequence[str]) -> tuple[Grid, str]:
    """Returns the board before the first failing move, and why it fails, or ``''``."""
    for count, move in enumerate(moves, start=1):
        if (read := _read_move(move, side=len(board))) is None:
            return board, f'move {count} is not a move'
        board = shifted(board, *read)
    return board, ''


def _goal(side: int) -> Grid:
    return [list(range(i * side + 1, (i + 1) * side + 1)) for i in range(side)]


def shifted(board: Grid, kind: str, line: int, steps: int) -> Grid:
    """Returns the board after a move; lines count from 1."""
    rows = [list(row) for row in (board if kind == 'R' else columns(board))]
    row = rows[line - 1]
    rows[line - 1] = row[steps:] + row[:steps]
    return rows if kind == 'R' else [list(column) for column in columns(rows)]


NINE_PUZZLE = ShiftPuzzle('nine_puzzle', 3, ((2, 3), (4, 5), (6, 8)))
SIXTEEN_PUZZLE = ShiftPuzzle('sixteen_puzzle', 4, ((2, 3), (4, 6), (7, 10)))
