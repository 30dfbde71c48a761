import pytest

from passk_jax.tasks.enigmata import chosen_cells
from passk_jax.tasks.enigmata.boards import Board, Cell
from passk_jax.tasks.enigmata.chosen_cells import ChosenCells
from passk_jax.verifiers.answers import Wrong
from tests.tasks.enigmata.judge import error_of


class _Toy(ChosenCells):
    """Two cells of a board of 2 by 3, numbered from 1."""

    name = 'toy'
    rules = ''
    none = 'There is none.'
    first = 1

    def generate(self, draws, level):
        raise NotImplementedError

    def question(self, data):
        raise NotImplementedError

    def read(self, record):
        raise NotImplementedError

    def shape(self, data):
        return 2, 3

    def check_cells(self, data, cells):
        if len(cells) != 2:
            raise Wrong('not two cells')

    def board_of(self, data, chosen, *, answered):
        places = [(r, c) for r in range(2) for c in range(3)]
        clue = {(0, 3): Cell(str(answered), 'clue')}
        return Board({place: Cell(new=place in chosen) for place in places} | clue)


_SOLVED = {'answer': '[(1, 1), (2, 3)]'}
_NONE = {'answer': '"There is none."'}


@pytest.mark.parametrize(
    ('data', 'answer', 'error', 'official'),
    [
        (_SOLVED, '[(2, 3), (1, 1)]', None, None),
        (_SOLVED, '[(2, 2), (1, 1)]', None, 'not the stored answer'),
        (_SOLVED, '[(1, 1)]', 'not two cells', 'not the stored answer'),
        (_SOLVED, '[(1, 1), (2, 3), (1, 1)]', 'a cell twice', None),
        (
            _SOLVED,
            '[(0, 1), (2, 3)]',
            'a cell outside the grid',
            'not the stored answer',
        ),
        (
            _SOLVED,
            '[(3, 1), (2, 3)]',
            'a cell outside the grid',
            'not the stored answer',
        ),
        (
            _SOLVED,
            '[(1, 4), (2, 3)]',
            'a cell outside the grid',
            'not the stored answer',
        ),
        (_SOLVED, 'there is none', 'there is a solution', 'not the stored answer'),
        (_SOLVED, '[(1, 1), (2, 3)', *['no list in brackets'] * 2),
        (_NONE, 'there is none', None, None),
        (_NONE, '[(1, 1), (2, 3)]', None, 'not the stored answer'),
    ],
)
def test_an_answer_lists_cells_of_the_grid_or_claims_that_there_are_none(
    data, answer, error, official
):
    assert error_of(_Toy(), data, answer) == error
    assert error_of(_Toy(), data, answer, official=True) == official


def test_some_official_verifiers_count_cells_that_stand_twice(monkeypatch):
    monkeypatch.setattr(_Toy, 'official_set', False)
    error = error_of(_Toy(), _SOLVED, '[(1, 1), (2, 3), (1, 1)]', official=True)
    assert error == 'not the stored answer'


def test_a_stored_list_becomes_the_text_of_an_answer():
    assert chosen_cells.read_cells([[1, 2], [3, 4]]) == '[(1, 2), (3, 4)]'
    assert chosen_cells.read_cells('no way') == 'no way'
    with pytest.raises(ValueError, match='not an integer'):
        chosen_cells.read_cells([['1', 2]])


def test_neighbours_share_a_side():
    assert chosen_cells.neighbours((0, 0), height=2, width=2) == [(0, 1), (1, 0)]
    around = chosen_cells.neighbours((1, 1), height=3, width=3)
    assert around == [(0, 1), (1, 0), (1, 2), (2, 1)]


@pytest.mark.parametrize(
    ('answer', 'chosen', 'note', 'answered'),
    [
        ('[(1, 1), (2, 3)]', {(0, 0), (1, 2)}, '', 'True'),
        # Where a clue stands, no cell is.
        ('[(1, 4), (0, 1), (2, 1)]', {(1, 0)}, '2 outside the board', 'True'),
        ('[]', set(), '', 'True'),
        ('', set(), '', 'False'),
    ],
)
def test_a_drawing_has_the_chosen_cells_counted_from_zero(
    answer, chosen, note, answered
):
    board = _Toy().picture(_SOLVED, answer)
    assert {place for place, cell in board.cells.items() if cell.new} == chosen
    assert board.note == note
    assert board.cells[0, 3].text == answered


def test_a_claim_that_there_are_none_is_not_drawn():
    with pytest.raises(Wrong):
        _Toy().picture(_NONE, 'there is none')
