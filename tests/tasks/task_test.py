"""A new task is one file and one row: the toy of toy.py, from TASKS to the report."""

import dataclasses
from unittest import mock

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.config import TaskConfig
from passk_jax.report.write import write_report
from passk_jax.tasks.task import NoParams
from passk_jax.types import Problem, Verdict
from tests import tiny
from tests.tasks.toy import LastDigit, LastDigitInCharacters


def config_of(task, **overrides):
    """The tiny experiment on a task without parameters, from random parameters."""
    config = tiny.make_config(init__kind='scratch', **overrides)
    return dataclasses.replace(config, task=TaskConfig(task.name, {}))


def test_a_toy_task_is_trained_on_evaluated_and_reported(tmp_path, monkeypatch):
    place = 'tests.tasks.toy:LastDigitInCharacters'
    monkeypatch.setitem(tasks.TASKS, LastDigitInCharacters.name, place)
    one_at_a_time = []

    def verdict(problem, response):
        one_at_a_time.append((problem.prompt, response))
        return LastDigit.verdict(problem, response)

    config = config_of(
        LastDigitInCharacters, train__steps=3, eval__split='test', eval__final_split=''
    )
    with mock.patch.object(LastDigitInCharacters, 'verdict', staticmethod(verdict)):
        assert tiny.run(config, tmp_path)
    steps = tiny.metrics(tmp_path, 'train')
    assert len(steps) == 3
    assert any(0 < row['reward'] < 1 and row['grad_norm'] > 0 for row in steps)
    before, after = (tiny.saved_arrays(tmp_path, step) for step in (2, 3))
    assert any(not np.array_equal(before[name], after[name]) for name in before)
    evaluations = tiny.metrics(tmp_path, 'test')
    # Steps and evaluations alike are of 8 problems with 4 responses.
    assert [row['step'] for row in evaluations] == [0, 2, 3]
    assert len(one_at_a_time) == (len(steps) + len(evaluations)) * 8 * 4
    write_report(tmp_path)
    report = (tmp_path / 'report.html').read_text()
    assert '<td>odd</td>' in report
    assert 'class="tag right"' in report
    assert 'class="responses texts"' in report


def test_verdicts_of_a_batch_are_those_of_its_responses():
    task = LastDigit(NoParams())
    problems = task.source('train', data_dir='')[1:4]
    responses = [['1', ' 12 '], ['1', ''], ['x3', '33']]
    verdicts = task.verify(problems, responses)
    assert verdicts.correct.tolist() == [[True, True], [False, False], [True, True]]
    assert (verdicts.correct.dtype, verdicts.rewards.dtype) == (bool, np.float32)
    np.testing.assert_array_equal(verdicts.rewards, verdicts.correct)
    assert verdicts.parsed == [['1', '12'], ['1', ''], ['x3', '33']]
    with pytest.raises(ValueError, match='need as many rows'):
        task.verify(problems, responses[:2])


def test_a_problem_is_the_same_by_its_prompt():
    problems = LastDigit(NoParams()).source('train', data_dir='')
    again = [dataclasses.replace(p, id=7, category='') for p in problems]
    first, second = ([LastDigit.content_hash(p) for p in x] for x in (problems, again))
    assert first == second
    assert len({*first}) == len(problems)


def test_what_every_task_needs_cannot_be_left_out():
    incomplete = type(
        'Incomplete', (LastDigit,), {'verdict': LastDigit.__base__.verdict}
    )
    with pytest.raises(TypeError, match=r"abstract method '?verdict"):
        incomplete(NoParams())


def test_a_task_without_parameters_takes_none(monkeypatch):
    monkeypatch.setitem(tasks.TASKS, LastDigit.name, 'tests.tasks.toy:LastDigit')
    assert tasks.make_task(LastDigit.name, {}) == LastDigit(NoParams())
    with pytest.raises(ValueError, match=r'unknown key task\.params\.seed'):
        tasks.make_task(LastDigit.name, {'seed': 1})


def test_other_pictures_make_another_problem():
    problem = Problem(0, 'which?', {}, 'c', images=(b'x',))
    variants = [
        dataclasses.replace(problem, images=x) for x in ((), (b'y',), (b'x',) * 2)
    ]
    hashes = {LastDigit.content_hash(x) for x in (problem, *variants)}
    assert len(hashes) == 4
    again = dataclasses.replace(problem, id=1, category='d')
    assert LastDigit.content_hash(again) in hashes


def test_a_verdict_that_raises_is_wrong_and_counted(monkeypatch):
    def verdict(problem, text):
        return Verdict(int(text) > 0, text, None)

    monkeypatch.setattr(LastDigit, 'verdict', staticmethod(verdict))
    verdicts = LastDigit(NoParams()).verify(
        [Problem(0, 'p', {}, '')], [['1', 'one', '0']]
    )
    assert verdicts.correct.tolist() == [[True, False, False]]
    assert verdicts.parsed == [['1', '', '0']]
    assert verdicts.failures['crashes'].tolist() == [[False, True, False]]
