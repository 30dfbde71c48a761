import pytest

from passk_jax.tasks.enigmata import puzzle as puzzle_lib
from passk_jax.tasks.enigmata.puzzle import OneAnswer, Puzzle
from passk_jax.types import Verdict
from passk_jax.verifiers.answers import MAX_ANSWER, Wrong


class _Echo(Puzzle):
    """Only ``yes`` is right, and officially ``no``."""

    name, category, rules = 'echo', 'Logic', 'Answer: yes'

    def generate(self, draws, level):
        return {'answer': 'yes'}

    def question(self, data):
        return '?'

    def check(self, data, answer):
        if answer != data['answer']:
            raise Wrong('not yes')

    def check_official(self, data, answer):
        if answer != 'no':
            raise Wrong('not no')

    def read(self, record):
        return {'answer': 'yes'}


class _EchoBoard(_Echo):
    board = True


_DATA = {'answer': 'yes'}


def test_a_verdict_is_strict_or_official():
    def verdict(response, official=False):
        return _Echo().verdict(_DATA, response, official=official)

    assert verdict('```\nyes\n```') == Verdict(True, 'yes', None)
    assert verdict('```\nyes\n```', official=True) == Verdict(False, 'yes', 'not no')
    assert verdict('```\nno\n```', official=True) == Verdict(True, 'no', None)
    assert verdict('yes') == Verdict(False, '', 'no answer')
    assert verdict('```\n \n```').error == 'no answer'


def test_the_answer_is_where_the_puzzle_says():
    assert _Echo().response('yes') == '```\nyes\n```'
    board = _EchoBoard()
    assert board.verdict(_DATA, board.response('yes'), official=False).correct
    assert not board.verdict(_DATA, '```\nyes\n```', official=False).correct


class _EchoOnce(OneAnswer, Puzzle):
    name, category, rules = 'echo', 'Logic', 'Answer: yes'

    def generate(self, draws, level):
        return {'question': '?', 'answer': 'yes'}


def test_a_text_with_one_answer_reads_itself():
    meta = {'question': 'Yes?'}
    data = _EchoOnce().read({'meta': meta, 'answer': 'yes'})
    assert data == {'question': 'Yes?', 'answer': 'yes'}
    assert _EchoOnce().question(data) == 'Yes?'
    for answer, error in (('Yes.', None), ('yes yes', 'another answer')):
        response = f'```\n{answer}\n```'
        assert _EchoOnce().verdict(data, response, official=False).error == error
    for bad in (
        {'meta': {'question': 7}, 'answer': 'yes'},
        {'meta': meta, 'answer': ' '},
    ):
        with pytest.raises(ValueError, match='is not text'):
            _EchoOnce().read(bad)


@pytest.mark.parametrize(
    ('meta', 'answer'),
    [
        ({'answer': [1]}, [1]),
        ('{"answer": [1]}', [1]),
        ({'question': '?'}, '[2]'),
    ],
)
def test_the_answer_of_an_opened_record_is_that_of_its_meta(meta, answer):
    record = {'prompt': 'Solve it.', 'meta': meta, 'answer': '[2]'}
    opened = puzzle_lib.opened(record)
    assert (opened['answer'], opened['prompt']) == (answer, 'Solve it.')
    assert isinstance(opened['meta'], dict)


def test_a_record_without_an_object_for_its_meta_is_an_error():
    for meta in ('[1]', 3, 'x'):
        with pytest.raises(ValueError, match=r'meta is not an object|Expecting value'):
            puzzle_lib.opened({'meta': meta})


def test_an_answer_that_is_too_long_is_wrong_and_is_cut():
    verdict = _Echo().verdict(_DATA, f'```\n{"y" * 100_000}\n```', official=False)
    assert len(verdict.parsed) == MAX_ANSWER
    assert verdict.error == 'an answer of more than 10000 characters'


def test_records_hold_squares_of_integers():
    assert puzzle_lib.read_grid([[1, None], [3, 4]], empty=-1) == [[1, -1], [3, 4]]
    assert puzzle_lib.read_ints([1, 2]) == [1, 2]
    for bad in ([], [[1]] * 2, [[True]], [['1']], [[1.5]], [[10**9]], 'ab', [[1, 2]]):
        with pytest.raises(ValueError, match='no'):
            puzzle_lib.read_grid(bad)
    with pytest.raises(ValueError, match='not 3 rows'):
        puzzle_lib.read_grid([[1]], side=3)
    with pytest.raises(ValueError, match='not a list'):
        puzzle_lib.read_ints('12')


def test_grids_are_written_and_turned():
    assert puzzle_lib.grid_text([[1, 2], ['.', 4]]) == '1 2\n. 4'
    assert puzzle_lib.columns([[1, 2], [3, 4]]) == [(1, 3), (2, 4)]


def test_cells_come_row_by_row():
    assert puzzle_lib.cells_of([[1, 2], [3, 4]]) == [1, 2, 3, 4]
