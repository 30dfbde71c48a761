"""The loss of a batch: its parts add up, and its mask is the learner's."""

import dataclasses

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.config import AGGREGATIONS
from passk_jax.learning import losses
from passk_jax.learning.batch_loss import (
    Batch,
    BatchLoss,
    response_mask,
    without_routing,
)
from passk_jax.learning.optimizer import make_optimizer
from passk_jax.learning.update import Update
from passk_jax.models import policy as policies
from passk_jax.models.feed_forward import FEED_FORWARDS
from passk_jax.types import Prompts, Rollouts
from tests.learning.update_test import (
    LOSS,
    OPTIMIZER,
    VOCAB,
    N,
    P,
    assert_params_close,
    log_probs_of,
    make_advantages,
    make_mesh,
    make_policy,
    make_rollouts,
    place,
    run_step,
    start,
)
from tests.models import oracle
from tests.models.feed_forward_test import Measured


def make_loss(**changes):
    return BatchLoss(make_policy(), 1.0, dataclasses.replace(LOSS, **changes))


@pytest.mark.parametrize('aggregation', AGGREGATIONS)
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
    loss, batch = make_loss(), Batch(make_rollouts(), make_advantages())
    normalizer = loss.normalizer(batch.rollouts)
    gradient = jax.jit(jax.grad(lambda p, b: loss(p, b, True, normalizer, None)[0]))
    parts = [jax.tree.map(lambda x, i=i: x[i::2], batch) for i in range(2)]
    sums = jax.tree.map(jnp.add, *(gradient(start().params, part) for part in parts))
    expected = gradient(start().params, batch)
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


@pytest.mark.slow
def test_what_layers_measure_is_a_metric_of_the_step_over_its_trained_tokens(
    monkeypatch,
):
    """Whatever the micro-batches and the packing; and the parameters do not notice."""
    monkeypatch.setitem(FEED_FORWARDS, 'measured', Measured)
    sizes = {'vocab_size': VOCAB, 'num_layers': 1, 'tie_embeddings': True}
    policy = oracle.tiny_policy(**sizes, feed_forward='measured')
    rollouts, mesh = make_rollouts(), make_mesh()
    stopped = np.broadcast_to(np.arange(P)[:, None] % 2 == 1, (P, N))
    rollouts = dataclasses.replace(rollouts, stopped=stopped)
    args = start().params, rollouts.prompts, rollouts.tokens
    *_, statistics = policies.token_log_probs(policy, *args, temperature=1.0)
    mask = response_mask(rollouts) & stopped[..., None]
    loss = dataclasses.replace(LOSS, mask_truncated=True)
    want, plain = run_step(rollouts=rollouts, loss=loss)
    assert not any(name.startswith(losses.LAYERS) for name in plain)
    for micro_batches, pack_sizes in ((2, 0), (1, 2)):
        update = Update(
            loss=BatchLoss(policy, 1.0, loss),
            optimizer=make_optimizer(OPTIMIZER),
            mesh=mesh,
            num_updates=1,
            num_micro_batches=micro_batches,
            pack_sizes=pack_sizes,
        )
        with jax.set_mesh(mesh):
            state, metrics = update(place(mesh), rollouts, make_advantages())
        size = np.asarray(statistics['size'])[mask].mean()
        assert metrics['layers_size'] == pytest.approx(size, rel=1e-5)
        assert_params_close(jax.device_get(state.params), want, atol=1e-5)


def test_a_policy_that_did_not_sample_chooses_its_own_experts():
    zeros = np.zeros((1, 1, 1, 1, 1))
    prompts = Prompts(zeros[..., 0, 0, 0], zeros[0], zeros[0])
    tokens = zeros[..., 0, 0]
    rollouts = Rollouts(prompts, *[tokens] * 6, routing=zeros)
    batch = Batch(rollouts, tokens[..., 0])
    other = without_routing(batch)
    assert other.rollouts.routing is None
    assert other.rollouts.tokens is tokens
    assert batch.rollouts.routing is zeros
