"""Pass@k of real-valued rewards, against every group formed and the exact curve."""

import numpy as np
import pytest

from tests.advantages import oracles
from tests.advantages.estimators_test import NUM_ROLLOUTS, as_rewards, every_count, run


@pytest.mark.parametrize(
    ('scale', 'shift'), [(2, -1), (0.37, 11.0), (1e-5, 0), (1e5, 3)]
)
@pytest.mark.parametrize(('name', 'curve'), [('pass_at_1', 1), ('pass_at_k_real', 4)])
def test_two_valued_rewards_of_any_values_give_the_curve(name, curve, scale, shift):
    correct = every_count()
    got = run(name, correct, (scale * correct + shift).astype(np.float32))
    want = run('pass_at_k', correct, k=curve)
    np.testing.assert_allclose(got, want, atol=2e-6)


@pytest.mark.parametrize('num_rollouts', [7, 12, 16])
@pytest.mark.parametrize('k', [1, 2, 4, 7])
def test_pass_at_k_real_is_the_mean_over_every_group(num_rollouts, k):
    rng = np.random.default_rng(num_rollouts + k)
    rewards = np.stack(
        [
            rng.normal(size=num_rollouts),
            rng.exponential(size=num_rollouts) - 5,
            rng.integers(0, 3, num_rollouts).astype(float),  # ties, also at the top
            (rng.uniform(size=num_rollouts) < 0.3)
            + 0.01 * rng.normal(size=num_rollouts),
            np.arange(num_rollouts, 0, -1.0),
        ]
    ).astype(np.float32)
    got = run('pass_at_k_real', rewards > 0, rewards, k=k)
    want = [oracles.advantages_over_all_groups(row, k) for row in rewards]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_pass_at_k_real_is_precise_on_a_large_offset_and_at_large_n():
    rng = np.random.default_rng(0)
    small = rng.integers(0, 64, (2, NUM_ROLLOUTS)).astype(np.float32)
    correct = small > 3
    np.testing.assert_allclose(
        run('pass_at_k_real', correct, small + 2.0**16),
        run('pass_at_k_real', correct, small),
        atol=1e-6,
    )
    many = rng.random((2, 2048)) < [[0.5], [0.0005]]
    many = np.stack([*many, np.arange(2048) >= 40])  # Sigma is 0 in float32.
    for k in (32, 1024):
        got = run('pass_at_k_real', many, as_rewards(many), k=k)
        np.testing.assert_allclose(got, run('pass_at_k', many, k=k), atol=1e-5)


@pytest.mark.parametrize(('num_rollouts', 'k'), [(16, 4), (32, 8), (64, 16), (64, 32)])
@pytest.mark.parametrize('paid', [(-1, 1.2), (0, 0.7), (0.1, 0.3), (1000.1, 1000.7)])
def test_a_compiled_pass_at_k_real_gives_no_gap_to_equal_rewards(paid, num_rollouts, k):
    """A fused multiply-add of the rewards over their spread made sigma of rounding."""
    correct = every_count(num_rollouts)
    rewards = np.where(correct, paid[1], paid[0])
    got = run('pass_at_k_real', correct, rewards, k=k)
    curve = [oracles.exact_curve(c, num_rollouts, k) for c in range(num_rollouts + 1)]
    want = np.where(correct, *(np.array(x)[:, None] for x in zip(*curve, strict=True)))
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_reward_that_is_no_maximum_of_a_group_costs_no_digits():
    rewards = np.zeros((1, NUM_ROLLOUTS), np.float32)
    rewards[0, 1:3] = 1
    want = run('pass_at_k_real', rewards > 0, rewards)
    rewards[0, [0, 5]] = -1e9, -3e30
    got = run('pass_at_k_real', rewards > 0, rewards)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_equal_rewards_get_equal_credit_bit_for_bit():
    rewards = np.random.default_rng(0).integers(0, 4, (50, 32)) / np.float32(3)
    got = run('pass_at_k_real', rewards > 0, rewards, k=4)
    for row, values in zip(rewards, got, strict=True):
        for reward in np.unique(row):
            assert len(np.unique(values[row == reward])) == 1
