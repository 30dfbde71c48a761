"""Verdicts by text and by a scorer in a worker, with a stand-in for the package."""

from unittest import mock

import pytest

from passk_jax import tasks
from passk_jax.tasks.reasoning_gym import judge
from passk_jax.types import Problem
from passk_jax.verifiers.pool import Pool
from tests.tasks.reasoning_gym import toy

TEXT = {'set': 'maze', 'question': 'q', 'answer': '7'}
SCORED = {'set': 'dice', 'question': 'q', 'answer': '1', 'metadata': {}}


@pytest.fixture(scope='module')
def pool(tmp_path_factory):
    directory = tmp_path_factory.mktemp('package')
    toy.write(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(directory))
        settings = {'workers': 1, 'deadline_s': 1.0, 'memory_bytes': 2**31}
        with Pool(judge.RIGHT, **settings) as workers:
            yield workers


def tagged(*answers):
    return [f'so <answer>{answer}</answer>' for answer in answers]


def test_only_the_full_score_is_right(pool):
    answers = ('1', '1.0', '0.999', '1.001', '0', 'nan', 'inf', '2')
    verdicts = judge.judge([SCORED] * len(answers), tagged(*answers), pool=pool)
    assert [verdict.correct for verdict in verdicts] == [True, True] + [False] * 6
    assert [verdict.parsed for verdict in verdicts] == [*answers]
    assert {verdict.error for verdict in verdicts[2:]} == {'not the right answer'}


def test_the_scorer_is_given_the_item(pool):
    more = SCORED | {'metadata': {'more': 1}}
    verdicts = judge.judge([SCORED, more] * 2, tagged('1', '1', '0', '0'), pool=pool)
    assert [verdict.correct for verdict in verdicts] == [True, False, False, True]


def test_what_a_scorer_cannot_read_or_finish_is_wrong_and_counted(pool):
    items = [SCORED, SCORED, SCORED, TEXT]
    responses = [*tagged('hang', 'a word', '1'), 'no tags']
    task = tasks.task_class('reasoning_gym')
    problems = [Problem(i, 'q', item, item['set']) for i, item in enumerate(items)]
    with mock.patch.object(judge, 'shared_pool', return_value=pool):
        verdicts = task.verify(mock.Mock(), problems, [[text] for text in responses])
        assert task.verdict(problems[2], responses[2]).correct
    assert verdicts.correct[:, 0].tolist() == [False, False, True, False]
    failed = {kind: flags[:, 0].tolist() for kind, flags in verdicts.failures.items()}
    assert failed == {
        'timeouts': [True, False, False, False],
        'crashes': [False] * 4,
        'parse_failures': [False, True, False, False],
    }


def test_sets_by_text_need_no_worker():
    responses = [*tagged('7', ' 7\n', '8', ''), '<answer>7', '<answer>7</answer> 8']
    with mock.patch.object(judge, 'shared_pool', side_effect=AssertionError):
        verdicts = judge.judge([TEXT] * len(responses), responses)
    assert [verdict.correct for verdict in verdicts] == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]
    assert verdicts[4].error == 'no <answer> that is closed'
    assert all((verdict.error is None) == verdict.correct for verdict in verdicts)


def test_a_mixed_batch_keeps_its_order(pool):
    items = [TEXT, SCORED, TEXT, SCORED, SCORED]
    responses = [*tagged('7', '0', '1'), 'none', *tagged('1')]
    verdicts = judge.judge(items, responses, pool=pool)
    assert [verdict.correct for verdict in verdicts] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert [verdict.parsed for verdict in verdicts] == ['7', '0', '1', '', '1']
