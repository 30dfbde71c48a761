import pytest

from passk_jax.tasks.enigmata import shifts
from passk_jax.tasks.enigmata.shifts import NINE_PUZZLE, SIXTEEN_PUZZLE
from tests.tasks.enigmata.judge import drawn, error_of

_NONE = '"No valid sequence of moves exists."'
_ROW = {'board': [[3, 1, 2], [4, 5, 6], [7, 8, 9]], 'answer': ''}
_COLUMN = {'board': [[1, 8, 3], [4, 2, 6], [7, 5, 9]], 'answer': ''}
_ODD = {'board': [[2, 1, 3], [4, 5, 6], [7, 8, 9]], 'answer': _NONE}


@pytest.mark.parametrize(
    ('data', 'answer', 'error'),
    [
        (_ROW, '["R11"]', None),
        (_ROW, '["R12", "R12"]', None),
        (_ROW, '["R12"]', 'the numbers are not in order'),
        (_ROW, '["R21"]', 'the numbers are not in order'),
        (_COLUMN, "['C21']", None),
        (_COLUMN, '["C22"]', 'the numbers are not in order'),
        (_ROW, '["R13"]', 'move 1 is not a move'),
        (_ROW, '["R41"]', 'move 1 is not a move'),
        (_ROW, '["R11", "R1"]', 'move 2 is not a move'),
        (_ROW, 'R1', 'no list in brackets'),
        (_ROW, '[]', 'the numbers are not in order'),
        (_ROW, _NONE, 'there is a sequence of moves'),
        (_ODD, '["R11"]', 'the numbers are not in order'),
        (_ODD, _NONE, None),
    ],
)
def test_rows_go_left_and_columns_up(data, answer, error):
    assert error_of(NINE_PUZZLE, data, answer) == error
    official = error_of(NINE_PUZZLE, data, answer, official=True)
    if answer == _NONE:
        assert official == 'the official verifier accepts no such claim'
    else:
        assert official == error


def test_shifts_of_four_cells_are_odd_and_of_three_even():
    board = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 16, 15]]
    assert shifts.solvable(board)
    assert not shifts.solvable(_ODD['board'])
    assert shifts.solvable(_ROW['board'])
    data = {'board': board, 'answer': ''}
    assert error_of(SIXTEEN_PUZZLE, data, _NONE) == 'there is a sequence of moves'


def test_levels_have_their_numbers_of_moves():
    for puzzle, lengths in (
        (NINE_PUZZLE, ({2, 3}, {4, 5}, {6, 7, 8})),
        (SIXTEEN_PUZZLE, ({2, 3}, {4, 5, 6}, {7, 8, 9, 10})),
    ):
        for level, moves in enumerate(lengths):
            answers = [data['answer'] for data in drawn(puzzle, level)]
            solved = [answer for answer in answers if answer != _NONE]
            assert {answer.count('"') // 2 for answer in solved} == moves
            assert (len(solved) < len(answers)) == (puzzle is NINE_PUZZLE)
