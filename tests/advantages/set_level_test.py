"""Advantages of sets, against every subset."""

import itertools

import jax
import numpy as np
import pytest

from passk_jax.advantages import make_estimator
from tests.advantages import oracles

N = 7


def by_definition(rewards, answers, k, set_value):
    """``[N]``: each set is formed and valued."""
    groups = oracles.all_groups(len(rewards), k)
    highest = rewards[groups].max(axis=1)
    distinct = np.array([len(set(answers[group])) for group in groups])
    values = {'max': highest, 'mean_distinct': rewards[groups].mean(axis=1) * distinct}
    value = values[set_value] / (k if set_value == 'mean_distinct' else 1)
    member = (groups[:, :, None] == np.arange(len(rewards))).any(axis=1)
    return [k * (value[m].mean() - value[~m].mean()) for m in member.T]


def run(rewards, answers, **params):
    rewards = np.asarray(rewards, np.float32)
    estimate = jax.jit(
        make_estimator('set_level', num_rollouts=rewards.shape[1], **params)
    )
    return np.asarray(estimate(rewards, rewards > 0, answers=np.asarray(answers)))


@pytest.mark.parametrize('set_value', ['max', 'mean_distinct'])
@pytest.mark.parametrize('k', range(1, N))
def test_it_is_what_the_sets_with_a_response_are_worth_beyond_the_others(k, set_value):
    rng = np.random.default_rng(k)
    rewards = np.concatenate(
        [
            rng.integers(0, 2, (8, N)),
            rng.normal(size=(4, N)),
            rng.integers(0, 3, (4, N)),
        ]
    )
    answers = rng.integers(0, 4, rewards.shape)
    # One answer, and as many as there are responses.
    answers[0], answers[1] = 5, np.arange(N)
    got = run(rewards, answers, k=k, set_value=set_value)
    want = [
        by_definition(r, a, k, set_value) for r, a in zip(rewards, answers, strict=True)
    ]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('set_value', ['max', 'mean_distinct'])
@pytest.mark.parametrize('all_right', [False, True])
def test_sets_of_nearly_all_responses_cost_no_digits(all_right, set_value):
    N = 128
    rng = np.random.default_rng(0)
    rewards = np.ones((1, N)) if all_right else rng.integers(0, 2, (1, N))
    answers = np.array([[*range(N - 9), *[0] * 4, *range(5)]])
    (got,) = run(rewards, answers, k=N - 1, set_value=set_value)
    want = np.array(by_definition(rewards[0], answers[0], N - 1, set_value))
    scale = np.abs(want).max() or 1.0
    np.testing.assert_allclose(got / scale, want / scale, atol=1e-5)


@pytest.mark.parametrize('set_value', ['max', 'mean_distinct'])
def test_the_expected_gradient_of_a_policy_is_that_of_the_expected_value(set_value):
    """A policy of four responses, of which two have one answer; N = 4 and k = 3."""
    logits, paid = np.array([0.3, -0.5, 0.9, 0.1]), np.array([1.0, 0.0, 0.5, 1.0])
    answers = np.array([0, 1, 1, 2])

    def value(drawn):
        if set_value == 'max':
            return paid[drawn].max()
        return paid[drawn].mean() * len(set(answers[drawn])) / len(drawn)

    sets = np.array(list(itertools.product(range(4), repeat=3)))
    values = np.array([value(drawn) for drawn in sets])
    want = jax.grad(lambda x: jax.nn.softmax(x)[sets].prod(axis=1) @ values)(logits)
    policy = np.exp(logits) / np.exp(logits).sum()
    drawn = np.array(list(itertools.product(range(4), repeat=4)))
    advantages = run(paid[drawn], answers[drawn], k=3, set_value=set_value)
    scores = np.eye(4)[drawn] - policy
    gradients = (advantages[..., None] * scores).mean(axis=1)
    got = policy[drawn].prod(axis=1) @ gradients
    assert np.abs(want).max() > 0.01
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_the_highest_of_binary_rewards_is_canonical_k():
    correct = np.arange(32) < np.arange(33)[:, None]
    want = jax.jit(make_estimator('canonical_k', num_rollouts=32, k=8))(
        correct * 1.0, correct
    )
    got = run(correct, np.zeros(correct.shape, int), k=8, set_value='max')
    np.testing.assert_allclose(got, want, atol=2e-5)


@pytest.mark.parametrize('set_value', ['max', 'mean_distinct'])
def test_sets_of_one_value_get_exactly_zero(set_value):
    for answers in (np.full((3, 16), 7), np.arange(48).reshape(3, 16)):
        for reward in (0.0, 1.0, 0.1, -1 / 3):
            got = run(np.full((3, 16), reward), answers, k=4, set_value=set_value)
            assert np.all(got == 0)
    # Fewer than k are below the maximum.
    rewards = np.ones((1, 16))
    rewards[0, :3] = 0.3
    assert np.all(run(rewards, np.zeros((1, 16), int), k=4, set_value='max') == 0)


def test_of_equal_rewards_the_rare_answer_is_worth_more():
    answers = np.array([[0, 0, 0, 0, 0, 0, 1, 2]])
    got = run(np.ones((1, 8)), answers, k=4, set_value='mean_distinct')[0]
    assert got[:6].max() < 0 < got[6:].min()
    assert abs(got.sum()) < 1e-5
    assert np.all(run(np.zeros((1, 8)), answers, k=4, set_value='mean_distinct') == 0)


def test_a_nan_reward_is_not_turned_into_a_zero():
    rewards = np.ones((2, 8))
    rewards[0, 2] = np.nan
    for set_value in ('max', 'mean_distinct'):
        got = run(rewards, np.zeros((2, 8), int), k=2, set_value=set_value)
        assert np.all(np.isnan(got[0]))
        assert np.all(np.isfinite(got[1]))


def test_a_set_of_all_responses_is_refused():
    with pytest.raises(ValueError, match='k=8 must be smaller than num_rollouts=8'):
        run(np.ones((1, 8)), np.zeros((1, 8), int), k=8, set_value='max')
