import pytest

from passk_jax.tasks.enigmata import campsite
from passk_jax.tasks.enigmata.campsite import CAMPSITE
from tests.tasks.enigmata.judge import drawn, error_of

_DATA = {
    'trees': [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
    'row_tents': [1, 0, 1, 0],
    'column_tents': [0, 1, 0, 1],
    'answer': '',
}


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('X * . .\n. . . X\n. . . *\n. . . .', None, None),
        ('X * . .\n. . . X\n. . * .\n. . . .', *['a column has another'] * 2),
        ('X * . *\n. . . X\n. . . .\n. . . .', *['a row has another'] * 2),
        # Each tent has a tree, but both the same: only officially right.
        ('X . . *\n. . . X\n. * . .\n. . . .', 'not every tree has a tent', None),
        ('. * . .\n. . . X\n. . . *\n. . . .', *['row 1, column 1 is'] * 2),
        ('X * . .\n. . . X\n. . . *', *['a board of another size'] * 2),
    ],
)
def test_any_valid_board_is_right_and_nothing_else(answer, error, official):
    assert (error_of(CAMPSITE, _DATA, answer) or '').startswith(error or '')
    assert (error_of(CAMPSITE, _DATA, answer) is None) == (error is None)
    reason = error_of(CAMPSITE, _DATA, answer, official=True)
    assert (reason or '').startswith(official or '')
    assert (reason is None) == (official is None)


def test_tents_may_not_touch_diagonally_though_they_may_officially():
    data = {
        'trees': [[1, 0, 0], [0, 0, 1], [0, 0, 0]],
        'row_tents': [1, 1, 0],
        'column_tents': [1, 1, 0],
        'answer': '',
    }
    board = 'X * .\n* . X\n. . .'
    assert error_of(CAMPSITE, data, board) == 'two tents are neighbours'
    assert error_of(CAMPSITE, data, board, official=True) is None
    data = data | {'row_tents': [2, 0, 0], 'column_tents': [0, 1, 1]}
    board = 'X * *\n. . X\n. . .'
    assert error_of(CAMPSITE, data, board, official=True) == 'two tents are neighbours'


def test_trees_and_tents_are_paired_though_the_first_choice_is_taken():
    # The first tree takes the only tent of the second one until it must give it back.
    assert campsite._matched([(1, 1), (1, 3)], [(1, 2), (0, 1)])
    assert not campsite._matched([(1, 1), (1, 3)], [(1, 2), (3, 1)])
    assert not campsite._matched([(1, 1)], [(1, 2), (0, 1)])


_QUESTION = """\
total number of tents: {}
tents in each row: 1 0 1 0
tents in each column: {}
X . . .
. . . X
. . . .
. . . ."""


def test_a_record_shows_what_a_question_does():
    question = _QUESTION.format(2, '0 1 0 1')
    assert CAMPSITE.question(_DATA) == question
    board = 'X * . .\n. . . X\n. . . *\n. . . .'
    answer = f'<begin_board>\n{board}\n<end_board>'
    record = {'meta': {'question': question}, 'answer': answer}
    assert CAMPSITE.read(record) == _DATA | {'answer': board}


@pytest.mark.parametrize(
    ('question', 'message'),
    [
        (_QUESTION.format(3, '0 1 0 1'), 'do not add up'),
        (_QUESTION.format(2, '0 1 0 0'), 'do not add up'),
        (_QUESTION.format(2, '0 1 1'), 'do not fit'),
        (_QUESTION.format(2, '0 1 0 1').replace(': 1 0 1 0', ': 1 0 1'), 'do not fit'),
        (_QUESTION.format(2, '0 1 0 1') + ' .', 'do not fit'),
    ],
)
def test_a_record_whose_numbers_do_not_fit_is_refused(question, message):
    with pytest.raises(ValueError, match=message):
        CAMPSITE.read({'meta': {'question': question}, 'answer': ''})


def test_levels_have_their_sizes():
    for level, (side, trees) in enumerate(((4, {3, 4}), (5, {4, 5}), (6, {5, 6}))):
        problems = drawn(CAMPSITE, level)
        assert {len(data['trees']) for data in problems} == {side}
        assert {sum(map(sum, data['trees'])) for data in problems} == trees
