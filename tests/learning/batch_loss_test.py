"""The loss of a batch: its parts add up, and its mask is the learner's."""

import dataclasses

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.learning import losses
from passk_jax.learning.batch_loss import Batch, BatchLoss, response_mask
from tests.learning.update_test import (
    LOSS,
    log_probs_of,
    make_advantages,
    make_policy,
    make_rollouts,
    start,
)


def make_loss(**changes):
    return BatchLoss(make_policy(), dataclasses.replace(LOSS, **changes), 1.0)


@pytest.mark.parametrize('aggregation', losses.AGGREGATIONS)
def test_on_policy_the_loss_is_minus_the_mean_advantage_of_the_tokens(aggregation):
    loss, batch = (
        make_loss(aggregation=aggregation),
        Batch(make_rollouts(), make_advantages()),
    )
    normalizer = loss.normalizer(batch.rollouts)
    value, (metrics, log_probs) = jax.jit(
        lambda params: loss(params, batch, True, normalizer, None)
    )(start().params)
    lengths = batch.rollouts.lengths
    weights = lengths if aggregation == 'token' else np.ones_like(lengths)
    expected = -np.average(batch.advantages, weights=weights)
    assert value == pytest.approx(expected, rel=1e-5)
    assert normalizer == weights.sum()
    expected = log_probs_of(make_policy(), start().params, batch.rollouts)
    mask = response_mask(batch.rollouts)
    np.testing.assert_allclose(log_probs[mask], expected[mask], atol=1e-6)
    assert metrics['positions'] == mask.size


def test_parts_of_a_batch_add_up_to_its_loss():
    loss, whole = make_loss(), Batch(make_rollouts(), make_advantages())
    normalizer = loss.normalizer(whole.rollouts)
    gradient = jax.jit(jax.grad(lambda p, b: loss(p, b, True, normalizer, None)[0]))
    parts = [jax.tree.map(lambda x, i=i: x[i::2], whole) for i in range(2)]
    sums = jax.tree.map(jnp.add, *(gradient(start().params, part) for part in parts))
    expected = gradient(start().params, whole)
    for name in sums:
        np.testing.assert_allclose(sums[name], expected[name], atol=2e-6)


def test_the_mask_drops_what_the_limit_cut_off_only_if_asked():
    rollouts = make_rollouts()
    stopped = np.ones_like(rollouts.stopped)
    stopped[0, 1] = False
    rollouts = dataclasses.replace(rollouts, stopped=stopped)
    everything = response_mask(rollouts)
    assert everything.sum() == rollouts.lengths.sum()
    assert (make_loss().mask(rollouts) == everything).all()
    masked = make_loss(mask_truncated=True).mask(rollouts)
    assert not masked[0, 1].any()
    assert masked.sum() == everything.sum() - rollouts.lengths[0, 1]
