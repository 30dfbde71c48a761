import dataclasses
import json

import numpy as np
import pytest

from passk_jax import score, tasks
from passk_jax.tasks.korbench.problems import content_hash
from passk_jax.tasks.korbench.task import KorbenchTask
from passk_jax.verifiers import mathematics
from tests.tasks.korbench import toy


def make_task(**changes):
    return tasks.make_task('korbench', toy.PARAMS | changes)


def test_a_split_has_category_after_category(tmp_path):
    toy.write(tmp_path)
    problems = make_task().source('test', data_dir=str(tmp_path))
    assert [p.id for p in problems] == list(range(5))
    assert [p.category for p in problems] == list(toy.PROBLEMS)
    some = make_task(categories=('puzzle', 'logic'), report_by='rule')
    problems = some.source('test', data_dir=str(tmp_path))
    assert [p.category for p in problems] == ['puzzle_10', 'logic_01']


def test_splits_share_no_content_and_miss_nothing(tmp_path):
    toy.write(tmp_path, copies=40)
    task = make_task(train_percent=60, validation_percent=10)
    by_split = {s: task.source(s, data_dir=str(tmp_path)) for s in task.splits}
    hashes = {s: {content_hash(p) for p in by_split[s]} for s in by_split}
    assert sum(map(len, hashes.values())) == len(set.union(*hashes.values())) == 200
    assert (
        len(by_split['train']) > len(by_split['test']) > len(by_split['validation']) > 5
    )
    # The others stay where they are if one is not there.
    fewer = make_task(train_percent=60, validation_percent=10, categories=('logic',))
    logic = {content_hash(p) for p in fewer.source('train', data_dir=str(tmp_path))}
    assert logic < hashes['train']


def test_a_problem_is_the_same_in_every_prompt(tmp_path):
    toy.write(tmp_path)
    problems = make_task().source('test', data_dir=str(tmp_path))
    other = [dataclasses.replace(p, id=0, prompt='', category='') for p in problems]
    first, second = (
        [KorbenchTask.content_hash(p) for p in x] for x in (problems, other)
    )
    assert first == second
    assert len({*first}) == len(problems)


def test_a_path_may_be_absolute_or_start_at_the_working_directory(
    tmp_path, monkeypatch
):
    toy.write(tmp_path)
    absolute = {name: f'{tmp_path}/{toy.PARAMS[name]}' for name in
                ('directory', 'prompt_file')}  # fmt: skip
    assert len(make_task(**absolute).source('test', data_dir='/absent')) == 5
    monkeypatch.chdir(tmp_path)
    assert len(make_task().source('test', data_dir='')) == 5


def test_a_split_must_be_known_and_not_empty(tmp_path):
    toy.write(tmp_path)
    with pytest.raises(ValueError, match=r"'dev' is none of \['train', 'valid"):
        make_task().source('dev', data_dir=str(tmp_path))
    with pytest.raises(ValueError, match=r"'train' .* is empty: train_percent=0"):
        make_task().source('train', data_dir=str(tmp_path))


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'directory': ''}, 'directory=.* must not be empty'),
        ({'categories': ('poem',)}, "categories: 'poem' is none of .*'cipher'"),
        ({'categories': ()}, r'categories=\(\) must name at least one'),
        ({'categories': ('logic', 'logic')}, 'at least one, each once'),
        ({'train_percent': -1}, r'train_percent=-1 must lie in \[0, 100\]'),
        ({'train_percent': 60, 'validation_percent': 41}, 'more than 100 together'),
        ({'report_by': 'idx'}, "report_by='idx' must be one of"),
    ],
)
def test_impossible_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_task(**changes)


def test_a_missing_package_is_an_error_before_the_run(monkeypatch):
    monkeypatch.setattr(mathematics, '_PACKAGES', ('no_such_package',))
    with pytest.raises(ValueError, match=r"need \['no_such_package'\]"):
        make_task()


def test_a_batch_is_judged_at_once_and_in_place(tmp_path, monkeypatch):
    toy.write(tmp_path)
    task = make_task()
    problems = task.source('test', data_dir=str(tmp_path))
    calls, compare = [], mathematics.compare
    monkeypatch.setattr(
        mathematics, 'compare', lambda *a, **k: calls.append(a) or compare(*a, **k)
    )
    right = ['[[BC]]', '[[B]]', '[[p & q]]', r'[[\frac12]]', '[[(1+3)*(2+4)]]']
    verdicts = task.verify(problems, [[r, '[[x]]', ''] for r in right])
    assert len(calls) == 1
    np.testing.assert_array_equal(verdicts.correct, [[True, False, False]] * 5)
    np.testing.assert_array_equal(verdicts.rewards, verdicts.correct)
    assert verdicts.parsed[2] == ['p & q', 'x', '']
    with pytest.raises(ValueError, match='2 problems need'):
        task.verify(problems[:2], [['1'], ['1', '2']])


def test_failures_of_the_verifier_are_counted():
    record = {'idx': '1', 'question': 'Q', 'answer': r'[[\sqrt{2}]]', 'rule_id': '1'}
    task = make_task()
    problem = task.parse_problem(record | {'question_type': 'operation'})
    failures = task.verify([problem], [[r'[[\frac]]', '[[1]]']]).failures
    assert failures.keys() == mathematics.FAILURES.keys()
    assert failures['parse_failures'].tolist() == [[True, False]]
    assert not failures['timeouts'].any()


def test_score_reads_the_records_of_the_benchmark_and_their_category():
    record = {'idx': '1', 'question': 'Compute', 'answer': '[[1/2]]', 'rule_id': '1'}
    line = {'problem': record | {'question_type': 'operation'}, 'response': '[[0.5]]'}
    lines = [json.dumps(line).encode()]
    lines += [
        json.dumps(line | {'problem': problem}).encode() for problem in (record, 'x')
    ]
    for official in (False, True):
        scored = list(score.score_lines(lines, task=KorbenchTask, official=official))
        assert scored[0][0]['correct'] == (not official)
        assert "'question_type'=None is none of ['cipher'" in scored[1][0]['error']
        assert scored[2][0]['error'].endswith('not as text')


def test_the_benchmark_can_be_split_and_its_own_rules_judge(shared_dir):
    task = make_task(
        directory='korbench', prompt_file='korbench/zero-shot.yaml', train_percent=50
    )
    splits = [
        task.source(split, data_dir=str(shared_dir / 'data'))
        for split in ('train', 'test')
    ]
    assert sum(map(len, splits)) == 1250
    train, test = ({content_hash(p) for p in split} for split in splits)
    assert not train & test
    assert 500 < len(splits[0]) < 750
