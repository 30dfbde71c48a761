import ast
import collections

import pytest

from passk_jax.tasks.enigmata.hitori import HITORI
from tests.tasks.enigmata.judge import drawn, error_of

_DATA = {
    'grid': [[1, 1, 3], [1, 2, 2], [3, 2, 1]],
    'answer': '[(0, 0), (1, 2)]',
}
# No number stands twice here, however many are white.
_SMALL = {'grid': [[1, 2], [3, 4]], 'answer': ''}


@pytest.mark.parametrize(
    ('data', 'answer', 'error'),
    [
        (_DATA, '[(0, 0), (1, 1)]', None),
        (_DATA, '[(1, 1), (0, 0)]', None),
        (_DATA, '[(0, 1), (1, 0)]', 'row 1 shows a number twice'),
        (_DATA, '[(0, 0), (1, 2)]', 'column 1 shows a number twice'),
        (_DATA, '[(0, 0), (0, 1), (1, 2)]', 'two black cells share a side'),
        (_DATA, '[(0, 0), (1, 0), (1, 2)]', 'two black cells share a side'),
        (_DATA, '[]', 'row 0 shows a number twice'),
        (_DATA, '[(0, 0), (1, 3)]', 'a cell outside the grid'),
        (_DATA, '[(1, 1), (2, 2)]', 'row 0 shows a number twice'),
        (_SMALL, '[]', None),
        (_SMALL, '[(0, 1)]', None),
        # Where none is white, none hangs together.
        (
            {'grid': [[1]], 'answer': ''},
            '[(0, 0)]',
            'the white cells do not hang together',
        ),
        ({'grid': [[1]], 'answer': ''}, '[]', None),
        # Cells that meet at a corner only.
        (_SMALL, '[(0, 1), (1, 0)]', 'the white cells do not hang together'),
        (_DATA, f'"{HITORI.none}"', 'there is a solution'),
        (_DATA | {'answer': HITORI.none}, f'"{HITORI.none}"', None),
        (_DATA, '[(i, i) for i in range(2)]', 'item 1 is malformed'),
    ],
)
def test_any_valid_set_of_cells_is_right_and_nothing_else(data, answer, error):
    assert error_of(HITORI, data, answer) == error


def test_the_official_rule_knows_the_stored_answer_only():
    assert error_of(HITORI, _DATA, _DATA['answer'], official=True) is None
    other = '[(0, 0), (1, 1)]'
    assert error_of(HITORI, _DATA, other, official=True) == 'not the stored answer'


def test_a_board_with_a_number_below_1_is_refused():
    record = {'meta': {'question': [[1, 0], [2, 1]]}, 'answer': [[0, 0]]}
    with pytest.raises(ValueError, match='below 1'):
        HITORI.read(record)


def test_levels_have_their_sizes_and_no_black_cell_is_needless():
    # Side, and how many of the problems have how many black cells: a fifth cell and a
    # seventh one do not always find room.
    expected = (4, {2: 49, 3: 51}), (4, {4: 80, 5: 20}), (5, {5: 26, 6: 46, 7: 28})
    for level, (side, counts) in enumerate(expected):
        num_black = collections.Counter()
        for data in drawn(HITORI, level):
            assert len(data['grid']) == side
            black = ast.literal_eval(data['answer'])
            num_black[len(black)] += 1
            for cell in black:
                fewer = str([place for place in black if place != cell])
                assert 'shows a number twice' in error_of(HITORI, data, fewer)
        assert num_black == counts


def test_a_drawing_shows_which_cells_are_black():
    board = HITORI.picture(_DATA, '[(0, 0), (1, 1)]')
    black = {place for place, cell in board.cells.items() if cell.kind == 'picked'}
    assert black == {(0, 0), (1, 1)}
    assert not any(cell.wrong for cell in board.cells.values())
