"""Which cells of a drawing are marked as wrong: those that break a rule."""

import pytest

from passk_jax.tasks.enigmata.table import ALL_PUZZLES

_SUDOKU = {'grid': [[1, 0, 0, 4], [0, 4, 1, 0], [0, 1, 4, 0], [4, 0, 0, 1]]}
_BINARIO = {
    'grid': [[-1, 0, -1, -1], [-1, -1, -1, -1], [-1, -1, -1, -1], [-1, -1, -1, 1]]
}
_SKYSCRAPER = {'clues': [[2, 1], [2, 1], [1, 2], [1, 2]]}
_MAGIC = {
    'numbers': [[2, 0, 6], [0, 0, 1], [4, 3, 8]],
    'given': [[1, 0, 1], [0, 0, 1], [1, 1, 1]],
}
_KAKURASU = {'row_sums': [3, 1], 'column_sums': [3, 1]}
_HITORI = {'grid': [[1, 1, 3], [2, 3, 1], [3, 3, 2]]}
# A black 1, an empty row, and a black cell without a number.
_LIGHT = {'board': [[1, -1, -1], [-1, -1, -1], [5, -1, -1]]}
_MINES = {'board': [[1, -2], [-2, -2]], 'forced': [[0, 1]]}
_SLANT = {'corners': [[-1, -1, -1], [-1, 4, -1], [1, -1, -1]]}
_STARS = {'blocked': [[0, 0, 0], [1, 0, 0], [0, 0, 0]]}
_CAMP = {
    'trees': [[1, 0, 0], [0, 0, 0], [0, 0, 1]],
    'row_tents': [1, 1, 0],
    'column_tents': [0, 1, 1],
}
_TOE = {'board': [0, 0, -1, 1, 1, -1, -1, -1, -1], 'player': 0}
_CROSS = {'question': '_ _ _\n_ * _\n_ _ _\n\nAcross: pet, number', 'answer': ''}
_SOLVED = _CROSS | {'answer': 'across: CAT, TEN\ndown: CUT, TIN'}


def _marks(name, data, answer):
    board = ALL_PUZZLES[name].picture(data, answer)
    drawn = board.after or board
    marks = {place for place, cell in drawn.cells.items() if cell.wrong}
    return marks | {('corner', *p) for p, c in board.corners.items() if c.wrong}


_EIGHT = {'board': [[1, 2, 3], [4, 5, 6], [7, 0, 8]]}
_NINE = {'board': [[3, 1, 2], [4, 5, 6], [7, 8, 9]]}
_TWIDDLE = {'board': [[4, 1, 3], [5, 2, 6], [7, 8, 9]]}
_MAZE = {'blocked': [[0, 0, 1], [1, 0, 0], [0, 0, 0]]}


def _marks(name, data, answer):
    """Places of the board; those of corners begin with their name."""
    board = ALL_PUZZLES[name].picture(data, answer)
    drawn = board.after or board
    marks = {place for place, cell in drawn.cells.items() if cell.wrong}
    return marks | {('corner', *p) for p, c in board.corners.items() if c.wrong}


