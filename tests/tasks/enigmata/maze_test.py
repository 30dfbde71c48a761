import pytest

from passk_jax.tasks.enigmata.maze import MAZE
from tests.tasks.enigmata.judge import drawn, error_of

_NONE = 'not exist the path from start to end.'
_WAY = '(1,1)->(1,2)->(2,2)->(3,2)->(3,3)'
# S . .
# B . B
# . . E
_DATA = {'blocked': [[0, 0, 0], [1, 0, 1], [0, 0, 0]], 'answer': _WAY}
_SHUT = {'blocked': [[0, 0, 1], [0, 1, 0], [1, 0, 0]], 'answer': _NONE}


@pytest.mark.parametrize(
    ('data', 'answer', 'error', 'official'),
    [
        (_DATA, _WAY, None, None),
        (_DATA, '(1, 1) -> (1, 2) -> (2, 2) -> (3, 2) -> (3, 3)', None, None),
        (_DATA, '(1,1)->(1,2)->(1,3)->' + _WAY[7:], None, None),
        (_DATA, f'The way: {_WAY}.', None, None),
        (_DATA, _WAY.replace('->', ' '), None, None),
        (_DATA, _WAY[7:], *['not from the start to the end'] * 2),
        (_DATA, _WAY[:-7], *['not from the start to the end'] * 2),
        (_DATA, '(1,1)->(3,3)', *['no step from (1,1) to (3,3)'] * 2),
        (_DATA, '(1,1)->(1,1)->' + _WAY[7:], *['no step from (1,1) to (1,1)'] * 2),
        (_DATA, '(1,1)->(2,1)->(2,2)->(3,2)->(3,3)', *['(2,1) is not a free cell'] * 2),
        (_DATA, '(1,1)->(0,1)->' + _WAY, *['(0,1) is not a free cell'] * 2),
        (_DATA, _NONE, 'there is a way', 'no pairs'),
        (_SHUT, _NONE, None, None),
        (_SHUT, 'Not exist the path from start to end', None, 'there is no way'),
        (_SHUT, 'a way does not exist', 'no pairs joined by ->', None),
        (
            _SHUT,
            '(1,1)->(2,2)->(3,3)',
            'no step from (1,1) to (2,2)',
            'there is no way',
        ),
    ],
)
def test_any_way_over_free_cells_is_right_and_nothing_else(
    data, answer, error, official
):
    assert error_of(MAZE, data, answer) == error

    assert error_of(MAZE, data, answer, official=True) == official


def test_a_record_is_solved():
    rows = [list('S..'), list('B.B'), list('..E')]
    assert MAZE.read({'meta': {'question': rows}}) == _DATA
    shut = [list('S.B'), list('.B.'), list('B.E')]
    assert MAZE.read({'meta': {'question': shut}}) == _SHUT
    for bad in ([list('..'), list('.E')], [list('S.'), list('..')], [list('SE')]):
        with pytest.raises(ValueError, match=r'start and end|square'):
            MAZE.read({'meta': {'question': bad}})


def test_levels_have_their_obstacles_and_both_verdicts():
    for level, (low, high) in enumerate(((3, 6), (6, 10), (10, 13))):
        problems = drawn(MAZE, level)
        counts = {sum(map(sum, data['blocked'])) for data in problems}
        assert low <= min(counts) < max(counts) <= high
        assert 30 < sum(data['answer'] == _NONE for data in problems) < 70
