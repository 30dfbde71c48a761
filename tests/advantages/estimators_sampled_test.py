"""Estimators that sample groups."""

import jax
import numpy as np
import pytest

from tests.advantages import oracles
from tests.advantages.estimators_test import (
    NUM_ROLLOUTS,
    as_rewards,
    every_count,
    jitted,
    run,
)


def test_full_sampling_takes_consecutive_groups_and_drops_the_rest():
    correct = np.zeros((1, 11), bool)
    correct[0, 4] = True
    # Groups 0-2, 3-5, 6-8 pass 0, 1, 0; responses 9 and 10 are redundant.
    low, high = oracles.normalized(np.array([0.0, 1.0, 0.0]))[:2]
    want = [low] * 3 + [high] * 3 + [low] * 3 + [0.0] * 2
    np.testing.assert_allclose(run('full_sampling', correct, k=3)[0], want, atol=1e-6)
    correct[0, 9:] = True
    np.testing.assert_allclose(run('full_sampling', correct, k=3)[0], want, atol=1e-6)


def test_full_sampling_with_groups_of_one_is_pass_at_1():
    correct = every_count()
    got = run('full_sampling', correct, k=1)
    np.testing.assert_allclose(got, run('pass_at_1', correct), atol=1e-6)


def test_bootstrap_groups_are_k_distinct_responses_and_all_responses_are_drawn():
    # With one response correct, the members of passing groups can be told apart:
    # counts of +, - and 0 contributions follow from the number of groups.
    correct = np.zeros((200, 8), bool)
    correct[:, 2] = True
    got = run('bootstrap_sampling', correct, k=3, num_groups=2)
    # Two groups: either both or neither pass (all 0), or one does: +1 to its three
    # members, -1 to the other's three.
    mixed = got[np.any(got != 0, axis=1)]
    assert len(mixed) > 40
    assert np.all(np.maximum(mixed, 0).sum(axis=1) <= 3)
    np.testing.assert_allclose(mixed.sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(mixed[:, 2], 1, atol=1e-6)
    assert np.all(np.any(mixed != 0, axis=0))


@pytest.mark.parametrize('num_correct', [1, 4, 10])
def test_the_bootstrap_mean_converges_to_the_analytical_advantage(num_correct):
    correct = np.arange(NUM_ROLLOUTS)[None] < num_correct
    want = run('pass_at_k', correct)
    few = run('bootstrap_sampling', correct, aggregation='mean', num_groups=16)
    many = run('bootstrap_sampling', correct, aggregation='mean', num_groups=40_000)
    # The standard error of a mean over about 10,000 groups of a unit-variance value.
    np.testing.assert_allclose(many, want, atol=0.05)
    assert np.abs(many - want).max() < np.abs(few - want).max()


def test_the_bootstrap_sum_is_k_times_the_analytical_advantage():
    # N groups of k hold each response k times on average (measured 3.94
    # at n = 32, c = 4, k = 4). Swapping the two also changes the learning rate.
    correct = np.tile(np.arange(32) < 4, (2000, 1))
    got = run('bootstrap_sampling', correct, k=4)
    want = run('pass_at_k', correct[:1], k=4)[0]
    assert got[:, :4].mean() / want[0] == pytest.approx(4, abs=0.15)
    mean = run('bootstrap_sampling', correct, k=4, aggregation='mean')
    assert mean[:, :4].mean() / want[0] == pytest.approx(1, abs=0.05)


def test_zero_groups_means_as_many_as_rollouts():
    correct = every_count()
    np.testing.assert_array_equal(
        run('bootstrap_sampling', correct, num_groups=0),
        run('bootstrap_sampling', correct, num_groups=NUM_ROLLOUTS),
    )


def test_one_key_serves_a_batch_and_gives_each_problem_groups_of_its_own():
    correct = np.tile(np.arange(NUM_ROLLOUTS) < 4, (6, 1))
    estimate = jitted('bootstrap_sampling')
    got = np.asarray(estimate(as_rewards(correct), correct, key=jax.random.key(0)))
    assert len(np.unique(got, axis=0)) == len(correct)
    raw = estimate(as_rewards(correct), correct, key=jax.random.PRNGKey(0))
    np.testing.assert_array_equal(raw, got)
    other = estimate(as_rewards(correct), correct, key=jax.random.key(1))
    assert not np.array_equal(other, got)


@pytest.mark.parametrize(
    ('name', 'params', 'noise'),
    [
        ('pass_at_k', {}, 0.0),
        ('full_sampling', {}, 0.96),
        ('bootstrap_sampling', {'aggregation': 'sum'}, 4 * 0.43),
        ('bootstrap_sampling', {'aggregation': 'mean'}, 0.50),
    ],
)
def test_grouping_alone_makes_noise_unless_no_group_is_formed(name, params, noise):
    # Measured at n = 16, k = 4, c = 2; the bootstrap's 0.43 is its sum over k.
    rng = np.random.default_rng(0)
    correct = rng.permuted(np.tile(np.arange(16) < 2, (4000, 1)), axis=1)
    wrong = run(name, correct, **params)[~correct]
    assert wrong.std() == pytest.approx(noise, abs=0.02 * max(1, noise))
    scale = 4 if params.get('aggregation') == 'sum' else 1
    assert wrong.mean() / scale == pytest.approx(-0.158, abs=0.02)
