import pytest

from passk_jax.tasks.enigmata import slant
from passk_jax.tasks.enigmata.slant import SLANT, UNKNOWN
from tests.tasks.enigmata.judge import drawn, error_of

# No number at a corner but one, which two diagonals touch.
_DATA = {
    'corners': [[UNKNOWN] * 3, [UNKNOWN, 2, UNKNOWN], [UNKNOWN] * 3],
    'answer': '-1 -1\n-1 -1',
}
_OPEN = {'corners': [[UNKNOWN] * 3] * 3, 'answer': '1 1\n1 1'}


@pytest.mark.parametrize(
    ('data', 'answer', 'error'),
    [
        (_DATA, '-1 -1\n-1 -1', None),
        (_DATA, '1 1\n1 1', None),
        (_DATA, '-1 1\n-1 1', None),
        (_DATA, '-1 1\n1 -1', 'a corner does not touch its number of diagonals'),
        (_DATA, '1 -1\n-1 1', 'a corner does not touch its number of diagonals'),
        # Without the number the first is a star and the second a loop.
        (_OPEN, '-1 1\n1 -1', None),
        (_OPEN, '1 -1\n-1 1', 'diagonals form a closed loop'),
        (_OPEN, '1 0\n-1 1', 'a number is neither 1 nor -1'),
        (_OPEN, '1 1', '1 rows, not 2'),
        (_OPEN, '/ o\n/ /', "'/' is not an integer"),
    ],
)
def test_any_valid_grid_is_right_and_nothing_else(data, answer, error):
    assert error_of(SLANT, data, answer) == error


def test_1_is_the_diagonal_from_the_lower_left_to_the_upper_right_corner():
    corners = [[0, 1], [1, 0]]
    assert error_of(SLANT, {'corners': corners}, '1') is None
    assert error_of(SLANT, {'corners': corners}, '-1') is not None


def test_a_long_loop_is_a_loop():
    """A ring of eight diagonals around a star of four."""
    ring = [[1, 1, -1, 1], [1, 1, -1, -1], [-1, -1, 1, 1], [1, -1, 1, 1]]
    data = {'corners': [[UNKNOWN] * 5] * 5, 'answer': ''}
    grid = '\n'.join(' '.join(map(str, row)) for row in ring)
    assert error_of(SLANT, data, grid) == 'diagonals form a closed loop'


def test_the_official_rule_knows_the_stored_answer_only():
    assert error_of(SLANT, _DATA, _DATA['answer'], official=True) is None
    error = error_of(SLANT, _DATA, '1 1\n1 1', official=True)
    assert error == 'not the stored answer'


def test_no_random_grid_has_a_loop_and_all_numbers_fit():
    for level, (low, high) in enumerate(((39, 44), (29, 34), (24, 24))):
        for data in drawn(SLANT, level):
            assert error_of(SLANT, data, data['answer']) is None
            corners = [number for row in data['corners'] for number in row]
            assert low <= 49 - corners.count(UNKNOWN) <= high
    assert len(slant._touches([[1]])) == 2


def test_a_record_that_is_no_square_is_refused():
    record = {'meta': {'question': '. .\n1 .'}, 'answer': [[1]]}
    data = SLANT.read(record)
    assert data == {'corners': [[-1, -1], [1, -1]], 'answer': '1'}
    assert SLANT.question(data) == record['meta']['question']
    most = {'meta': {'question': '. ' * 64 + ('\n' + '. ' * 64) * 63}}
    assert len(SLANT.read(most | {'answer': [[1] * 63] * 63})['corners']) == 64
    more = {'meta': {'question': '. ' * 65 + ('\n' + '. ' * 65) * 64}}
    with pytest.raises(ValueError, match='square'):
        SLANT.read(more | {'answer': [[1] * 64] * 64})
    with pytest.raises(KeyError):
        SLANT.read({'meta': {'question': '. .\n5 .'}, 'answer': [[1]]})
    for question, answer in (('.', [[1]]), ('. .\n.', [[1]]), ('. .\n. .', [[1, 1]])):
        with pytest.raises(ValueError, match=r'square|rows'):
            SLANT.read({'meta': {'question': question}, 'answer': answer})
