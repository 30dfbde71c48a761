"""A response on which a verdict fails is wrong alone; a broken verifier ends a run."""

import numpy as np
import pytest

from passk_jax.errors import InputError
from passk_jax.tasks.judging import check_verdicts, judge_together
from passk_jax.types import Problem, Verdict, Verdicts


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


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'correct': np.array([[0.3, 1.0]])}, 'correct of type float64'),
        ({'correct': np.array([[0, 1]])}, 'correct of type int64'),
        ({'correct': np.array([True, False])}, r'correct of shape \(2,\)'),
        ({'correct': [[True, False]]}, 'correct of type list'),
        ({'rewards': np.array([['0', '1']])}, 'rewards of type <U1'),
        ({'rewards': np.zeros((1, 3))}, r'rewards of shape \(1, 3\)'),
        ({'failures': {'timeouts': np.zeros((1, 2))}}, 'timeouts of type float64'),
        ({'parsed': [['a', None]]}, 'the answer None'),
        ({'parsed': [['a', 1]]}, 'the answer 1'),
        ({'parsed': [['a']]}, 'answers of another shape'),
        ({'parsed': []}, 'answers of another shape'),
        ({'parsed': None}, 'answers of another shape'),
        ({'parsed': [None]}, 'answers of another shape'),
    ],
)
def test_verdicts_of_other_types_are_refused(changes, words):
    def verify(problems, responses): ...

    correct = np.array([[False, True]])
    values = {'rewards': 1.0 * correct, 'correct': correct, 'parsed': [['a', '']]}
    check_verdicts(Verdicts(**values), verify, (1, 2))
    with pytest.raises(InputError, match=f'verify.* returned {words}; it must return'):
        check_verdicts(Verdicts(**values | changes), verify, (1, 2))
    with pytest.raises(InputError, match='returned a list'):
        check_verdicts([], verify, (1, 2))


def test_a_verifier_that_does_not_work_ends_the_run():
    def judge(problems, texts):
        raise InputError('the pool is broken')

    with pytest.raises(InputError, match='the pool is broken'):
        judge_together([Problem(0, 'p', {}, '')], [['a']], judge=judge, failures={})
