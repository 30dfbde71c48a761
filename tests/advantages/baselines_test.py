"""Rewards less a baseline, against the formulas in float64."""

import itertools

import numpy as np
import pytest

from passk_jax.advantages import effective_weight, tabulated_curve
from tests.advantages.estimators_test import every_count, jitted, run


@pytest.mark.parametrize(('name', 'bessel'), [('rloo', 16 / 15), ('dr_grpo', 1.0)])
def test_without_a_sigma_the_scale_of_the_rewards_stays(name, bessel):
    rng = np.random.default_rng(0)
    rewards = np.round(rng.normal(size=(9, 16)), 3).astype(np.float32)
    got = run(name, rewards > 0, rewards)
    want = bessel * (rewards - rewards.mean(axis=1, keepdims=True))
    np.testing.assert_allclose(got, want, atol=2e-6)
    np.testing.assert_allclose(run(name, rewards > 0, 8 * rewards), 8 * got, rtol=1e-6)
    # The offset has 2**-8 of a unit left.
    shifted = run(name, rewards > 0, np.round(rewards * 256) / 256 + 2.0**15)
    np.testing.assert_allclose(shifted, got, atol=4e-3)


def test_the_baseline_of_rloo_is_the_mean_of_the_others():
    rewards = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    baselines = (rewards.sum(axis=1, keepdims=True) - rewards) / 4
    got = run('rloo', rewards > 0, rewards)
    np.testing.assert_allclose(got, rewards - baselines, atol=1e-6)
    assert np.all(run('rloo', np.ones((2, 1), bool)) == 0)


def rewards_of(num_problems=9, seed=0):
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(size=(num_problems, 16)), 3).astype(np.float32)


def opo(rewards, lengths):
    estimate = jitted('opo', rewards.shape[1])
    return np.asarray(estimate(rewards, rewards > 0, lengths=lengths))


def test_the_baseline_of_opo_counts_a_reward_once_a_token():
    rewards = rewards_of()
    lengths = np.random.default_rng(1).integers(1, 500, rewards.shape)
    want = [r - np.repeat(r, n).mean() for r, n in zip(rewards, lengths, strict=True)]
    np.testing.assert_allclose(opo(rewards, lengths), want, atol=2e-6)
    # Whatever their unit.
    np.testing.assert_allclose(opo(rewards, 7 * lengths), want, atol=2e-6)
    equal = opo(rewards, np.full_like(lengths, 30))
    np.testing.assert_allclose(equal, run('dr_grpo', rewards > 0, rewards), atol=1e-6)
    constant = np.full_like(rewards, 0.1)
    assert np.all(opo(constant, lengths) == 0)


def test_opo_follows_p_as_the_rollouts_grow_though_length_goes_with_success():
    policy, lengths = np.array([0.5, 0.3, 0.2]), np.array([10, 1, 3])
    ratios = {}
    for num_rollouts in (4, 8):
        drawn = np.array(list(itertools.product(range(3), repeat=num_rollouts)))
        advantages = opo((drawn == 0) * 1.0, lengths[drawn]).astype(np.float64)
        gradients = (advantages[..., None] * (np.eye(3)[drawn] - policy)).mean(axis=1)
        estimate = policy[drawn].prod(axis=1) @ gradients
        ratios[num_rollouts] = estimate / (policy * ([1, 0, 0] - policy[0]))
    # The gap to 1 falls as 1 / N.
    missing = {n: 1 - ratio for n, ratio in ratios.items()}
    assert np.all(missing[4] > 0.1)
    assert np.all(missing[8] < 0.6 * missing[4])


def test_the_baseline_of_opo_is_that_of_least_variance():
    """Of gradients that are sums of independent steps, one a token."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, 200_000)
    rewards = (rng.random(len(lengths)) < 0.2 + 0.03 * lengths) * 1.0
    squared = lengths * 1.0

    def variance(baseline):
        return np.mean((rewards - baseline) ** 2 * squared)

    best = (lengths * rewards).sum() / lengths.sum()
    assert abs(best - rewards.mean()) > 0.05
    assert variance(best) < min(variance(best - 0.01), variance(best + 0.01))


@pytest.mark.parametrize('scale', [1e-25, 1.0, 1e25])
def test_reinforce_plus_plus_has_one_sigma_for_the_step(scale):
    rewards = rewards_of() * np.float32(scale)
    exact = rewards.astype(np.float64)
    pooled = run('reinforce_plus_plus', rewards > 0, rewards)
    want = (exact - exact.mean()) / exact.std()
    np.testing.assert_allclose(pooled, want, rtol=1e-5, atol=1e-5)
    of_problem = exact - exact.mean(axis=1, keepdims=True)
    got = run('reinforce_plus_plus_baseline', rewards > 0, rewards)
    np.testing.assert_allclose(got, of_problem / of_problem.std(), rtol=1e-5, atol=1e-5)


def test_reinforce_plus_plus_needs_no_second_response():
    rewards = np.array([[1.0], [0.0], [0.0], [0.0]], np.float32)
    got = run('reinforce_plus_plus', rewards > 0, rewards)
    np.testing.assert_allclose(got[:, 0], (rewards[:, 0] - 0.25) / 0.1875**0.5)
    assert np.all(run('reinforce_plus_plus_baseline', rewards > 0, rewards) == 0)


def test_a_problem_without_a_spread_gets_nothing_from_the_others():
    correct = np.array([[True] * 4, [False] * 4, [True, False, False, False]])
    rewards = np.where(correct, 0.1, 1 / 3)
    got = run('reinforce_plus_plus_baseline', correct, rewards)
    assert np.all(got[:2] == 0)
    assert np.all(got[2] != 0)


@pytest.mark.parametrize('num_rollouts', [1, 8])
def test_the_curve_of_a_pooled_sigma_is_that_of_a_step_of_all_shares(num_rollouts):
    size = {'num_rollouts': num_rollouts}
    counts = np.arange(num_rollouts + 1)
    curve = tabulated_curve('reinforce_plus_plus', **size)
    np.testing.assert_allclose(curve['positive'], [0] + [1] * num_rollouts, atol=1e-6)
    curve = tabulated_curve('reinforce_plus_plus_baseline', **size)
    shares = counts / num_rollouts
    sigma = np.sqrt(np.mean(shares * (1 - shares)))
    want = np.where(counts > 0, 1 - shares, 0) / (sigma or 1)
    np.testing.assert_allclose(curve['positive'], want, atol=1e-6)
    assert 'Sigma is that of all responses' in curve['note']


@pytest.mark.parametrize(
    'name', ['reinforce_plus_plus', 'reinforce_plus_plus_baseline']
)
def test_a_pooled_sigma_has_no_weight_of_its_own(name):
    words = f'{name} has no fixed weight: it depends on the rewards of other problems'
    with pytest.raises(ValueError, match=words):
        effective_weight(name, num_rollouts=8, p=0.5)


def test_the_weights_among_the_problems_of_a_step_are_those_of_dr_grpo():
    correct = every_count()
    got, want = (run(f, correct) for f in ('reinforce_plus_plus_baseline', 'dr_grpo'))
    ratio = got[want != 0] / want[want != 0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)
