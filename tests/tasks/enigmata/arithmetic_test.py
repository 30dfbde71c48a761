import pytest

from passk_jax.tasks.enigmata.arithmetic import COUNTDOWN, GAME24
from tests.tasks.enigmata.judge import drawn, error_of

_FOUR = {'numbers': [2, 8, 8, 2], 'target': 24, 'answer': '(8/2)*(8-2)'}
_NONE = {'numbers': [1, 1, 1, 1], 'target': 24, 'answer': 'cannot form 24'}
_OTHER = 'not the given numbers, each exactly once'


@pytest.mark.parametrize(
    ('data', 'answer', 'error'),
    [
        (_FOUR, '(8 / 2) * (8 - 2)', None),
        (_FOUR, '8+8+2*2', 'not 24'),
        (_FOUR, '8*(2+2)-8', None),
        (_FOUR, '6*4*1*1', _OTHER),
        (_FOUR, '6*4', _OTHER),
        (_FOUR, '24', _OTHER),
        (_FOUR, '8*(2+2)-8+0', _OTHER),
        (_FOUR, '28-8/2', _OTHER),
        (_FOUR, 'cannot form 24', 'there is a solution'),
        (_FOUR, '8*(2+2)-8 = 25', "'=' does not belong in an expression"),
        (_FOUR, 'open("x","w") or 24', "'o' does not belong in an expression"),
        (_NONE, 'cannot form 24', None),
        (_NONE, 'Cannot form 24.', None),
        (_NONE, '1+1+1+1', 'not 24'),
        ({'numbers': [3, 3, 8, 8], 'target': 24, 'answer': ''}, '8/(3-8/3)', None),
    ],
)
def test_24_needs_every_number_once(data, answer, error):
    assert error_of(GAME24, data, answer) == error
    assert error_of(GAME24, data, answer, official=True) == error


_COUNT = {'numbers': [4, 6, 12, 12, 15], 'target': 31, 'answer': ''}


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('15+(12-4)*12/6', None, None),
        ('15+(12-4)/6*12', '4/3 is not a positive integer', None),
        ('15-(4-12)*12/6', '-8 is not a positive integer', None),
        ('12+15+4', *[_OTHER] * 2),
        ('15+12+4*(12-6)', *['not 31'] * 2),
        ('cannot form 31', *['there is a solution'] * 2),
    ],
)
def test_countdown_stays_with_positive_integers(answer, error, official):
    assert error_of(COUNTDOWN, _COUNT, answer) == error
    assert error_of(COUNTDOWN, _COUNT, answer, official=True) == official


def test_zero_is_not_positive():
    data = {'numbers': [5, 5, 7], 'target': 7, 'answer': ''}
    assert error_of(COUNTDOWN, data, '5-5+7') == '0 is not a positive integer'


def test_a_hand_of_four_is_solved_and_a_larger_one_believed():
    def read(numbers, answer):
        return GAME24.read({'meta': {'question': numbers}, 'answer': answer})['answer']

    assert read([1, 1, 1, 1], 'The answer is: 1 = 24') == 'cannot form 24'
    assert 'cannot' not in read([1, 2, 3, 4], 'cannot form 24')
    assert read([1, 2, 3, 4, 5], 'cannot form 24') == 'cannot form 24'
    assert read([1, 2, 3, 4, 5], 'The answer is: 4*(1+5)*(3-2) = 24') == '4*(1+5)*(3-2)'
    for bad in ([], [1] * 9, [-1, 2], '1234', [1.5]):
        with pytest.raises(ValueError, match=r'.'):
            read(bad, '')


def test_levels_have_their_numbers():
    for level, count in enumerate((4, 5, 6)):
        problems = drawn(GAME24, level)
        assert {len(data['numbers']) for data in problems} == {count}
        assert max(max(data['numbers']) for data in problems) <= 13
        impossible = sum('cannot' in data['answer'] for data in problems)
        assert (12 < impossible < 40) if level == 0 else impossible == 0
    for level, count in enumerate((5, 6, 7)):
        problems = drawn(COUNTDOWN, level)
        assert {len(data['numbers']) for data in problems} == {count}
        targets = {data['target'] for data in problems}
        assert len(targets) > 40
        assert 20 <= min(targets) < max(targets) <= 200
