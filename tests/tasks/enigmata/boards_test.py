from passk_jax.tasks.enigmata import boards
from passk_jax.tasks.enigmata.boards import Cell


def test_given_numbers_stay_apart_from_answered_ones():
    clues = [[1, None], [None, 0]]
    assert boards.filled(clues, None) == {
        (0, 0): Cell('1', 'given'),
        (0, 1): Cell('', new=True),
        (1, 0): Cell('', new=True),
        (1, 1): Cell('0', 'given'),
    }
    cells = boards.filled(clues, [[1, 5], [6, 7]], wrong={(0, 0), (0, 1)})
    assert cells == {
        # A given number is not at fault, unless the answer changes it.
        (0, 0): Cell('1', 'given'),
        (0, 1): Cell('5', new=True, wrong=True),
        (1, 0): Cell('6', new=True),
        (1, 1): Cell('7', new=True, wrong=True),
    }


def test_clues_stand_on_their_sides():
    cells = boards.clues(
        2,
        3,
        top=[(1, False)],
        left=[(2, False)],
        right=[(3, False), (4, True)],
        bottom=[(5, True)],
    )
    assert cells == {
        (-1, 0): Cell('1', 'clue'),
        (0, -1): Cell('2', 'clue'),
        (0, 3): Cell('3', 'clue'),
        (1, 3): Cell('4', 'clue', wrong=True),
        (2, 0): Cell('5', 'clue', wrong=True),
    }
    assert not any(cell.on_board for cell in cells.values())


def test_clues_are_broken_only_by_an_answer():
    assert boards.compared([1, 2], None) == [(1, False), (2, False)]
    assert boards.compared([1, 2], [1, 3]) == [(1, False), (2, True)]


def test_lines_are_rows_then_columns():
    assert boards.lines_of([[7, 8, 9]]) == [
        [(0, 0), (0, 1), (0, 2)],
        [(0, 0)],
        [(0, 1)],
        [(0, 2)],
    ]


def test_a_number_is_repeated_within_a_group_and_0_never_is():
    rows = [[1, 1, 0], [2, 0, 0], [1, 3, 2]]
    groups = boards.lines_of(rows)
    assert boards.repeated(groups, rows) == {(0, 0), (0, 1), (2, 0)}


def test_numbers_beyond_a_range():
    assert boards.beyond([[0, 1], [4, 5]], 1, 4) == {(0, 0), (1, 1)}


def test_moves_make_another_board_whose_stray_tiles_are_wrong():
    goal = [[1, 2], [3, 0]]
    board = boards.moved([[1, 2], [0, 3]], [[1, 0], [3, 2]], goal, note='so far')
    assert board.note == 'so far'
    assert board.cells[1, 0].text == ''
    assert board.cells[1, 1] == Cell('3', 'given')
    assert board.after.cells == {
        (0, 0): Cell('1', new=True),
        (0, 1): Cell(),
        (1, 0): Cell('3', new=True),
        (1, 1): Cell('2', new=True, wrong=True),
    }
    blank = boards.moved(goal, None, goal).after
    assert set(blank.cells.values()) == {Cell()}


def test_places_that_no_cell_has_are_counted():
    assert boards.outside([(0, 0)], {(0, 0): Cell()}) == ''
    assert boards.outside([(0, 0), (9, 0)], {(0, 0): Cell()}) == '1 outside the board'
