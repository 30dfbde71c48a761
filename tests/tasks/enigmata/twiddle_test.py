import pytest

from passk_jax.tasks.enigmata.twiddle import TWIDDLE
from tests.tasks.enigmata.judge import drawn, error_of

# The upper left cells hold 1 2 / 4 5 after one counterclockwise turn.
_DATA = {'board': [[4, 1, 3], [5, 2, 6], [7, 8, 9]], 'answer': '(0,0)'}


@pytest.mark.parametrize(
    ('answer', 'error'),
    [
        ('(0,0)', None),
        ('(0, 0) -> (0,0)->(0,0)->(0,0)->(0,0)', None),
        ('(0,0)->(0,0)', 'the numbers are not in order'),
        ('(1,1)', 'the numbers are not in order'),
        ('(0,2)', 'step 1 is outside the board'),
        ('(0,0)->(-1,0)', 'step 2 is outside the board'),
    ],
)
def test_turns_are_counterclockwise(answer, error):
    assert error_of(TWIDDLE, _DATA, answer) == error
    assert error_of(TWIDDLE, _DATA, answer, official=True) == error


def test_levels_have_their_numbers_of_turns():
    for level, turns in enumerate(({3, 4}, {5}, {6})):
        answers = [data['answer'] for data in drawn(TWIDDLE, level)]
        assert {answer.count('(') for answer in answers} == turns
