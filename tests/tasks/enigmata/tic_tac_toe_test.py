import pytest

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import tic_tac_toe
from passk_jax.tasks.enigmata.tic_tac_toe import TIC_TAC_TOE
from tests.tasks.enigmata.judge import drawn, error_of

_VALUES = {'.': -1, 'O': 0, 'X': 1}


def _data(board, player):
    cells = [_VALUES[cell] for cell in board if cell != ' ']
    return {'board': cells, 'player': 'OX'.index(player), 'answer': ''}


def _answer(board):
    rows = board.split()
    return '\n'.join(' '.join(f'"{c}"'.replace('.', '') for c in row) for row in rows)


# X wins at once in the corner, or later by a fork.
_FORK = _data('.O. ..X O.X', 'X')
# O must take the centre.
_REPLY = _data('X.. ... ...', 'O')


@pytest.mark.parametrize(
    ('data', 'answer', 'error', 'official'),
    [
        (_FORK, '.OX ..X O.X', None, None),
        (_FORK, '.O. .XX O.X', None, 'a better move exists'),
        (_FORK, '.O. ..X OXX', *['a better move exists'] * 2),
        (_REPLY, 'X.. .O. ...', None, None),
        (_REPLY, 'XO. ... ...', *['a better move exists'] * 2),
        (_REPLY, 'X.. ... ..O', *['a better move exists'] * 2),
        (_REPLY, 'X.. .X. ...', *['the mark of the other player'] * 2),
        (_REPLY, 'O.. ... ...', *['not one mark more'] * 2),
        (_REPLY, 'X.. ... ...', *['not one mark more'] * 2),
        (_REPLY, 'X.. OO. ...', *['not one mark more'] * 2),
        (_REPLY, '... .O. ...', *['not one mark more'] * 2),
        (_REPLY, 'X.. .O.', *['no board of 3 by 3'] * 2),
        (_REPLY, 'X.. .o. ...', None, 'a cell is not "X", "O" or ""'),
    ],
)
def test_any_best_move_is_right_and_nothing_else(data, answer, error, official):
    assert error_of(TIC_TAC_TOE, data, _answer(answer)) == error
    assert error_of(TIC_TAC_TOE, data, _answer(answer), official=True) == official


def test_a_bar_at_one_end_of_a_row_moves_no_cell():
    answer = 'X||O|\n|X|.|O\n...'
    assert tic_tac_toe._cells(answer) == ['X', '', 'O', 'X', '.', 'O', '.', '.', '.']


def test_the_game_has_5478_states_and_is_a_draw():
    tic_tac_toe._value.cache_clear()
    assert tic_tac_toe._value(0, 0) == 0
    assert tic_tac_toe._value.cache_info().currsize == 5478
    # Those in which a move can be wrong.
    assert [len(states) for states in tic_tac_toe._states()] == [
        *(0, 9, 60, 186, 640, 768, 1032, 496, 0),
    ]


def test_an_official_move_is_a_best_move_in_every_state():
    for state in (state for layer in tic_tac_toe._states() for state in layer):
        data = {'board': tic_tac_toe._board(state, 1), 'player': 1}
        best = tic_tac_toe.best_moves(state)
        for move in tic_tac_toe._moves(state):
            after = tic_tac_toe._after(data['board'], move, 1)
            answer = tic_tac_toe._text(after)
            strict = error_of(TIC_TAC_TOE, data, answer) is None
            assert strict == (move in best)
            assert strict or error_of(TIC_TAC_TOE, data, answer, official=True)


def test_a_board_on_which_no_move_is_to_be_made_is_refused():
    rows = [['X', 'X', ''], ['O', 'O', ''], ['', '', '']]

    def read(board, player='X'):
        meta = {'current_board': board, 'active_player': player}
        return TIC_TAC_TOE.read({'meta': meta, 'answer': rows})

    assert read(rows)['player'] == 1
    assert read(rows, 'O')['player'] == 0
    # X began, and may be one mark ahead but not two.
    ahead = [['X', 'X', ''], ['O', '', ''], ['', '', '']]
    assert read(ahead, 'O')['player'] == 0
    with pytest.raises(ValueError, match='no move'):
        read([['X', 'X', ''], ['', '', ''], ['', '', '']], 'O')
    for bad in (
        [['X', 'X', 'X'], ['O', 'O', ''], ['', '', '']],
        [['X', 'X', ''], ['X', 'O', ''], ['', '', '']],
        [['X', 'X', ''], ['', '', ''], ['', '', '']],
        [['X', 'O', 'X'], ['X', 'O', 'O'], ['O', 'X', 'X']],
    ):
        with pytest.raises(ValueError, match='no move'):
            read(bad)
    for bad in ([['X', 'X'], ['O', 'O']], [['X', '', '', 'O', '', '', '', '', '']]):
        with pytest.raises(ValueError, match='3 by 3'):
            read(bad)
    with pytest.raises(ValueError, match='neither O nor X'):
        read(rows, 'XO')


def test_levels_have_their_numbers_of_marks_and_both_players():
    for level, marks in enumerate(({6, 7}, {5}, {2, 3, 4})):
        problems = drawn(TIC_TAC_TOE, level)
        for data in problems:
            error = error_of(TIC_TAC_TOE, data, data['answer'], official=True)
            assert error is None
        assert {data['player'] for data in problems} == {0, 1}
        counts = {9 - data['board'].count(-1) for data in problems}
        assert counts - {1} == marks
        # Either player may have begun.
        ahead = {data['board'].count(1) - data['board'].count(0) for data in problems}
        assert ahead == ({-1, 0, 1} if len(marks) > 1 else {-1, 1})


def test_the_hardest_level_has_boards_with_a_single_mark():
    class First(Draws):
        def choice(self, items):
            return items[0]

    data = TIC_TAC_TOE.generate(First(0), 2)
    assert data['board'].count(-1) == 8
