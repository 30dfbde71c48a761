"""Tic-tac-toe: a move that keeps the best result that can be forced.

Any such move is right. A win counts the same however many moves it takes, so a move
that wins later is as right as one that wins at once; the official verifier rejects it.
"""

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import Data, Puzzle
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, symbol_rows

MARKS = 'OX'
# The value of an empty cell; a mark has its index in ``MARKS``.
EMPTY = -1

# For each level, the marks on the board.
_MARKED = ((6, 7), (5,), (1, 2, 3, 4))
_LINES = tuple(
    sum(1 << cell for cell in line)
    for line in (
        *((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8)),
        *((0, 4, 8), (2, 4, 6)),
    )
)
_FULL = (1 << 9) - 1
_CELLS = {'""': EMPTY, '"O"': 0, '"X"': 1}
_PLAYER = re.compile(r'[OX]')

# The cells of the player to move and of the other player, as bits.
State = tuple[int, int]


class TicTacToe(Puzzle):
    """Tic-tac-toe; data: ``board``, nine cells, and ``player``.

    Any best move is right. In generated problems not every move is a best one.

    The strict rule also reads marks without quotes, in lower case or as ❌ and ⭕;
    empty cells as ``.``, ``_``, ``-``, ``null`` or nothing between bars; and rows as
    lists, tables or without separators.
    """

    name = 'tic_tac_toe'
    category = 'Search'
    rules = (
        'Two players, X and O, take turns on a board of 3 by 3 cells; either may have '
        'begun. A turn puts the mark of the player on an empty cell. Three marks of a '
        'player in a row, a column or a diagonal win; a full board without them is a '
        'draw. Make the best next move of the player who is named: one after which '
        'the player can force a win, or a draw if no move forces a win. If there are '
        'several, any of them is right.\n'
        'Answer: the board after the move, one row a line, cells separated by spaces: '
        '"X", "O" or "".'
    )

    def generate(self, draws, level):
        states = [state for n in _MARKED[level] for state in _states()[n]]
        state = draws.choice(states)
        player = draws.below(2)
        board = _board(state, player)
        move = draws.choice(_urgent_moves(state) or sorted(best_moves(state)))
        return {
            'board': board,
            'player': player,
            'answer': _text(_after(board, move, player)),
        }

    def question(self, data):
        return f'You are {MARKS[data["player"]]}.\n{_text(data["board"])}'

    def usual(self, data, answer):
        """Reads ``.``, ``_``, ``-`` and nothing between bars as empty cells too."""
        return _text([_usual_cell(cell) for cell in _cells(answer)])

    def check(self, data, answer):
        if _move(data, answer) not in best_moves(state_of(data)):
            raise Wrong('a better move exists')

    def check_official(self, data, answer):
        """Requires a winning move, else one that blocks a win, else a best move."""
        state = state_of(data)
        if _move(data, answer) not in (_urgent_moves(state) or best_moves(state)):
            raise Wrong('a better move exists')

    def picture(self, data, answer):
        """Marks the new mark as wrong if a better move exists, and any other change."""
        board, moves, good = data['board'], [], set()
        cells = board
        if answer:
            cells = read_board(answer)
            moves = [i for i, cell in enumerate(cells) if cell != board[i]]
            with contextlib.suppress(Wrong):
                _move(data, answer)
                good = best_moves(state_of(data))
        names = {EMPTY: ''} | dict(enumerate(MARKS))
        drawn = {
            divmod(i, 3): boards.Cell(
                names[cells[i] if i in moves else cell],
                'free' if cell == EMPTY else 'given',
                new=i in moves,
                wrong=i in moves and i not in good,
            )
            for i, cell in enumerate(board)
        }
        return boards.Board(drawn, note=f'{MARKS[data["player"]]} to move')

    def read(self, record):
        meta = record['meta']
        if not _PLAYER.fullmatch(meta['active_player']):
            raise ValueError('the player is neither O nor X')
        player = MARKS.index(meta['active_player'])
        values = {'': EMPTY, 'O': 0, 'X': 1}
        board, answer = (
            [values[cell] for row in rows for cell in row]
            for rows in (meta['current_board'], record['answer'])
        )
        if [len(row) for row in meta['current_board']] != [3, 3, 3] or len(answer) != 9:
            raise ValueError('no board of 3 by 3')
        mover, waiting = state = state_of({'board': board, 'player': player})
        # The first player has as many marks as the other, or one more.
        turns = waiting.bit_count() - mover.bit_count()
        if (
            turns not in (0, 1)
            or _wins(mover)
            or _wins(waiting)
            or not any(_moves(state))
        ):
            raise ValueError('no move is to be made on this board')
        return {'board': board, 'player': player, 'answer': _text(answer)}


