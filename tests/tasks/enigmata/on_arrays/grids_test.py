"""What random responses seldom show; ``table_test`` has these."""

import jax
import numpy as np
import pytest

from passk_jax.tasks.enigmata.on_arrays.batch import PAD, padded
from passk_jax.tasks.enigmata.on_arrays.table import RULES
from passk_jax.tasks.enigmata.puzzle import grid_text
from passk_jax.tasks.enigmata.table import PUZZLES
from tests.tasks.enigmata.judge import drawn
from tests.tasks.enigmata.on_arrays.responses import judged


@pytest.mark.parametrize('name', ['binario', 'magic_square', 'slant'])
def test_more_padding_changes_nothing(name):
    puzzle, rule = PUZZLES[name], RULES[name]
    (data,) = drawn(puzzle, 0, 1)
    arrays = *rule.problem(data), rule.answer(data, data['answer'])
    small = [padded(array) for array in arrays]
    large = [np.pad(array, (0, len(array)), constant_values=PAD) for array in small]
    judge = jax.jit(rule.judge)
    assert judge(*small)
    assert judge(*large)
    large[-1][0, 0] += 5
    assert not judge(*large)


@pytest.mark.parametrize('name', ['skyscraper', 'sum_skyscraper'])
def test_clues_that_fit_do_not_make_a_latin_square(name):
    for grid in (
        [[1, 2], [1, 2]],
        [[1, 1], [2, 2]],
        [[2, 2], [2, 2]],
        [[0, 1], [1, 0]],
    ):
        data = {'clues': PUZZLES[name]._clues(grid)}
        assert judged(name, data, grid_text(grid)) == [False]
    grid = [[1, 2], [2, 1]]
    assert judged(name, {'clues': PUZZLES[name]._clues(grid)}, grid_text(grid)) == [
        True
    ]


def test_sums_that_differ_by_two_to_the_32_differ():
    grid = np.full((9, 9), 10**8)
    grid[0, 1:] -= 2**29
    grid[1:, 0] -= 2**29
    grid[range(1, 9), [7, 3, 4, 5, 6, 8, 1, 2]] += 2**29
    assert set(grid.sum(0)) == set(grid.sum(1)) == {9 * 10**8, 9 * 10**8 - 2**32}
    data = dict.fromkeys(('numbers', 'given'), [[0] * 9] * 9)
    answers = [grid_text(board.tolist()) for board in (grid, grid * 0 - 999_999_999)]
    assert judged('magic_square', data, *answers) == [False, True]


def test_a_filled_number_may_not_equal_a_given_one():
    data = {'numbers': [[5, 0], [0, 0]], 'given': [[1, 0], [0, 0]]}
    assert judged('magic_square', data, '5 5\n5 5', '5 4\n4 5') == [False, False]
    data = {'numbers': [[0, 0], [0, 0]], 'given': [[0, 0], [0, 0]]}
    assert judged('magic_square', data, '5 5\n5 5', '0 0\n0 0') == [True, True]


def test_short_and_long_loops_are_found():
    corners = [[-1] * 5 for _ in range(5)]
    # The second becomes the third when its lowest cell is turned.
    short = '1 -1 1 1\n-1 1 1 1\n1 1 1 1\n1 1 1 1'
    long = '1 1 -1 -1\n1 1 -1 -1\n-1 -1 -1 1\n-1 -1 1 1'
    open_ = '1 1 -1 -1\n1 1 -1 -1\n-1 -1 -1 1\n-1 -1 -1 1'
    answers = short, long, open_
    assert judged('slant', {'corners': corners}, *answers) == [False, False, True]


def test_a_row_of_one_cell_has_no_three_equal_neighbours():
    assert judged('binario', {'grid': [[-1]]}, '0', '1') == [False, False]
    two = {'grid': [[-1, -1], [-1, -1]]}
    assert judged('binario', two, '0 1\n1 0', '0 1\n0 1') == [True, False]


def test_a_move_that_another_mark_spoils_is_wrong():
    data = {'board': [0, 0, -1, 1, 1, -1, -1, -1, -1], 'player': 0}
    board = '"O" "O" {}\n"X" "X" {}\n"" "" {}'
    empty = '""'
    assert judged(
        'tic_tac_toe',
        data,
        board.format('"O"', empty, empty),
        board.format('"X"', empty, empty),
        board.format('"O"', '"O"', empty),
        board.format(empty, '"O"', empty),
        board.format(empty, empty, empty),
    ) == [True, False, False, False, False]
