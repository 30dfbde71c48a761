import dataclasses
import json

import numpy as np
import pytest

from configs import math as config_file
from passk_jax import score, tasks
from passk_jax.verifiers import mathematics
from tests.tasks.math import toy


def make_task(**changes):
    return tasks.make_task('math', toy.PARAMS | changes)


def test_splits_are_those_of_the_files(tmp_path):
    toy.write(tmp_path)
    task = make_task()
    for split, records in toy.RECORDS.items():
        problems = task.source(split, data_dir=str(tmp_path))
        assert [p.data['problem'] for p in problems] == [r['problem'] for r in records]
        assert {p.category for p in problems} == {f'math_{split}'}


def test_a_path_may_be_absolute_or_start_at_the_working_directory(
    tmp_path, monkeypatch
):
    toy.write(tmp_path)
    files = {f'{s}_files': [str(tmp_path / f'math_{s}.jsonl')] for s in toy.RECORDS}
    assert len(make_task(**files).source('train', data_dir='/absent')) == 3
    monkeypatch.chdir(tmp_path)
    assert len(make_task().source('train', data_dir='')) == 3


def test_a_problem_is_the_same_in_every_prompt(tmp_path):
    toy.write(tmp_path)
    task = make_task()
    problems = task.source('train', data_dir=str(tmp_path))
    texts = [p.data['problem'].upper() for p in problems]
    other = [
        dataclasses.replace(p, id=0, prompt='', data={'problem': f' {text}'})
        for p, text in zip(problems, texts, strict=True)
    ]
    first, second = ([task.content_hash(p) for p in x] for x in (problems, other))
    assert first == second
    assert len({*first}) == len(problems)


def test_splits_that_share_a_problem_are_refused(tmp_path):
    toy.write(tmp_path, test=[{'problem': 'halve  ONE.', 'answer': '0.5'}])
    with pytest.raises(ValueError, match=r"problem 1 of 'train' .*'halve  ONE\.'"):
        make_task().source('train', data_dir=str(tmp_path))


def test_a_split_must_be_known_and_not_empty(tmp_path):
    toy.write(tmp_path)
    with pytest.raises(ValueError, match=r"'dev' is none of \['train', 'valid"):
        make_task().source('dev', data_dir=str(tmp_path))
    with pytest.raises(ValueError, match=r"'test' .* is empty: test_files=\(\)"):
        make_task(test_files=()).source('test', data_dir=str(tmp_path))


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'train_files': ('',)}, 'train_files=.* a name is empty'),
        ({'train_files': 'a.jsonl'}, 'task.params.train_files'),
        ({'answer_field': ''}, 'task.params.answer_field'),
        ({'problem_fields': 'x'}, 'did you mean task.params.problem_field'),
    ],
)
def test_impossible_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_task(**changes)


def test_a_missing_package_is_an_error_before_the_run(monkeypatch):
    monkeypatch.setattr(mathematics, '_PACKAGES', ('math_verify', 'no_such_package'))
    with pytest.raises(ValueError, match=r"\['no_such_package'\].*pip install"):
        make_task()


def test_a_batch_is_judged_at_once_and_in_place(tmp_path, monkeypatch):
    toy.write(tmp_path)
    task = make_task()
    problems = task.source('train', data_dir=str(tmp_path))
    calls, judge_batch = [], mathematics.judge
    monkeypatch.setattr(
        mathematics, 'judge', lambda *args: calls.append(args) or judge_batch(*args)
    )
    responses = [
        [r'\boxed{2}', r'\boxed{3}', '2', r'\boxed{1+1}'],
        [r'\boxed{0.5}', r'\boxed{\frac12}', r'\boxed{2}', r'\boxed{\int}'],
        [r'\boxed{2^{1/2}}', r'\boxed{\sqrt{2}}', r'\boxed{1.414}', r'\boxed{2}'],
    ]
    verdicts = task.verify(problems, responses)
    assert len(calls) == 1
    expected = [[1, 0, 0, 1], [1, 1, 0, 0], [1, 1, 0, 0]]
    np.testing.assert_array_equal(verdicts.correct, np.array(expected, bool))
    np.testing.assert_array_equal(verdicts.rewards, np.array(expected, np.float32))
    unparsed = np.zeros((3, 4), bool)
    unparsed[1, 3] = True
    assert list(verdicts.failures) == ['timeouts', 'crashes', 'parse_failures']
    for kind, failed in verdicts.failures.items():
        assert failed.dtype == bool
        expected = unparsed if kind == 'parse_failures' else unparsed & False
        np.testing.assert_array_equal(failed, expected)
    assert verdicts.parsed == [
        ['2', '3', '', '1+1'],
        ['0.5', r'\frac12', '2', r'\int'],
        ['2^{1/2}', r'\sqrt{2}', '1.414', '2'],
    ]
    empty = task.verify([], [])
    assert (empty.correct.shape, empty.parsed) == ((0, 0), [])
    assert task.verify(problems, [[]] * 3).correct.shape == (3, 0)


def test_ragged_batches_are_refused(tmp_path):
    problem = make_task().parse_problem({'problem': 'a', 'answer': '1'})
    for rows in ([['1'], ['1', '2']], [['1']]):
        with pytest.raises(ValueError, match='2 problems need'):
            make_task().verify([problem] * 2, rows)


def test_score_reads_the_records_of_the_benchmarks():
    records = [
        {'id': '2024-I-1', 'problem': 'Every morning', 'answer': '204'},
        {'problem': 'p', 'answer': r'\sqrt{8}', 'subject': 's', 'unique_id': 'u'},
        {'problem': 'no answer', 'answer': ''},
    ]
    responses = [r'\boxed{204}', r'so $\boxed{2\sqrt{2}}$', r'\boxed{1}']
    lines = [
        json.dumps({'problem': problem, 'response': response}).encode()
        for problem, response in zip(records, responses, strict=True)
    ]
    results = list(score.score_lines(lines, task=tasks.task_class('math')))
    assert [result['correct'] for result, _ in results] == [True, True, False]
    assert [malformed for _, malformed in results] == [False, False, True]
    assert results[2][0]['error'] == "the gold '' is no answer"


def test_the_config_reads_the_benchmarks(shared_dir):
    config = config_file.get_config('model=llama31_8b')
    task = tasks.make_task('math', config.task.params.to_dict())
    data_dir = str(shared_dir / 'data')
    assert len(task.source('train', data_dir=data_dir)) == 8158
    test = task.source('test', data_dir=data_dir)
    assert [p.category for p in test[::50]] == [
        'aime_2024',
        'aime_2025',
        'OlymMATH-EN-EASY',
        'OlymMATH-EN-EASY',
        'OlymMATH-EN-HARD',
        'OlymMATH-EN-HARD',
    ]
    assert len(test) == 260
    assert test[0].data['id'] == '2024-I-1'
    assert test[60].data['id'] == 'OlymMATH-EASY-0-EN'


def test_the_set_that_shares_problems_with_training_is_refused(shared_dir):
    task = make_task(
        train_files=('math_train/aime_1983_2023.jsonl',),
        validation_files=('math_train/math500_test.jsonl',),
        test_files=(),
    )
    with pytest.raises(ValueError, match='3 problems lie in two splits'):
        task.source('train', data_dir=str(shared_dir / 'data'))
