"""Cases that the random responses of ``table_test`` seldom contain."""

from tests.tasks.enigmata.on_arrays.responses import judged


def test_no_cell_may_be_right():
    kakurasu = {'row_sums': [0, 0, 0], 'column_sums': [0, 0, 0]}
    assert judged('kakurasu', kakurasu, '[]', '[(1, 1)]') == [True, False]
    black = {'board': [[5, 0], [0, 5]]}
    assert judged('light_up', black, '[]', '[(0, 0)]') == [True, False]
    assert judged('hitori', {'grid': [[1, 2], [2, 1]]}, '[]') == [True]


def test_cells_outside_count_as_wrong_and_do_not_come_in_at_the_other_side():
    data = {'row_sums': [2, 0], 'column_sums': [0, 1]}
    answers = '[(1, 2), (0, 0)]', '[(1, -1)]', '[(-1, 2)]', '[(1, 3)]', '[(1, 5)]'
    verdicts = judged('kakurasu', data, '[(1, 2)]', *answers)
    assert verdicts == [True] + [False] * 5
    mines = {'board': [[-2, 1], [1, 1]], 'forced': [[0, 0]]}
    answers = '[(0, 0), (2, 2)]', '[(0, 0), (0, 0)]', '[(-2, -2)]', '[(0, 0), (-1, 0)]'
    assert judged('minesweeper', mines, '[(0, 0)]', *answers) == [True] + [False] * 4


def test_a_bulb_lights_to_the_other_side_and_not_through_a_cell():
    row = {'board': [[-1] * 7]}
    assert judged('light_up', row, '[(0, 0)]', '[(0, 6)]', '[(0, 0), (0, 6)]') == [
        *(True, True, False),
    ]
    cut = {'board': [[-1, -1, -1, 2, -1, -1, -1]]}
    assert judged('light_up', cut, '[(0, 0)]', '[(0, 2), (0, 4)]') == [False, True]


def test_bulbs_stand_on_empty_cells_and_fit_the_numbers():
    two = {'board': [[-1, 2, -1]]}
    one = {'board': [[-1, 1, -1]]}
    assert judged('light_up', two, '[(0, 0), (0, 2)]', '[(0, 0)]') == [True, False]
    assert judged('light_up', one, '[(0, 0), (0, 2)]', '[(0, 0)]') == [False, False]
    black = {'board': [[-1, 5, 5]]}
    assert judged('light_up', black, '[(0, 0)]', '[(0, 0), (0, 2)]') == [True, False]


def test_each_rule_of_star_battle_counts_alone():
    right = '. * . .\n. . . *\n* . . .\n. . * .'
    columns = '* . . .\n. . * .\n* . . .\n. . * .'
    rows = '* . * .\n. . . .\n. * . *\n. . . .'
    touching = '* . . .\n. . . *\n. * . .\n. . * .'
    data = {'blocked': [[0] * 4] * 4}
    boards = right, columns, rows, touching
    assert judged('star_battle', data, *boards) == [True, False, False, False]
    data = {'blocked': [[0, 1, 0, 0], *[[0] * 4] * 3]}
    assert judged('star_battle', data, right) == [False]


def test_all_black_leaves_no_white_cell():
    assert judged('hitori', {'grid': [[1]]}, '[(0, 0)]', '[]') == [False, True]


def test_each_rule_of_hitori_counts_alone():
    latin = {'grid': [[1, 2, 3], [2, 3, 1], [3, 1, 2]]}
    cells = '[]', '[(0, 1)]', '[(0, 0), (0, 1)]', '[(0, 1), (1, 0)]'
    assert judged('hitori', latin, *cells) == [True, True, False, False]
    assert judged('hitori', {'grid': [[1, 2], [1, 3]]}, '[]', '[(0, 0)]') == [
        *(False, True),
    ]
    assert judged('hitori', {'grid': [[1, 1], [2, 3]]}, '[]', '[(0, 0)]') == [
        *(False, True),
    ]


def _campsite(trees, rows, columns, board):
    data = {'trees': trees, 'row_tents': rows, 'column_tents': columns}
    return judged('campsite', data, board)[0]


def test_each_rule_of_campsite_counts_alone():
    middle = [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    tent = '. * .\n. X .\n. . .'
    assert _campsite(middle, [1, 0, 0], [0, 1, 0], tent)
    assert not _campsite(middle, [0, 1, 0], [0, 1, 0], tent)
    assert not _campsite(middle, [1, 0, 0], [0, 0, 1], tent)
    # Each tree has a tent of its own, but the tents touch.
    crossed = [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert not _campsite(crossed, [1, 1, 0], [1, 1, 0], 'X * .\n* X .\n. . .')
    apart = [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert _campsite(apart, [1, 0, 1], [0, 1, 1], 'X * .\n. . X\n. . *')
    assert not _campsite(apart, [1, 0, 1], [1, 1, 0], 'X * .\n. . X\n* . .')


def test_boards_need_not_be_square():
    data = {'trees': [[1, 0, 0], [0, 0, 0]]}
    data |= {'row_tents': [1, 0], 'column_tents': [0, 1, 0]}
    boards = 'X * .\n. . .', 'X . .\n* . .', 'X * .', '* X .\n. . .', 'X * é\n. . .'
    assert judged('campsite', data, *boards) == [True] + [False] * 4
