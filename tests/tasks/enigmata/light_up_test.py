import math

import pytest

from passk_jax.tasks.enigmata.light_up import BLACK, EMPTY, LIGHT_UP
from tests.tasks.enigmata.judge import drawn, error_of

# .1.
# .#.
# ...
_DATA = {
    'board': [[EMPTY, 1, EMPTY], [EMPTY, BLACK, EMPTY], [EMPTY, EMPTY, EMPTY]],
    'answer': '[(0, 0), (2, 2)]',
}


@pytest.mark.parametrize(
    ('answer', 'error'),
    [
        ('[(0, 0), (2, 2)]', None),
        ('[(2, 0), (0, 2)]', None),
        ('[(2, 1), (0, 0), (1, 2)]', None),
        ('[(0, 0), (2, 0)]', 'a bulb lights another'),
        ('[(0, 0), (2, 2), (2, 0)]', 'a bulb lights another'),
        ('[(0, 0), (1, 2)]', 'an empty cell is not lit'),
        ('[]', 'an empty cell is not lit'),
        ('[(1, 0), (2, 2)]', 'a number does not count its bulbs'),
        # A black cell with a number stops the light.
        ('[(0, 0), (0, 2), (2, 1)]', 'a number does not count its bulbs'),
        ('[(0, 0), (1, 1)]', 'a bulb on a black cell'),
        ('[(0, 0), (0, 1)]', 'a bulb on a black cell'),
        ('[(0, 0), (2, 3)]', 'a cell outside the grid'),
        (f'"{LIGHT_UP.none}"', 'there is a solution'),
        ('[(i, i) for i in range(9)]', 'item 1 is malformed'),
    ],
)
def test_any_valid_set_of_bulbs_is_right_and_nothing_else(answer, error):
    assert error_of(LIGHT_UP, _DATA, answer) == error


def test_the_official_rule_counts_a_bulb_that_stands_twice():
    for answer, error in (
        ('[(2, 2), (0, 0)]', None),
        ('[(2, 2), (0, 0), (0, 0)]', 'not the stored answer'),
        ('[(2, 0), (0, 2)]', 'not the stored answer'),
    ):
        assert error_of(LIGHT_UP, _DATA, answer, official=True) == error


def test_a_rectangle_is_read_and_shown_as_it_is():
    board = '..1\n#0.'
    data = LIGHT_UP.read({'meta': {'question': board}, 'answer': [[0, 0]]})
    assert data['board'] == [[EMPTY, EMPTY, 1], [BLACK, 0, EMPTY]]
    assert LIGHT_UP.question(data) == board
    assert LIGHT_UP.shape(data) == (2, 3)
    assert LIGHT_UP.shape({'board': [[EMPTY, EMPTY]]}) == (1, 2)
    for most in ('.' * 64, '.\n' * 63 + '.'):
        LIGHT_UP.read({'meta': {'question': most}, 'answer': []})
    for bad in ('', '..\n.', '.' * 65, '.\n' * 64 + '.'):
        with pytest.raises(ValueError, match='no rectangle'):
            LIGHT_UP.read({'meta': {'question': bad}, 'answer': []})
    with pytest.raises(KeyError):
        LIGHT_UP.read({'meta': {'question': '.5'}, 'answer': []})


def test_levels_have_their_shares_of_black_cells_and_numbers():
    for level, (low, high, numbered) in enumerate(
        ((7, 9, 100), (5, 7, 70), (7, 9, 50))
    ):
        numbers = set()
        for data in drawn(LIGHT_UP, level):
            cells = [cell for row in data['board'] for cell in row]
            black = [cell for cell in cells if cell != EMPTY]
            assert len(cells) == 36
            numbers.add(len(black))
            with_number = sum(cell != BLACK for cell in black)
            assert with_number == math.ceil(len(black) * numbered / 100)
            assert error_of(LIGHT_UP, data, data['answer']) is None
        assert numbers == set(range(low, high + 1))
