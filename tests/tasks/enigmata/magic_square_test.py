import pytest

from passk_jax.tasks.enigmata.magic_square import MAGIC_SQUARE
from tests.tasks.enigmata.judge import drawn, error_of

# The clues are the first row and the zero in the centre.
_CLUES = {
    'numbers': [[-1, 4, -3], [0, 0, 0], [0, 0, 0]],
    'given': [[1, 1, 1], [0, 1, 0], [0, 0, 0]],
    'answer': '-1 4 -3\n-2 0 2\n3 -4 1',
}
_FREE = {
    'numbers': [[0, 0, 0], [0, 5, 0], [0, 0, 0]],
    'given': [[0, 0, 0], [0, 1, 0], [0, 0, 0]],
    'answer': '2 7 6\n9 5 1\n4 3 8',
}


@pytest.mark.parametrize(
    ('data', 'answer', 'error'),
    [
        (_CLUES, '-1 4 -3\n-2 0 2\n3 -4 1', None),
        (_CLUES, '-1 4 -3\n-2 0 2\n3 -4 2', 'the sums differ'),
        (_CLUES, '1 4 -5\n-6 0 6\n5 -4 -1', 'a given number is changed'),
        (_CLUES, '-1 4 -3\n-2 1 2\n3 -4 1', 'a given number is changed'),
        (_FREE, '2 7 6\n9 5 1\n4 3 8', None),
        (_FREE, '8 1 6\n3 5 7\n4 9 2', None),
        (_FREE, '5 5 5\n5 5 5\n5 5 5', 'a filled number equals a given one'),
        (_FREE, '2 7 6\n9 5 1\n4 3 .', "'.' is not an integer"),
        # Rows and columns agree, the diagonals do not.
        (_FREE, '7 6 2\n3 5 7\n5 4 6', 'a filled number equals a given one'),
        (_FREE, '1 6 8\n8 5 2\n6 4 5', 'a filled number equals a given one'),
        (_FREE, '1 9 8\n11 5 2\n6 4 8', 'the sums differ'),
    ],
)
def test_any_completion_is_right_and_nothing_else(data, answer, error):
    assert error_of(MAGIC_SQUARE, data, answer) == error


def test_both_diagonals_count():
    data = _FREE | {'given': [[0] * 3] * 3}
    # A Latin square: its rows, columns and one diagonal have the sum 6.
    for rows in ('1 2 3\n2 3 1\n3 1 2', '3 2 1\n1 3 2\n2 1 3'):
        assert error_of(MAGIC_SQUARE, data, rows) == 'the sums differ'


def test_the_official_rule_cannot_read_signs_and_knows_one_answer():
    error = error_of(MAGIC_SQUARE, _CLUES, _CLUES['answer'], official=True)
    assert error == 'a sign, which the official verifier cannot read'
    assert error_of(MAGIC_SQUARE, _FREE, _FREE['answer'], official=True) is None
    error = error_of(MAGIC_SQUARE, _FREE, '8 1 6\n3 5 7\n4 9 2', official=True)
    assert error == 'not the stored answer'


def test_levels_have_their_numbers_of_blanks():
    for level, blanks in enumerate(({2, 3}, {4, 5}, {6, 7})):
        counts = [sum(map(sum, data['given'])) for data in drawn(MAGIC_SQUARE, level)]
        assert {9 - count for count in counts} == blanks
