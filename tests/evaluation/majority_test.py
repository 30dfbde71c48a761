import collections
import itertools
import math
import time

import numpy as np
import pytest
from scipy import stats

from passk_jax.evaluation import majority


def majority_by_enumeration(answers, correct, k) -> float:
    credit = {
        a: np.mean([c for b, c in zip(answers, correct, strict=True) if a == b])
        for a in answers
    }
    values = []
    for subset in itertools.combinations(answers, k):
        votes = collections.Counter(a for a in subset if a)
        most = max(votes.values(), default=0)
        winners = [credit[a] for a in votes if votes[a] == most]
        values.append(np.mean(winners) if winners else 0.0)
    return float(np.mean(values))


@pytest.mark.parametrize('seed', range(12))
def test_maj_at_k_is_the_mean_over_every_subset(seed):
    rng = np.random.default_rng(seed)
    num_responses = int(rng.integers(1, 10))
    answers = [
        str(a) if a else '' for a in rng.integers(0, 2 + seed % 4, num_responses)
    ]
    for correct in (
        np.array([a == '1' for a in answers]),
        rng.random(num_responses) < 0.5,  # the verifier looks at more than the answer
    ):
        for k in range(1, num_responses + 1):
            got = majority.maj_at_k([answers], correct[None], k=k)
            want = majority_by_enumeration(answers, correct, k)
            np.testing.assert_allclose(got, [want], rtol=1e-9, atol=1e-12)
        for k, got in majority.maj_at_powers([answers], correct[None]).items():
            want = majority_by_enumeration(answers, correct, k)
            np.testing.assert_allclose(got, [want], rtol=1e-9, atol=1e-12)


def test_maj_at_k_of_64_responses_and_32_votes_returns_at_once():
    # C(64, 32) = 1.8e18 subsets.
    problems = [
        ['a'] * 40 + ['b'] * 24,
        [str(i) for i in range(64)],
        [str(i % 8) for i in range(64)],
        [str(math.isqrt(i)) for i in range(64)],
    ]
    correct = np.array([[a == p[0] for a in p] for p in problems])
    start = time.process_time()
    got = majority.maj_at_k(problems, correct, k=32)
    assert time.process_time() - start < 1.0
    # 40 of 64 draws, hypergeometric: more than half of 32, or half and then a coin.
    votes = stats.hypergeom(64, 40, 32)
    assert got[0] == pytest.approx(votes.sf(16) + votes.pmf(16) / 2)
    np.testing.assert_allclose(got[1:3], [1 / 64, 1 / 8])


def test_every_power_at_once_is_quick_and_the_same():
    """What an evaluation of 256 responses to each problem asks for."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(60, 0.3))
    parsed = [[str(a) for a in rng.choice(60, 256, p=shares)] for _ in range(10)]
    correct = np.array([[a in ('0', '1', '2') for a in row] for row in parsed])
    start = time.process_time()
    got = majority.maj_at_powers(parsed, correct)
    assert time.process_time() - start < 2.0
    assert list(got) == [2**i for i in range(9)]
    np.testing.assert_allclose(got[1], correct.mean(axis=1))
    for k in (4, 64, 256):
        one_by_one = majority.maj_at_k(parsed, correct, k=k)
        np.testing.assert_allclose(got[k], one_by_one, rtol=1e-9, atol=1e-12)


def test_answers_that_all_differ_take_no_time():
    N = 192
    parsed, correct = [[str(n) for n in range(N)]], np.arange(N)[None] == 0
    start = time.process_time()
    majorities = majority.maj_at_powers(parsed, correct)
    assert time.process_time() - start < 1.0
    # Any answer of a subset wins.
    for k, values in majorities.items():
        np.testing.assert_allclose(values, 1 / N, rtol=1e-9, err_msg=str(k))


def test_more_responses_than_halves_can_count():
    answers = ['a'] * 1400 + ['b'] * 600
    correct = np.array([[a == 'b' for a in answers]])
    got = majority.maj_at_powers([answers], correct)
    assert list(got) == [2**i for i in range(11)]
    assert got[1] == pytest.approx(0.3)
    # Two votes win together, or one of them by a coin.
    assert got[2] == pytest.approx(0.3)
    assert 0 < got[1024] < 1e-12


def test_maj_at_k_of_one_vote_is_the_accuracy_and_of_all_votes_the_majority():
    answers, correct = ['x', 'x', 'y', 'z'], np.array([[True, True, False, False]])
    np.testing.assert_allclose(majority.maj_at_k([answers], correct, k=1), 0.5)
    np.testing.assert_allclose(majority.maj_at_k([answers], correct, k=4), 1.0)


def test_no_answer_is_no_vote():
    answers = ['', '', '', 'x']
    correct = np.array([[False, False, False, True]])
    np.testing.assert_allclose(majority.maj_at_k([answers], correct, k=4), 1.0)
    np.testing.assert_allclose(majority.maj_at_k([answers], correct, k=2), 0.5)
    nothing = majority.maj_at_k([[''] * 4], np.zeros((1, 4), bool), k=2)
    np.testing.assert_array_equal(nothing, [0.0])
