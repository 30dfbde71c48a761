"""Verdicts and parameters, without the package."""

from importlib import metadata

import pytest

from passk_jax import tasks
from passk_jax.tasks.reasoning_gym.task import ReasoningGymTask
from tests.tasks.reasoning_gym import toy

ITEM = {'question': 'q', 'answer': 'a b\nc', 'metadata': {'source_dataset': 'maze'}}


@pytest.mark.parametrize(
    ('response', 'correct'),
    [
        ('so <answer>a b\nc</answer>', True),
        ('<answer>x</answer> no: <answer> a b\nc\n</answer>.', True),
        ('<answer>a b\nc</answer> or <answer>x</answer>', False),
        ('<answer>it is a b\nc</answer>', False),
        ('<answer>a  b\nc</answer>', False),
        ('<answer>a b\nc', False),
        ('a b\nc', False),
        ('<answer></answer>', False),
    ],
)
def test_only_the_stored_answer_is_right(response, correct):
    verdict = ReasoningGymTask.verdict(ReasoningGymTask.parse_problem(ITEM), response)
    assert verdict.correct is correct
    assert (verdict.error is None) is correct


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'sets': {}}, 'sets is empty'),
        ({'sets': {'n_queens': {}}}, "'n_queens' is left out: .* as code"),
        ({'sets': {'mazes': {}}}, "sets: 'mazes' is none of .*'maze'"),
        ({'sets': {'maze': 3}}, r'sets\.maze=3 must be a mapping'),
        ({'sets': {'maze': {'seed': 1}}}, r'sets\.maze\.seed is decided'),
    ],
)
def test_bad_parameters_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        tasks.make_task('reasoning_gym', toy.PARAMS | change)


def missing(name):
    raise metadata.PackageNotFoundError(name)


def test_a_scorer_needs_the_package_before_anything_is_judged(monkeypatch):
    monkeypatch.setattr(metadata, 'version', missing)
    message = r'needs reasoning-gym==0.1.25, found None'
    sets = {'maze': {}, 'dice': {}}
    with pytest.raises(ValueError, match=message):
        tasks.make_task('reasoning_gym', toy.PARAMS | {'sets': sets})
    record = {'set': 'dice', 'question': 'q', 'answer': '1/2', 'metadata': {}}
    with pytest.raises(ValueError, match=message):
        ReasoningGymTask.parse_problem(record)
    assert tasks.make_task('reasoning_gym', toy.PARAMS)
    assert ReasoningGymTask.parse_problem(ITEM)


@pytest.mark.parametrize(
    'record', ['text', ITEM | {'answer': None}, ITEM | {'metadata': {}}]
)
def test_a_malformed_record_is_refused(record):
    with pytest.raises(ValueError, match=r'not as text|is not text'):
        ReasoningGymTask.parse_problem(record)


def test_sets_bring_their_problems_in_order(monkeypatch):
    toy.install(monkeypatch)
    sets = {'maze': {}, 'gcd': {'most': 9}}
    task = tasks.make_task('reasoning_gym', toy.PARAMS | {'sets': sets})
    problems = task.source('test', data_dir='')
    assert [problem.category for problem in problems] == ['maze'] * 4 + ['gcd'] * 4
    assert [problem.id for problem in problems] == [*range(8)]
