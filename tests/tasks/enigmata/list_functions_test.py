import json

import pytest

from passk_jax.tasks.enigmata import files
from passk_jax.tasks.enigmata.list_functions import LIST_FUNCTIONS
from tests.tasks.enigmata.judge import error_of

_TURNS = [
    'Apply a function.',
    '[3, 4] -> [3]',
    '[5] -> [5]',
    '[6, 1] -> [6]',
    '[7] -> ',
]
_RECORD = {'input': [{'content': turn} for turn in _TURNS], 'ideal': '[7]'}


def test_a_record_gives_its_examples_and_its_last_list(tmp_path):
    file = tmp_path / 'task.jsonl'
    file.write_text(json.dumps(_RECORD))
    (problem,) = LIST_FUNCTIONS.problems(file)
    question = '[3, 4] -> [3]\n[5] -> [5]\n[6, 1] -> [6]\n[7] ->'
    assert problem.data == {'question': question, 'answer': '[7]'}
    assert (problem.group, problem.level) == (_TURNS[1], 'hard')


@pytest.mark.parametrize(
    ('stored', 'answer', 'error', 'official'),
    [
        ('[7, 10]', '[7, 10]', None, None),
        ('[7, 10]', '[7,10,]', None, None),
        ('[7, 10]', '[10, 7]', 'another list', 'another list'),
        ('[7, 10]', '[7]', 'another list', 'another list'),
        ('[7, 10]', '7, 10', None, 'no list of numbers'),
        # The official verifier looks for a list anywhere in the answer.
        ('[7, 10]', 'It is [7, 10].', None, None),
        ('[7, 10]', '[7, 10] or [1]', 'no comma after item 2', None),
        ('[7, 10]', '[1] or [7, 10]', 'no comma after item 1', 'another list'),
        ('[7, 10]', '[[7, 10]]', 'item 1 is malformed', None),
        ('[7, 10]', '[7 10]', None, 'no comma after item 1'),
        ('[7, 10]', '[,7,,10]', 'item 1 is malformed', None),
        # It accepts no empty list without a blank in it.
        ('[]', '[]', None, 'no list of numbers'),
        ('[]', '[ ]', None, None),
        ('[]', '[0]', 'another list', 'another list'),
    ],
)
def test_the_list_is_right(stored, answer, error, official):
    data = {'question': '?', 'answer': stored}
    assert error_of(LIST_FUNCTIONS, data, answer) == error
    assert error_of(LIST_FUNCTIONS, data, answer, official=True) == official


@pytest.mark.parametrize('answer', ['[7, 10]', [7, 10], '[7,10]'])
def test_a_record_of_enigmata_has_a_list_or_its_text(answer):
    record = {'meta': {'question': '[1] ->'}, 'answer': answer}
    data = LIST_FUNCTIONS.read(record)
    assert data == {'question': '[1] ->', 'answer': '[7, 10]'}


@pytest.mark.parametrize('answer', ['7', '[7.5]', ['7'], '[', None, '[true]'])
def test_a_record_without_a_list_is_an_error(answer):
    record = {'meta': {'question': '[1] ->'}, 'answer': answer}
    with pytest.raises((ValueError, TypeError)):
        LIST_FUNCTIONS.read(record)


def test_the_real_files_never_have_a_function_in_two_splits(shared_dir):
    splits = files.read_splits(
        LIST_FUNCTIONS,
        levels=('easy', 'hard'),
        counts=dict.fromkeys(('train', 'validation', 'test'), 500),
        data_dir=str(shared_dir / 'data'),
    )
    assert sum(map(len, splits.values())) == 500
    firsts = {
        split: {tuple(data['question'].split('\n')[:4]) for data in problems}
        for split, problems in splits.items()
    }
    # The four examples of a hard problem begin an easy one.
    assert sum(map(len, firsts.values())) == 250