@pytest.mark.parametrize(
    ('name', 'data', 'answer', 'marks'),
    [
        # A 2 twice in a row, a column and a box.
        ('sudoku2', _SUDOKU, '1 2 2 4\n2 4 1 3\n3 1 4 2\n4 2 3 1',
         {(0, 1), (0, 2), (1, 0), (3, 1)}),
        # A 5, a 0, and a given 1 that became a second 3.
        ('sudoku2', _SUDOKU, '1 5 0 4\n2 4 1 3\n3 1 4 2\n4 2 3 3',
         {(0, 1), (0, 2), (1, 3), (3, 2), (3, 3)}),
        # Three 1 in a row and in a column, where they also stand too often.
        ('binario', _BINARIO, '0 0 1 1\n1 1 1 0\n0 1 0 1\n1 1 0 0',
         {(1, 0), (1, 1), (1, 2), (2, 1), (3, 1), (3, 3)}),
        # A 2, and two lines with 1 too often but not in a row of three.
        ('binario', _BINARIO, '0 0 1 1\n1 1 0 0\n0 0 2 1\n1 1 0 1',
         {(0, 3), (2, 2), (2, 3), (3, 0), (3, 1)}),
        ('skyscraper', _SKYSCRAPER, '1 2\n2 1', set()),
        # Seven clues are broken; the one on the right of the first row holds.
        ('skyscraper', _SKYSCRAPER, '2 2\n1 3',
         {(-1, 0), (-1, 1), (0, -1), (1, -1), (1, 2), (2, 0), (2, 1), (0, 0), (0, 1),
          (1, 1)}),
        ('magic_square', _MAGIC, '2 7 6\n9 5 1\n4 3 8', set()),
        # A given number again, another one changed, and three sums.
        ('magic_square', _MAGIC, '2 7 6\n9 6 1\n4 3 9',
         {(1, 1), (2, 2), (0, 3), (3, 0), (3, 3)}),
        ('kakurasu', _KAKURASU, '[(1, 1), (1, 2), (2, 1)]', set()),
        ('kakurasu', _KAKURASU, '[(1, 1), (2, 1)]', {(0, 2), (2, 1)}),
        ('kakurasu', _KAKURASU, '[]', {(0, 2), (1, 2), (2, 0), (2, 1)}),
        ('hitori', _HITORI, '[(0, 0), (2, 1)]', set()),
        # Neighbours, and the 3 that a row and a column still show twice.
        ('hitori', _HITORI, '[(0, 0), (0, 1)]',
         {(0, 0), (0, 1), (1, 1), (2, 0), (2, 1)}),
        ('light_up', _LIGHT, '[(1, 0), (0, 2), (2, 1)]', set()),
        # Bulbs that light each other; a number and a cell in the dark; a black cell.
        ('light_up', _LIGHT, '[(0, 1), (1, 2), (2, 1)]', {(0, 1), (2, 1)}),
        ('light_up', _LIGHT, '[(0, 1), (1, 0)]', {(0, 0), (2, 2)}),
        ('light_up', _LIGHT, '[(1, 0), (0, 2), (2, 1), (2, 0)]', {(2, 0)}),
        ('minesweeper', _MINES, '[(0, 1)]', set()),
        # A number, a missing mine, and a cell that is none for certain.
        ('minesweeper', _MINES, '[(0, 0), (1, 1)]', {(0, 0), (0, 1), (1, 1)}),
        ('slant', _SLANT, '-1 1\n1 -1', set()),
        # The last diagonal of a loop.
        ('slant', _SLANT, '1 -1\n-1 1', {('corner', 1, 1), ('corner', 2, 0), (1, 1)}),
        ('star_battle', _STARS, '* . *\nX . .\n. * .', {(0, 0), (0, 2)}),
        ('star_battle', _STARS, '* . .\nX * .\n. . .', {(0, 0), (1, 1)}),
        ('campsite', _CAMP, 'X * .\n. . *\n. . X', {(0, 1), (1, 2)}),
        # A tree without a tent, a tent without a tree, and two numbers.
        ('campsite', _CAMP, 'X . *\n. . .\n. * X', {(0, 0), (0, 2), (1, -1), (2, -1)}),
        ('eight_puzzle', _EIGHT, 'R', set()),
        ('eight_puzzle', _EIGHT, 'L', {(2, 1), (2, 2)}),
        ('nine_puzzle', _NINE, '["R11"]', set()),
        ('nine_puzzle', _NINE, '["R12"]', {(0, 0), (0, 1), (0, 2)}),
        ('twiddle', _TWIDDLE, '(0,0)', set()),
        ('twiddle', _TWIDDLE, '(0,0)->(0,0)', {(0, 0), (0, 1), (1, 0), (1, 1)}),
        ('tic_tac_toe', _TOE, '"O" "O" "O"\n"X" "X" ""\n"" "" ""', set()),
        # A worse move, two moves, and the mark of the other player.
        ('tic_tac_toe', _TOE, '"O" "O" ""\n"X" "X" ""\n"O" "" ""', {(2, 0)}),
        ('tic_tac_toe', _TOE, '"O" "X" "O"\n"X" "X" ""\n"" "" ""', {(0, 1), (0, 2)}),
        ('tic_tac_toe', _TOE, '"O" "O" "X"\n"X" "X" ""\n"" "" ""', {(0, 2)}),
        # Two letters in a cell, one that is not the stored one, and none known.
        ('full_crosswords', _SOLVED, 'across: CAB, TEN\ndown: CUT, TIN', {(0, 2)}),
        ('full_crosswords', _SOLVED, 'across: COT\ndown: CUT', {(0, 1)}),
        ('full_crosswords', _CROSS, 'across: COT\ndown: CUT', set()),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_marked(name, data, answer, marks):
    assert _marks(name, data, answer) == marks


@pytest.mark.parametrize(
    ('name', 'data', 'answer', 'note'),
    [
        ('eight_puzzle', _EIGHT, 'RR', 'left the board at move 2'),
        ('nine_puzzle', _NINE, '["R11", "C99"]', 'move 2 is not a move'),
        ('twiddle', _TWIDDLE, '(0,0)->(2,2)', 'step 2 is outside the board'),
        ('tic_tac_toe', _TOE, '', 'O to move'),
        ('minesweeper', _MINES, '[(5, 5)]', '1 outside the board'),
        ('eight_puzzle', _EIGHT, 'R', ''),
    ],
)
def test_a_note_says_what_no_cell_shows(name, data, answer, note):
    board = ALL_PUZZLES[name].picture(data, answer)
    assert board.note == note
    if note.startswith(('left', 'move', 'step')):
        # The moves before it are made.
        assert not any(cell.wrong for cell in board.after.cells.values())


@pytest.mark.parametrize(
    ('answer', 'way', 'blocked'),
    [
        ('(1,1)->(1,2)->(2,2)', [(0, 0), (0, 1), (1, 1)], None),
        ('(1,1)->(1,2)->(1,3)->(2,3)', [(0, 0), (0, 1)], (0, 2)),
        # A jump points in its direction; a way need not begin at the start.
        ('(1,1)->(3,3)', [(0, 0)], (1, 1)),
        ('(1,1)->(0,1)', [(0, 0)], (-1, 0)),
        ('(2,2)->(2,3)', [(1, 1), (1, 2)], None),
        ('(2,1)->(2,2)', [(0, 0)], (1, 0)),
        ('(999999999,1)->(2,2)', [(0, 0)], (1, 0)),
    ],
)
def test_a_way_through_a_maze_ends_where_a_step_fails(answer, way, blocked):
    board = ALL_PUZZLES['maze'].picture(_MAZE, answer)
    assert (board.way, board.blocked) == (way, blocked)
