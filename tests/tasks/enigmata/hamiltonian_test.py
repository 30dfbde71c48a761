import pytest

from passk_jax.tasks.enigmata import circuits
from passk_jax.tasks.enigmata.hamiltonian import HAMILTONIAN_CYCLE, HAMILTONIAN_PATH
from tests.tasks.enigmata.judge import drawn, error_of

_SQUARE = {
    'num_vertices': 4,
    'edges': [[0, 1], [2, 1], [2, 3], [3, 0]],
    'answer': '[0, 1, 2, 3, 0]',
}
_STAR = {'num_vertices': 4, 'edges': [[0, 1], [0, 2], [0, 3]], 'answer': 'NO'}


@pytest.mark.parametrize(
    ('data', 'answer', 'error'),
    [
        (_SQUARE, '[0, 1, 2, 3, 0]', None),
        (_SQUARE, '[2,1,0,3,2]', None),
        (_SQUARE, '[0, 1, 2, 3]', 'no cycle that ends where it began'),
        # The known exploit.
        (_SQUARE, '[0, 1, 2, 3, 999]', 'no cycle that ends where it began'),
        (_SQUARE, '[0, 2, 1, 3, 0]', 'no edge between 0 and 2'),
        (_SQUARE, '[0, 1, 0]', 'no cycle that ends where it began'),
        (_SQUARE, '[0, 1, 2, 1, 0]', 'not every vertex exactly once'),
        (_SQUARE, '[0, 1, 2, 3, 0, 1, 2, 3, 0]', 'not every vertex exactly once'),
        (_SQUARE, '[]', 'no cycle that ends where it began'),
        (_SQUARE, 'NO', 'there is a solution'),
        (_STAR, 'NO', None),
        (_STAR, '"no"', None),
        (_STAR, 'NO CYCLE', 'no list in brackets'),
    ],
)
def test_a_cycle_returns_to_its_first_vertex(data, answer, error):
    assert error_of(HAMILTONIAN_CYCLE, data, answer) == error


@pytest.mark.parametrize(
    ('data', 'answer', 'error'),
    [
        (_SQUARE, '[1, 0, 3, 2]', None),
        (_SQUARE, '[1, 0, 3, 2, 1]', 'not every vertex exactly once'),
        (_SQUARE, '[0, 2, 1, 3]', 'no edge between 0 and 2'),
        (_SQUARE, '[-1, 0, 1, 2]', 'not every vertex exactly once'),
        (_SQUARE, 'NO', 'there is a solution'),
        (_STAR, 'NO', None),
        (_STAR, '[1, 0, 2, 3]', 'no edge between 2 and 3'),
    ],
)
def test_a_path_has_every_vertex_once(data, answer, error):
    assert error_of(HAMILTONIAN_PATH, data, answer) == error
    official = error_of(HAMILTONIAN_PATH, data, answer, official=True)
    expected = 'the official verifier accepts no NO' if answer == 'NO' else error
    assert official == expected


def test_the_official_rule_does_not_look_at_the_last_vertex_and_accepts_no_no():
    def official(data, answer):
        return error_of(HAMILTONIAN_CYCLE, data, answer, official=True)

    assert official(_SQUARE, '[0, 1, 2, 3, 999]') is None
    assert official(_SQUARE, '[0, 1, 2, 3]') == 'not every vertex exactly once'
    assert official(_STAR, 'NO') == 'the official verifier accepts no NO'


def test_a_record_is_solved_or_else_believed(monkeypatch):
    square = '4\n0 1\n2 1\n2 3\n3 0'
    record = {'meta': {'question': square}, 'answer': 'NO'}
    assert HAMILTONIAN_CYCLE.read(record)['answer'] != 'NO'
    monkeypatch.setattr(circuits, '_BUDGET', 1)
    assert HAMILTONIAN_CYCLE.read(record)['answer'] == 'NO'
    for bad in ('', 'x', '0', '65', '3\n0', '3\n0 3', '3\n0 -1', '3\n0 1 2'):
        with pytest.raises(ValueError, match=r'.'):
            HAMILTONIAN_CYCLE.read({'meta': {'question': bad}, 'answer': 'NO'})


def test_levels_have_their_sizes_and_both_verdicts():
    for puzzle in (HAMILTONIAN_CYCLE, HAMILTONIAN_PATH):
        for level, (low, high) in enumerate(((10, 15), (15, 20), (20, 25))):
            problems = drawn(puzzle, level)
            sizes = {data['num_vertices'] for data in problems}
            assert sizes == set(range(low, high + 1))
            impossible = sum(data['answer'] == 'NO' for data in problems)
            assert 10 < impossible < 80, impossible
