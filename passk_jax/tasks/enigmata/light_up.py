"""Light Up: bulbs light every empty cell and do not light each other.

Any valid solution is right, and there may be several. Enigmata's prompt does not say
that every empty cell must be lit; its description of the puzzle does.
"""

from collections.abc import Iterator, Sequence

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.chosen_cells import (
    Cell,
    ChosenCells,
    cells_text,
    neighbours,
    read_cells,
)
from passk_jax.tasks.enigmata.puzzle import Grid
from passk_jax.verifiers.answers import Wrong

# Boards of data have numbers from 0 to 4, or one of these.
EMPTY, BLACK = -1, 5

_SYMBOLS = '01234#.'
_SIDE = 6
# For each level, the percent of black cells, and of those that have a number.
_BLACK = ((20, 25), (15, 20), (20, 25))
_NUMBERED = (100, 70, 50)
_MOST = 64


class LightUp(ChosenCells):
    """Light Up; data: ``board``. Any valid set of bulbs is right, in any order.

    Every generated problem has a solution.
    """

    name = 'light_up'
    none = 'No solution, unable to solve the given Light Up puzzle.'
    official_set = False
    rules = (
        'Place light bulbs on empty cells of this grid. A bulb lights its own cell and '
        'all cells to the left, to the right, above and below up to the next black '
        'cell or the border. Every empty cell is lit. No bulb lights another. The '
        'character . is an empty cell, # a black cell; a digit is a black cell that '
        'shares a side with exactly so many bulbs. Rows and columns are numbered from '
        '0. If there are several solutions, any of them is right.\n'
        'Answer: the bulbs as a list of (row, column), for example '
        f'[(0, 0), (1, 3)]. If there is no solution: "{none}"'
    )

    def generate(self, draws, level):
        """Puts bulbs on unlit cells in random order, then numbers on black cells."""
        board = [[EMPTY] * _SIDE for _ in range(_SIDE)]
        share = draws.between(*_BLACK[level])
        places = draws.permutation(_SIDE * _SIDE)
        black = [divmod(place, _SIDE) for place in places[: share * len(places) // 100]]
        for r, c in black:
            board[r][c] = BLACK
        bulbs: list[Cell] = []
        lit: set[Cell] = set()
        for cell in (divmod(place, _SIDE) for place in places[len(black) :]):
            if cell not in lit:
                bulbs.append(cell)
                lit.add(cell)
                lit.update(_seen_from(board, cell))
        for r, c in black[: -(-len(black) * _NUMBERED[level] // 100)]:
            around = neighbours((r, c), height=_SIDE, width=_SIDE)
            board[r][c] = len(set(around) & set(bulbs))
        return {'board': board, 'answer': cells_text(sorted(bulbs))}

    def question(self, data):
        return '\n'.join(
            ''.join(_SYMBOLS[cell] for cell in row) for row in data['board']
        )

    def shape(self, data):
        return len(data['board']), len(data['board'][0])

    def check_cells(self, data, cells):
        board, bulbs = data['board'], set(cells)
        height, width = self.shape(data)
        if any(board[r][c] != EMPTY for r, c in cells):
            raise Wrong('a bulb on a black cell')
        lit = set(cells)
        for bulb in cells:
            seen = set(_seen_from(board, bulb))
            if seen & bulbs:
                raise Wrong('a bulb lights another')
            lit |= seen
        for r in range(height):
            for c in range(width):
                if board[r][c] == EMPTY:
                    if (r, c) not in lit:
                        raise Wrong('an empty cell is not lit')
                elif board[r][c] != BLACK:
                    near = neighbours((r, c), height=height, width=width)
                    if len(bulbs.intersection(near)) != board[r][c]:
                        raise Wrong('a number does not count its bulbs')

    def board_of(self, data, chosen, *, answered):
        board = data['board']
        height, width = self.shape(data)
        values = boards.cells_by_place(board)
        bulbs = {place for place in chosen if values.get(place) == EMPTY}
        seen = {place for bulb in bulbs for place in _seen_from(board, bulb)}
        cells = {}
        for place, value in values.items():
            shape = 'bulb' if place in chosen else ''
            if value == EMPTY:
                kind = 'lit' if place in bulbs | seen else 'free'
                wrong = (place in bulbs) == (place in seen)
            else:
                kind = 'wall'
                near = neighbours(place, height=height, width=width)
                wrong = value != BLACK and len(bulbs.intersection(near)) != value
                wrong = wrong or bool(shape)
            text = str(value) if value not in (EMPTY, BLACK) else ''
            wrong = answered and wrong
            cells[place] = boards.Cell(text, kind, shape, bool(shape), wrong)
        return boards.Board(cells)

    def read(self, record):
        values = {symbol: value for value, symbol in enumerate(_SYMBOLS[:-1])}
        values['.'] = EMPTY
        rows = record['meta']['question'].strip().split('\n')
        board: Grid = [[values[cell] for cell in row] for row in rows]
        widths = {len(row) for row in board}
        if len(board) > _MOST or len(widths) != 1 or not widths < set(range(1, 65)):
            raise ValueError('no rectangle of at most 64 rows and columns')
        return {'board': board, 'answer': read_cells(record['answer'])}


def _seen_from(board: Sequence[Sequence[int]], cell: Cell) -> Iterator[Cell]:
    """Yields the empty cells that a bulb lights, except its own."""
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        r, c = cell[0] + down, cell[1] + right
        while 0 <= r < len(board) and 0 <= c < len(board[0]) and board[r][c] == EMPTY:
            yield r, c
            r, c = r + down, c + right


LIGHT_UP = LightUp()
