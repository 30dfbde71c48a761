import jax
import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax.advantages import rewards
from tests.shape_checks import call_checked

flip_wrong = jax.jit(rewards.flip_wrong, static_argnames='fraction')


def batch(num_problems: int = 400, num_rollouts: int = 16):
    rng = np.random.default_rng(0)
    correct = rng.random((num_problems, num_rollouts)) < 0.3
    return correct.astype(np.float32), correct


@jax.jit
def keys_of(ids) -> jax.Array:
    fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
    return fold(jax.random.key(0), ids)


@pytest.mark.parametrize('fraction', [0.1, 0.3, 0.5])
def test_about_the_fraction_of_the_wrong_responses_is_paid(fraction):
    paid, correct = batch()
    noisy, rewarded = flip_wrong(
        paid, correct, fraction=fraction, keys=keys_of(np.arange(400))
    )
    wrong = ~np.asarray(correct)
    count = wrong.sum()
    tolerance = 4 * np.sqrt(fraction * (1 - fraction) / count)
    assert np.asarray(rewarded)[wrong].mean() == pytest.approx(fraction, abs=tolerance)
    np.testing.assert_array_equal(noisy, np.asarray(rewarded, np.float32))


def test_correct_responses_keep_their_reward():
    paid, correct = batch()
    shaped = paid * 0.8
    noisy, rewarded = flip_wrong(
        shaped, correct, fraction=0.5, keys=keys_of(np.arange(400))
    )
    assert np.all(np.asarray(noisy)[correct] == np.float32(0.8))
    assert np.all(np.asarray(rewarded)[correct])
    flipped = np.asarray(rewarded) & ~correct
    assert np.all(np.asarray(noisy)[flipped] == 1.0)
    assert np.all(np.asarray(noisy)[~np.asarray(rewarded)] == 0.0)


def test_a_fraction_of_zero_changes_nothing_and_of_one_flips_all():
    paid, correct = batch()
    keys = keys_of(np.arange(400))
    noisy, rewarded = flip_wrong(paid, correct, fraction=0, keys=keys)
    np.testing.assert_array_equal(noisy, paid)
    np.testing.assert_array_equal(rewarded, correct)
    noisy, rewarded = flip_wrong(paid, correct, fraction=1.0, keys=keys)
    np.testing.assert_array_equal(noisy, np.ones_like(paid))
    assert np.all(rewarded)


def test_flips_follow_the_problem_and_not_its_row():
    paid, correct = batch(8)
    flipped = flip_wrong(paid, correct, fraction=0.5, keys=keys_of(np.arange(8)))[1]
    order = np.array([5, 2, 7])
    part = flip_wrong(paid[order], correct[order], fraction=0.5, keys=keys_of(order))[1]
    np.testing.assert_array_equal(part, flipped[order])


def test_two_problems_do_not_share_their_flips():
    correct = jnp.zeros((6, 32), bool)
    rewarded = flip_wrong(
        jnp.zeros((6, 32)), correct, fraction=0.5, keys=keys_of(np.arange(6))
    )[1]
    assert len(np.unique(rewarded, axis=0)) == 6


def test_jitted_equals_eager_and_annotations_hold():
    paid, correct = jax.device_put(batch(8))
    keys = keys_of(np.arange(8))
    eager = call_checked(rewards.flip_wrong, paid, correct, fraction=0.3, keys=keys)
    jitted = flip_wrong(paid, correct, fraction=0.3, keys=keys)
    for a, b in zip(eager, jitted, strict=True):
        np.testing.assert_array_equal(a, b)
