"""A response on which a verdict fails is wrong alone; a broken verifier ends a run."""

import pytest

from passk_jax.errors import InputError
from passk_jax.tasks.judging import judge_together
from passk_jax.types import Problem, Verdict


def test_a_response_whose_verdict_fails_is_wrong_and_counted_alone(caplog):
    def judge(problems, texts):
        return [Verdict(text != '', text[:1] + text[0], None) for text in texts]

    problems = [Problem(number, 'p', {}, '') for number in range(2)]
    responses = [['a', ''], ['b', 'c']]
    verdicts = judge_together(problems, responses, judge=judge, failures={})
    assert verdicts.correct.tolist() == [[True, False], [True, True]]
    assert verdicts.parsed == [['aa', ''], ['bb', 'cc']]
    assert verdicts.failures['crashes'].tolist() == [[False, True], [False, False]]
    assert 'wrong, because its verdict failed' in caplog.text
    assert 'IndexError' in caplog.text


def test_a_verifier_that_does_not_work_ends_the_run():
    def judge(problems, texts):
        raise InputError('the pool is broken')

    with pytest.raises(InputError, match='the pool is broken'):
        judge_together([Problem(0, 'p', {}, '')], [['a']], judge=judge, failures={})
