import itertools

import pytest

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import counts
from passk_jax.tasks.enigmata.minesweeper import HIDDEN, MINESWEEPER, forced_mines
from tests.tasks.enigmata.judge import drawn, error_of

# ? ? ?
# 1 2 1  The ends are forced by 2 and the 1s together only.
# 0 0 0
_BOARD = [[HIDDEN] * 3, [1, 2, 1], [0, 0, 0]]
_DATA = {'board': _BOARD, 'forced': [[0, 0], [0, 2]], 'answer': '[(0, 0), (0, 2)]'}
_NONE = {'board': [[1, HIDDEN], [HIDDEN, HIDDEN]], 'forced': [], 'answer': ''}
_CLAIM = f'"{MINESWEEPER.none}"'


@pytest.mark.parametrize(
    ('data', 'answer', 'error'),
    [
        (_DATA, '[(0, 0), (0, 2)]', None),
        (_DATA, '[(0,2),(0,0)]', None),
        (_DATA, '[(0, 0)]', 'a forced mine is missing'),
        (_DATA, '[]', 'a forced mine is missing'),
        (_DATA, '[(0, 0), (0, 1), (0, 2)]', 'a cell is not a forced mine'),
        (_DATA, '[(0, 0), (0, 0), (0, 2)]', 'a cell twice'),
        (_DATA, '[(0, 0), (0, 3)]', 'a cell outside the grid'),
        (_DATA, _CLAIM, 'a mine is forced'),
        (_NONE, _CLAIM, None),
        (_NONE, '[]', None),
        (_NONE, '[(1, 1)]', 'a cell is not a forced mine'),
    ],
)
def test_all_forced_mines_are_right_and_nothing_else(data, answer, error):
    assert error_of(MINESWEEPER, data, answer) == error


def test_forced_mines_are_those_of_every_arrangement():
    assert forced_mines(_BOARD) == [(0, 0), (0, 2)]
    assert forced_mines(_NONE['board']) == []
    with pytest.raises(ValueError, match='no arrangement'):
        forced_mines([[4, HIDDEN], [HIDDEN, HIDDEN]])
    for i in range(60):
        board = _random_board(Draws('board', i))
        assert forced_mines(board) == _by_enumeration(board)


def _random_board(draws):
    mines = set(draws.sample(range(16), draws.between(2, 6)))
    looks = set(draws.sample(range(16), draws.between(4, 8)))
    return [
        [
            len({(i, j) for i, j in _near(r, c) if i * 4 + j in mines})
            if r * 4 + c in looks - mines
            else HIDDEN
            for c in range(4)
        ]
        for r in range(4)
    ]


def _near(r, c):
    cells = itertools.product(range(4), repeat=2)
    return [(i, j) for i, j in cells if max(abs(i - r), abs(j - c)) == 1]


def _by_enumeration(board):
    cells = list(itertools.product(range(4), repeat=2))
    hidden = [(r, c) for r, c in cells if board[r][c] == HIDDEN]
    clues = [
        (sum(1 << hidden.index(cell) for cell in _near(r, c) if cell in hidden), n)
        for r, c in cells
        if (n := board[r][c]) != HIDDEN
    ]
    always = (1 << len(hidden)) - 1
    for mines in range(1 << len(hidden)):
        if all((mines & near).bit_count() == number for near, number in clues):
            always &= mines
    return [cell for i, cell in enumerate(hidden) if always >> i & 1]


def test_a_record_is_solved_and_keeps_its_answer_for_the_official_rule():
    # Records of Enigmata write -2 for a hidden cell.
    question = [[-2, -2, -2], [1, 2, 1], [0, 0, 0]]
    record = {'meta': {'question': question}, 'answer': [[0, 0]]}
    data = MINESWEEPER.read(record)
    assert data['forced'] == [[0, 0], [0, 2]]
    assert error_of(MINESWEEPER, data, '[(0, 0)]') == 'a forced mine is missing'
    assert error_of(MINESWEEPER, data, '[(0, 0)]', official=True) is None
    error = error_of(MINESWEEPER, data, '[(0, 0), (0, 2)]', official=True)
    assert error == 'not the stored answer'


def test_a_record_that_cannot_be_solved_is_refused(monkeypatch):
    for bad in ([[9, HIDDEN], [HIDDEN] * 2], [[-1, 0], [0, 0]], [[HIDDEN] * 33] * 33):
        with pytest.raises(ValueError, match='a large board, or a number'):
            MINESWEEPER.read({'meta': {'question': bad}, 'answer': []})
    monkeypatch.setattr(counts, '_BUDGET', 1)
    board = [[1, HIDDEN, 1], [HIDDEN] * 3, [HIDDEN] * 3]
    with pytest.raises(ValueError, match='leave too much open'):
        MINESWEEPER.read({'meta': {'question': board}, 'answer': []})


class _InOrder(Draws):
    """Mines are the first cells; cells are looked at from the last mine on."""

    def __init__(self, mines, *, most):
        super().__init__(0)
        self._orders = [0, mines - 1]
        self._most = most

    def permutation(self, n):
        start = self._orders.pop(0)
        return [(start + i) % n for i in range(n)]

    def between(self, low, high):
        return high if self._most else low

    def chance(self, numerator, denominator):
        return True


@pytest.mark.parametrize(
    ('level', 'mines', 'least', 'most'),
    [(0, 8, 24, 28), (1, 21, 28, 36), (2, 51, 38, 51)],
)
def test_levels_have_their_mines_and_looks(level, mines, least, most):
    for looks in (least, most):
        draws = _InOrder(mines, most=looks == most)
        data = MINESWEEPER.generate(draws, level)
        cells = [cell for row in data['board'] for cell in row]
        revealed = [i for i, cell in enumerate(cells) if cell != HIDDEN]
        # The last mine was looked at and is not shown.
        assert revealed == list(range(mines, mines + looks - 1))


def test_levels_have_their_sizes_and_few_problems_without_a_forced_mine():
    for level, (side, low, high) in enumerate(
        ((9, 15, 28), (12, 20, 36), (16, 25, 51))
    ):
        problems = drawn(MINESWEEPER, level, 40)
        assert sum(not data['forced'] for data in problems) < 12
        for data in problems:
            cells = [cell for row in data['board'] for cell in row]
            assert len(cells) == side * side
            assert low <= len(cells) - cells.count(HIDDEN) <= high
            assert data['answer'] == _CLAIM or data['forced']
