import pytest

from passk_jax.tasks.enigmata.sudoku import SUDOKU, SUDOKU2
from tests.tasks.enigmata.judge import drawn, error_of

_DATA = {
    'grid': [[1, 0, 0, 0], [0, 0, 0, 2], [0, 0, 0, 0], [0, 0, 0, 0]],
    'answer': '1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1',
}


@pytest.mark.parametrize(
    ('answer', 'error'),
    [
        ('1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1', None),
        ('1 2 4 3\n4 3 1 2\n2 1 3 4\n3 4 2 1', None),
        ('2 1 3 4\n3 4 1 2\n1 2 4 3\n4 3 2 1', 'a clue is changed'),
        (
            '1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 1 2',
            'column 3 does not hold 1 to 4 once each',
        ),
        ('1 2 3 4\n2 3 4 1\n3 4 1 2\n4 1 2 3', 'box 1 does not hold 1 to 4 once each'),
        ('1 1 3 4\n3 4 1 2\n2 1 4 3\n4 3 2 1', 'row 1 does not hold 1 to 4 once each'),
        ('1 2 3 4\n3 4 1 2\n2 1 4 3', '3 rows, not 4'),
        ('1 2 3 . \n3 4 1 2\n2 1 4 3\n4 3 2 1', "'.' is not an integer"),
    ],
)
def test_any_completion_is_right_and_nothing_else(answer, error):
    assert error_of(SUDOKU2, _DATA, answer) == error
    official = error_of(SUDOKU2, _DATA, answer, official=True)
    assert official == error


def test_levels_have_their_numbers_of_holes():
    for puzzle, limits in (
        (SUDOKU2, ((4, 5), (6, 7), (8, 9))),
        (SUDOKU, ((10, 20), (20, 33), (34, 50))),
    ):
        for level, (low, high) in enumerate(limits):
            holes = {
                sum(row.count(0) for row in data['grid'])
                for data in drawn(puzzle, level)
            }
            assert (min(holes), max(holes)) == (low, high)


def test_a_dot_of_the_question_is_an_empty_cell():
    assert SUDOKU2.question(_DATA) == '1 . . .\n. . . 2\n. . . .\n. . . .'


def test_half_of_the_solutions_are_turned():
    """Three numbers side by side in a box are of three sets, or of nine if turned."""
    turned = 0
    for data in drawn(SUDOKU, 0):
        rows = [line.split() for line in data['answer'].splitlines()]
        sets = {frozenset(row[i : i + 3]) for row in rows for i in (0, 3, 6)}
        assert len(sets) in (3, 9)
        turned += len(sets) == 3
    assert 45 < turned < 55
