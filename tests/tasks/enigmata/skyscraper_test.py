import pytest

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import skyscraper
from passk_jax.tasks.enigmata.skyscraper import SKYSCRAPER, SUM_SKYSCRAPER
from tests.tasks.enigmata.judge import drawn, error_of

_GRID = '1 2 3\n3 1 2\n2 3 1'
_COUNTS = {'clues': [[2, 2, 1], [3, 1, 2], [1, 2, 2], [2, 1, 3]], 'answer': _GRID}
_SUMS = {'clues': [[4, 5, 3], [6, 3, 5], [3, 5, 4], [5, 3, 6]], 'answer': _GRID}


@pytest.mark.parametrize(
    ('puzzle', 'data'), [(SKYSCRAPER, _COUNTS), (SUM_SKYSCRAPER, _SUMS)]
)
def test_clues_go_around_the_grid(puzzle, data):
    assert error_of(puzzle, data, _GRID) is None
    for edge, name in enumerate(('top', 'left', 'right', 'bottom')):
        clues = [list(line) for line in data['clues']]
        clues[edge][1] += 1
        error = error_of(puzzle, data | {'clues': clues}, _GRID)
        assert error == f'a clue differs: {name}'


def test_a_grid_that_is_no_latin_square_is_wrong_whatever_its_clues():
    grid = [[1, 2, 3], [3, 1, 2], [3, 3, 1]]
    data = {'clues': SKYSCRAPER._clues(grid), 'answer': ''}
    text = '1 2 3\n3 1 2\n3 3 1'
    assert error_of(SKYSCRAPER, data, text, official=True) is None
    assert error_of(SKYSCRAPER, data, text) == 'row 3 does not hold 1 to 3 once each'
    text = '1 2 3\n1 2 3\n1 2 3'
    data = {'clues': SKYSCRAPER._clues([[1, 2, 3]] * 3), 'answer': ''}
    assert error_of(SKYSCRAPER, data, text) == 'column 1 does not hold 1 to 3 once each'


def test_a_record_has_four_lines_of_at_most_64_clues():
    def read(*lengths):
        edges = ('top', 'left', 'right', 'bottom')
        clues = {e: [1] * n for e, n in zip(edges, lengths, strict=True)}
        return SKYSCRAPER.read(
            {'meta': {'question': clues}, 'answer': [[1, 2], [2, 1]]}
        )

    assert read(2, 2, 2, 2) == {'clues': [[1, 1]] * 4, 'answer': '1 2\n2 1'}
    for side in (1, 64):
        assert len(read(*[side] * 4)['clues'][3]) == side
    for lengths in ((0, 0, 0, 0), (65, 65, 65, 65), (2, 2, 2, 3), (3, 2, 2, 2)):
        with pytest.raises(ValueError, match='clues of different lengths'):
            read(*lengths)


def test_lower_buildings_are_hidden():
    assert skyscraper.visible([4, 3, 2, 1]) == [4]
    assert skyscraper.visible([1, 3, 2, 4]) == [1, 3, 4]
    assert skyscraper.visible([2, 2, 3]) == [2, 3]


def test_latin_squares_are_complete_and_varied():
    for side in range(1, 9):
        grid = skyscraper.latin_square(side, Draws(side))
        numbers = set(range(1, side + 1))
        assert all(set(line) == numbers for line in (*grid, *zip(*grid, strict=True)))
    squares = {str(skyscraper.latin_square(4, Draws(i))) for i in range(3000)}
    # There are 576 Latin squares of side 4.
    assert len(squares) > 500


def test_levels_have_their_sizes():
    for level, sides in enumerate(({3, 4}, {5, 6}, {7, 8})):
        assert {len(data['clues'][0]) for data in drawn(SKYSCRAPER, level)} == sides
