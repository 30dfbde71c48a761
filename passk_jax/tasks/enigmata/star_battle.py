"""Enigmata's star battle: one star per row and column, blocked cells, no regions.

Boards of data have 0 for an empty cell and 1 for a blocked one.
"""

import itertools

from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.puzzle import Puzzle, grid_text
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, symbol_rows

EMPTY, BLOCKED, STAR = '.X*'

_SIDES = (5, 6, 7)
# For each level, minimum and maximum of blocked cells, in percent.
_BLOCKED = ((16, 30), (20, 35), (25, 40))


class StarBattle(Puzzle):
    """Star battle; data: ``blocked``. Any valid board is right.

    The strict rule also reads the spellings of ``spellings.board``: commas, bars,
    tables and lists, cells without separators, lower case and symbols such as ★.
    """

    name = 'star_battle'
    category = 'Grid'
    board = True
    rules = (
        'Place stars on this board. Each row and each column has exactly one star. No '
        'two stars are neighbours, not even diagonally. A star stands on an empty '
        'cell, never on a blocked one. The character . is an empty cell, X a blocked '
        'one, * a star. If there are several solutions, any of them is right.\n'
        'Answer: the board with its stars, one row a line, cells separated by spaces, '
        'between <begin_board> and <end_board>.'
    )

    def generate(self, draws, level):
        side = _SIDES[level]
        stars = draws.permutation(side)
        while any(abs(a - b) < 2 for a, b in itertools.pairwise(stars)):
            stars = draws.permutation(side)
        free = [(r, c) for r in range(side) for c in range(side) if stars[r] != c]
        low, high = (share * side * side // 100 for share in _BLOCKED[level])
        cells = set(draws.sample(free, draws.between(low, high)))
        blocked = [[int((r, c) in cells) for c in range(side)] for r in range(side)]
        board = symbols_of(blocked)
        for row, column in enumerate(stars):
            board[row][column] = STAR
        return {'blocked': blocked, 'answer': grid_text(board)}

    def question(self, data):
        return grid_text(symbols_of(data['blocked']))

    def usual(self, data, answer):
        return spellings.board(answer)

    def check(self, data, answer):
        stars = stars_of(symbols_of(data['blocked']), answer)
        side = len(data['blocked'])
        for place in range(2):
            if sorted(star[place] for star in stars) != list(range(side)):
                kind = ('row', 'column')[place]
                raise Wrong(f'a {kind} does not have exactly one star')
        if adjacent(stars):
            raise Wrong('two stars are neighbours')

    def check_official(self, data, answer):
        """Compares with the stored answer."""
        if symbol_rows(answer) != symbol_rows(data['answer']):
            raise Wrong('not the stored answer')

    def picture(self, data, answer):
        stars = stars_of(symbols_of(data['blocked']), answer) if answer else []
        wrong = touching(stars)
        for axis in range(2):
            lines = [star[axis] for star in stars]
            wrong |= {star for star in stars if lines.count(star[axis]) > 1}
        cells = {
            place: boards.Cell(kind='wall' if blocked else 'free')
            for place, blocked in boards.cells_by_place(data['blocked']).items()
        }
        for star in stars:
            cells[star] = boards.Cell(shape='star', new=True, wrong=star in wrong)
        return boards.Board(cells)

    def read(self, record):
        rows = symbol_rows(record['meta']['question'])
        if any(len(row) != len(rows) for row in rows) or not 0 < len(rows) <= 64:
            raise ValueError('not a square')
        values = {EMPTY: 0, BLOCKED: 1}
        blocked = [[values[cell] for cell in row] for row in rows]
        return {'blocked': blocked, 'answer': str(record['answer'])}


def stars_of(board: list[list[str]], answer: str) -> list[tuple[int, int]]:
    """Returns the empty cells where an answer puts ``*``; it may change no others."""
    rows = symbol_rows(answer)
    if [len(row) for row in rows] != [len(row) for row in board]:
        raise Wrong('a board of another size')
    stars = []
    for r, (old_row, row) in enumerate(zip(board, rows, strict=True)):
        for c, (old, new) in enumerate(zip(old_row, row, strict=True)):
            if new == STAR and old == EMPTY:
                stars.append((r, c))
            elif new != old:
                raise Wrong(f'row {r + 1}, column {c + 1} is {new[:5]!r}, not {old!r}')
    return stars


def adjacent(stars: list[tuple[int, int]]) -> bool:
    """Tells whether two cells touch, also diagonally."""
    return bool(touching(stars))


def touching(stars: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Returns the cells that touch another one, also diagonally."""
    cells = set(stars)
    near = [(dr, dc) for dr in (-1, 0, 1) for dc in (-1, 0, 1) if (dr, dc) != (0, 0)]
    return {
        (r, c) for r, c in cells if any((r + dr, c + dc) in cells for dr, dc in near)
    }


def symbols_of(blocked: list[list[int]]) -> list[list[str]]:
    """Makes the board of a mask: ``X`` where it is set, ``.`` elsewhere."""
    return [[BLOCKED if cell else EMPTY for cell in row] for row in blocked]


STAR_BATTLE = StarBattle()
