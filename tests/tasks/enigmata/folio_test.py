import json
from collections import Counter

import pytest

from passk_jax.tasks.enigmata import files
from passk_jax.tasks.enigmata.folio import FOLIO
from tests.tasks.enigmata.judge import error_of

_RECORD = {
    'premises': ['All cats are pets. ', '', 'Tom is a cat.'],
    'conclusion': 'Tom is a pet. ',
    'label': 'True',
}


def _problems(tmp_path, record):
    file = tmp_path / 'folio.jsonl'
    file.write_text(json.dumps(record) + '\n')
    return list(FOLIO.problems(file))


def test_a_record_gives_premises_and_a_conclusion(tmp_path):
    (problem,) = _problems(tmp_path, _RECORD)
    premises = 'Premises:\n1. All cats are pets.\n2. Tom is a cat.'
    assert problem.group == premises
    assert problem.level == 'easy'
    assert problem.data == {
        'question': f'{premises}\nConclusion: Tom is a pet.',
        'answer': 'True',
    }


@pytest.mark.parametrize(
    ('count', 'level'), [(1, 'easy'), (5, 'easy'), (6, 'medium'), (7, 'hard')]
)
def test_levels_are_by_the_number_of_premises(tmp_path, count, level):
    (problem,) = _problems(tmp_path, _RECORD | {'premises': ['x'] * count})
    assert problem.level == level


def test_uncertain_is_unknown_and_other_labels_are_malformed(tmp_path):
    (problem,) = _problems(tmp_path, _RECORD | {'label': 'Uncertain'})
    assert problem.data['answer'] == 'Unknown'
    with pytest.raises(KeyError, match='Maybe'):
        _problems(tmp_path, _RECORD | {'label': 'Maybe'})


@pytest.mark.parametrize(
    ('answer', 'error', 'official'),
    [
        ('Unknown', None, None),
        ('"unknown"', None, 'not the stored answer'),
        ('Uncertain', None, 'not the stored answer'),
        ('True False Unknown', 'another answer', 'not the stored answer'),
    ],
)
def test_one_label_is_right(answer, error, official):
    data = {'question': '?', 'answer': 'Unknown'}
    assert error_of(FOLIO, data, answer) == error
    assert error_of(FOLIO, data, answer, official=True) == official


def test_the_real_files_are_split_by_their_premises(shared_dir):
    splits = files.read_splits(
        FOLIO,
        levels=('easy', 'medium', 'hard'),
        counts=dict.fromkeys(('train', 'validation', 'test'), 2000),
        data_dir=str(shared_dir / 'data'),
    )
    premises = {
        split: {data['question'].partition('\nConclusion')[0] for data in problems}
        for split, problems in splits.items()
    }
    assert not premises['train'] & premises['validation']
    assert not premises['test'] & (premises['train'] | premises['validation'])
    # One problem of 1,208 occurs twice. The levels are those of Enigmata's page, which
    # has 741, 303 and 164.
    levels = Counter(data['level'] for split in splits.values() for data in split)
    assert levels == {'easy': 740, 'medium': 303, 'hard': 164}
    assert len(splits['test']) == 204
