import ast

import pytest

from passk_jax.tasks.enigmata.kakurasu import KAKURASU
from tests.tasks.enigmata.judge import drawn, error_of

_NONE = '"No valid solution exists for the given Kakurasu puzzle."'
_DATA = {'row_sums': [1, 3, 0], 'column_sums': [3, 2, 0], 'answer': '[(1, 1)]'}


@pytest.mark.parametrize(
    ('answer', 'error'),
    [
        ('[(1, 1), (2, 1), (2, 2)]', None),
        ('[(2,2),(1,1),(2,1)]', None),
        ('[(1, 1), (2, 1)]', 'a sum differs'),
        ('[(1, 1), (2, 1), (2, 2), (2, 2)]', 'a cell twice'),
        ('[(0, 1), (2, 1), (2, 2)]', 'a cell outside the grid'),
        ('[(1, 1), (2, 1), (2, 4)]', 'a cell outside the grid'),
        ('[(1, 1), (2, 1), (-2, -2)]', 'a cell outside the grid'),
        ('[]', 'a sum differs'),
        (_NONE, 'there is a solution'),
        ('[(i, j) for i in range(9) for j in range(9)]', 'item 1 is malformed'),
        ('__import__("os").system("true")', 'no list in brackets'),
    ],
)
def test_any_valid_solution_is_right_and_nothing_else(answer, error):
    assert error_of(KAKURASU, _DATA, answer) == error


def test_the_official_rule_knows_the_stored_answer_only():
    data = _DATA | {'answer': '[(1, 1), (2, 1), (2, 2)]'}
    assert error_of(KAKURASU, data, '[(1, 1), (2, 1), (2, 2)]', official=True) is None
    data |= {'answer': '[(1, 1)]'}
    error = error_of(KAKURASU, data, '[(1, 1), (2, 1), (2, 2)]', official=True)
    assert error == 'not the stored answer'


def test_no_solution_is_right_where_there_is_none():
    data = {'row_sums': [9], 'column_sums': [1], 'answer': _NONE}
    assert error_of(KAKURASU, data, _NONE) is None
    assert error_of(KAKURASU, data, '[(1, 1)]') == 'a sum differs'


def test_a_board_of_a_record_need_not_be_square():
    question = 'Board size: {} X {}\nRow sums: [1, 2]\nColumn sums: [1, 2, 0]'
    record = {'meta': {'question': question.format(2, 3)}, 'answer': [[1, 1], [2, 2]]}
    data = KAKURASU.read(record)
    expected = {'row_sums': [1, 2], 'column_sums': [1, 2, 0]}
    assert data == expected | {'answer': '[(1, 1), (2, 2)]'}
    assert error_of(KAKURASU, data, data['answer']) is None
    record['meta']['question'] = question.format(3, 2)
    with pytest.raises(ValueError, match='do not fit the board'):
        KAKURASU.read(record)


def test_levels_have_their_sizes_and_shares_of_black_cells():
    # The number of black cells in 100 problems of each level.
    totals = (751, 1302, 1659)
    for level, sides in enumerate(({4, 5}, {5, 6}, {5, 6})):
        problems = drawn(KAKURASU, level)
        assert {len(data['row_sums']) for data in problems} == sides
        chosen = [ast.literal_eval(data['answer']) for data in problems]
        assert sum(map(len, chosen)) == totals[level]
        places = range(1, max(sides) + 1)
        assert set().union(*chosen) == {(r, c) for r in places for c in places}


def test_a_drawing_numbers_rows_and_columns_and_shows_chosen_cells():
    cells = KAKURASU.picture(_DATA, '[(1, 1), (2, 3)]').cells
    numbers = {
        place: cell.text for place, cell in cells.items() if cell.kind == 'index'
    }
    across = {(-1, place): str(place + 1) for place in range(3)}
    assert numbers == across | {(place, -1): str(place + 1) for place in range(3)}
    chosen = {place for place, cell in cells.items() if cell.kind == 'picked'}
    assert chosen == {(0, 0), (1, 2)}