def best_moves(state: State) -> set[int]:
    """Returns the cells whose marking keeps the best result that can be forced."""
    results = {move: -_value(*_next(state, move)) for move in _moves(state)}
    return {move for move, result in results.items() if result == max(results.values())}


def _urgent_moves(state: State) -> list[int]:
    """Returns the moves that win at once, or else those that block the other's win."""
    for marks in state:
        if urgent := [move for move in _moves(state) if _wins(marks | 1 << move)]:
            return urgent
    return []


@functools.cache
def _value(mover: int, waiting: int) -> int:
    """Returns 1 if the player to move can force a win, 0 for a draw, -1 for a loss."""
    if _wins(waiting):
        return -1
    state = mover, waiting
    return max((-_value(*_next(state, move)) for move in _moves(state)), default=0)


@functools.cache
def _states() -> list[list[State]]:
    """Lists, by number of marks, the states in which not every move is a best one."""
    layers: list[list[State]] = [[(0, 0)]]
    while len(layers) < 9:
        ahead = {
            after
            for state in layers[-1]
            for move in _moves(state)
            if not _wins((after := _next(state, move))[1])
        }
        layers.append(sorted(ahead))
    return [
        [state for state in layer if best_moves(state) != set(_moves(state))]
        for layer in layers
    ]


def read_board(answer: str) -> list[int]:
    """Reads the nine cells of an answer, in the form of ``board``."""
    rows = symbol_rows(answer)
    if [len(row) for row in rows] != [3, 3, 3]:
        raise Wrong('no board of 3 by 3')
    cells = [cell for row in rows for cell in row]
    if any(cell not in _CELLS for cell in cells):
        raise Wrong('a cell is not "X", "O" or ""')
    return [_CELLS[cell] for cell in cells]


_BOX_BARS = str.maketrans('│┃║', '|||')


def _cells(answer: str) -> list[str]:
    """Splits an answer into nine cells, with any separators or none."""
    cells: list[str] = []
    for row in spellings.table_rows(answer.translate(_BOX_BARS)):
        if '|' in row:
            row_cells = row.split('|')
            # Bars around a row make its first and last part empty.
            if len(row_cells) == 5:
                row_cells = row_cells[1:-1]
            elif len(row_cells) == 4 and bool(row_cells[0]) != bool(row_cells[-1]):
                row_cells = row_cells[:-1] if row_cells[0] else row_cells[1:]
        elif ',' in row:
            row_cells = row.split(',')
            if len(row_cells) == 4 and not row_cells[-1].strip():
                row_cells.pop()
        else:
            row_cells = row.split()
        if len(row_cells) == 1:
            row_cells = list(row_cells[0])
        if len(row_cells) != 3:
            raise Wrong('no row of three cells')
        cells += row_cells
    return cells


def _usual_cell(cell: str) -> int:
    cell = cell.strip().strip('"\'`*').strip().lower()
    for symbols, value in (('o⭕○', 0), ('x❌✕×', 1), ('._-·□☐⬜', EMPTY)):
        if cell and cell in symbols:
            return value
    if cell not in ('', 'null', 'none', 'empty'):
        raise Wrong('a cell is not X, O or empty')
    return EMPTY


def _moves(state: State) -> Iterator[int]:
    empty = _FULL & ~(state[0] | state[1])
    return (cell for cell in range(9) if empty >> cell & 1)


def _next(state: State, move: int) -> State:
    return state[1], state[0] | 1 << move


def _wins(marks: int) -> bool:
    return any(marks & line == line for line in _LINES)


def state_of(data: Data) -> State:
    """Returns the cells of the player to move and of the other player."""
    mover, waiting = (
        sum(1 << i for i, cell in enumerate(data['board']) if cell == player)
        for player in (data['player'], 1 - data['player'])
    )
    return mover, waiting


def _board(state: State, player: int) -> list[int]:
    mover, waiting = state
    return [
        player if mover >> i & 1 else 1 - player if waiting >> i & 1 else EMPTY
        for i in range(9)
    ]


def _after(board: Sequence[int], move: int, player: int) -> list[int]:
    return [player if i == move else cell for i, cell in enumerate(board)]


def _text(board: Sequence[int]) -> str:
    names = {value: name for name, value in _CELLS.items()}
    cells = [names[cell] for cell in board]
    return '\n'.join(' '.join(cells[i : i + 3]) for i in (0, 3, 6))


def _move(data, answer: str) -> int:
    """Returns the cell that an answer marks; it may change nothing else."""
    cells, board, player = read_board(answer), data['board'], data['player']
    moves = [i for i, cell in enumerate(cells) if cell != board[i]]
    if len(moves) != 1 or board[moves[0]] != EMPTY:
        raise Wrong('not one mark more')
    if cells[moves[0]] != player:
        raise Wrong('the mark of the other player')
    return moves[0]


TIC_TAC_TOE = TicTacToe()
