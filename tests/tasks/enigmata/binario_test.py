import pytest

from passk_jax.tasks.enigmata.binario import BINARIO, EMPTY
from tests.tasks.enigmata.judge import drawn, error_of

_DATA = {
    'grid': [[0, 1, EMPTY, EMPTY], *([[EMPTY] * 4] * 3)],
    'answer': '0 1 0 1\n0 1 0 1\n1 0 1 0\n1 0 1 0',
}


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('0 1 0 1\n0 1 0 1\n1 0 1 0\n1 0 1 0', None, None),
        ('0 1 0 1\n1 0 1 0\n0 1 0 1\n1 0 1 0', None, None),
        ('1 0 0 1\n0 1 0 1\n0 1 1 0\n1 0 1 0', *['a clue is changed'] * 2),
        ('0 1 0 1\n0 1 0 1\n0 1 1 0\n1 0 1 0', *['column 1 is not balanced'] * 2),
        ('0 1 0 0\n0 1 0 1\n1 0 1 0\n1 0 1 0', *['row 1 is not balanced'] * 2),
        # The known exploit: other digits, of which no line has too many.
        ('0 1 2 3\n2 3 4 5\n3 2 5 4\n1 0 3 2', 'a number is neither 0 nor 1', None),
        ('No valid solution exists.', '1 rows, not 4', '1 rows, not 4'),
    ],
)
def test_any_valid_grid_is_right_and_nothing_else(answer, error, official):
    assert error_of(BINARIO, _DATA, answer) == error
    assert error_of(BINARIO, _DATA, answer, official=True) == official


def test_three_equal_neighbours_are_wrong():
    data = {'grid': [[EMPTY] * 6 for _ in range(6)], 'answer': ''}
    rows = ['0 0 0 1 1 1', '1 1 1 0 0 0', '0 1 0 1 0 1', '1 0 1 0 1 0'] * 2
    answer = '\n'.join(rows[:6])
    assert error_of(BINARIO, data, answer) == 'row 1 has three equal neighbours'
    turned = '\n'.join(' '.join(line[i] for line in map(str.split, rows[:6]))
                       for i in range(6))  # fmt: skip
    assert error_of(BINARIO, data, turned) == 'column 1 has three equal neighbours'


def test_levels_have_their_numbers_of_holes():
    # Side -> the least and the most, whole cells of 12 to 25 %, 18 to 30 %, 20 to 45 %.
    expected = (
        {4: (1, 4), 6: (4, 9)},
        {4: (2, 4), 6: (6, 10)},
        {6: (7, 16), 8: (12, 28)},
    )
    for level, limits in enumerate(expected):
        by_side = {side: set() for side in limits}
        for data in drawn(BINARIO, level):
            holes = sum(row.count(EMPTY) for row in data['grid'])
            by_side[len(data['grid'])].add(holes)
        assert {side: (min(n), max(n)) for side, n in by_side.items()} == limits


def test_the_question_and_a_record_show_an_empty_cell_as_a_line():
    text = '0 1 _ _\n_ _ _ _\n_ _ _ _\n_ _ _ _'
    assert BINARIO.question(_DATA) == text
    record = {'meta': {'question': text}, 'answer': _DATA['answer']}
    assert BINARIO.read(record) == _DATA


def test_a_record_has_a_square_of_at_most_64():
    for rows, columns in ((64, 64), (1, 1)):
        text = '\n'.join([' '.join('_' * columns)] * rows)
        read = BINARIO.read({'meta': {'question': text}, 'answer': ''})
        assert len(read['grid']) == rows
    for rows, columns in ((65, 65), (2, 3), (3, 2)):
        text = '\n'.join([' '.join('_' * columns)] * rows)
        with pytest.raises(ValueError, match='not a square'):
            BINARIO.read({'meta': {'question': text}, 'answer': ''})


def test_grids_differ_which_those_of_the_official_generator_do_not():
    for level, sides in enumerate(({4, 6}, {4, 6}, {6, 8})):
        problems = drawn(BINARIO, level)
        assert {len(data['grid']) for data in problems} == sides
        assert len({data['answer'] for data in problems}) > 60
