"""The advantages of a step; tests/train_test.py trains with them."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import estimate, sampling
from passk_jax.sampling import Purpose
from tests import changed, tiny, train_wiring_test
from tests.train_test import make_batch

STEP = 3


def off_its_batch():
    """A batch whose lengths, entropies and log-probabilities are all unequal."""
    rollouts, responses = make_batch()
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 6, (8, 4)).astype(np.int32)
    inside = np.arange(5) < lengths[..., None]
    log_probs = np.where(inside, -rng.uniform(size=inside.shape), 0)
    rollouts = dataclasses.replace(
        rollouts,
        lengths=lengths,
        entropies=np.where(inside, rollouts.entropies, 0),
        sampler_log_probs=log_probs.astype(np.float32),
        untruncated_log_probs=2 * log_probs.astype(np.float32),
    )
    return rollouts, responses


@pytest.mark.parametrize('flip_wrong', [0.0, 0.25])
def test_an_estimator_gets_every_input(flip_wrong):
    """The arrays of the batch, and keys of seed, step, purpose and problem."""

    def estimator(rewards, correct, **others):
        return {'rewards': rewards, 'correct': correct, **others}

    setup = tiny.make_setup(
        changed.make_config(sampling__num_rollouts=4, reward__flip_wrong=flip_wrong)
    )
    rollouts, responses = off_its_batch()
    with mock.patch.object(estimate, 'configured_estimator', return_value=estimator):
        got, rewarded = estimate.make_estimate(setup)(
            rollouts, responses, STEP, memory={'history': np.arange(3)}
        )

    def keys(purpose):
        key = sampling.step_key(seed=17, stage=3, purpose=purpose, step=STEP)
        return sampling.problem_keys(key, np.arange(8))

    assert train_wiring_test.same_key(got.pop('key'), keys(Purpose.GROUPS))
    rewards, correct = responses.verdicts.rewards, responses.verdicts.correct
    if flip_wrong:
        draw = jax.vmap(lambda key: jax.random.uniform(key, (4,)))
        noise = np.asarray(draw(keys(Purpose.REWARD_NOISE)))
        flipped = ~correct & (noise < flip_wrong)
        assert flipped.any()
        rewards, correct = np.where(flipped, 1.0, rewards), correct | flipped
    lengths, entropies = rollouts.lengths, rollouts.entropies
    wanted = {
        'rewards': rewards,
        'correct': correct,
        'lengths': lengths,
        # Over tokens: the mean of the responses' means would be another.
        'mean_entropy': entropies.sum(axis=(1, 2)) / lengths.sum(axis=1),
        'log_probs': rollouts.sampler_log_probs.sum(axis=-1),
        'answers': [[row.index(x) for x in row] for row in responses.verdicts.parsed],
        'history': np.arange(3),
    }
    assert len(np.unique(wanted['answers'])) > 2
    np.testing.assert_array_equal(rewarded, correct)
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, err_msg=name)
