import pytest

from passk_jax.tasks.enigmata.navigation import NAVIGATION
from tests.tasks.enigmata.judge import drawn, error_of

_DATA = {
    'start': 'E',
    'kinds': {'E': 'bank', 'H': 'store', 'A': 'school', 'B': 'school', 'C': 'school'},
    'roads': [['E', 'H', 100], ['H', 'A', 100], ['E', 'B', 200], ['B', 'C', 100]],
    'target': 'school',
    'answer': 'EB',
}
_ERROR = 'not a way to a nearest landmark of that kind'


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('EB', None, None),
        # Equally near, by two short roads.
        ('EHA', None, 'not the stored answer'),
        ('EBC', _ERROR, 'not the stored answer'),
        ('B', _ERROR, 'not the stored answer'),
        ('eb', None, 'not the stored answer'),
        ('E B', None, 'not the stored answer'),
    ],
)
def test_every_nearest_landmark_is_right(answer, error, official):
    assert error_of(NAVIGATION, _DATA, answer) == error
    assert error_of(NAVIGATION, _DATA, answer, official=True) == official


def test_the_start_may_be_the_nearest():
    data = _DATA | {'target': 'bank'}
    assert error_of(NAVIGATION, data, 'E') is None


def test_a_question_reads_as_its_own_data():
    for data in [_DATA, *drawn(NAVIGATION, 1, count=20)]:
        record = {'meta': {'question': NAVIGATION.question(data)}, 'answer': 'x'}
        assert NAVIGATION.read(record) == data | {'answer': 'x'}


@pytest.mark.parametrize(
    ('old', 'new', 'error'),
    [
        ('start point is', 'start is', 'no start point'),
        ('nearest', 'next', 'no question'),
        ('from store H', 'from store X', 'does not continue a tree'),
        ('from store H', 'from bank H', 'does not continue a tree'),
        ('to school C', 'to school A', 'does not continue a tree'),
    ],
)
def test_a_record_without_a_tree_is_an_error(old, new, error):
    text = NAVIGATION.question(_DATA)
    assert old in text
    record = {'meta': {'question': text.replace(old, new)}, 'answer': ''}
    with pytest.raises(ValueError, match=error):
        NAVIGATION.read(record)


def test_levels_have_their_lengths():
    for level, lengths in enumerate(({2}, {3}, {4, 5, 6})):
        problems = drawn(NAVIGATION, level)
        assert {len(data['answer']) for data in problems} <= lengths
        assert {len(data['kinds']) for data in problems} == {7, 8, 9, 10}
