"""Truncated importance weights of the sampler, by hand and at the edges."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.learning import losses
from tests.learning.losses_test import DEFAULT, FULL, batch
from tests.shape_checks import call_checked

# Weights of 1/2, 1, 3 and 8, and a pad.
OLD = jnp.log(jnp.array([[[0.1, 0.2, 0.3, 0.8, 0.5]]]))
SAMPLER = jnp.log(jnp.array([[[0.2, 0.2, 0.1, 0.1, 0.5]]]))
MASK = jnp.array([[[True, True, True, True, False]]])


@functools.partial(jax.jit, static_argnums=1)
def loss_of(log_probs, config, arrays):
    normalizer = losses.normalizer(arrays['mask'], aggregation=config.aggregation)
    arrays = arrays | {'log_probs': log_probs}
    return losses.total_loss(**arrays, normalizer=normalizer, config=config)


def test_weights_are_the_ratio_up_to_the_cap():
    weights, capped = call_checked(losses.sampler_weights, OLD, SAMPLER, MASK, cap=2.0)
    np.testing.assert_allclose(weights[0, 0], [0.5, 1, 2, 2, 1], rtol=1e-6)
    assert capped[0, 0].tolist() == [False, False, True, True, False]


def test_the_loss_and_its_gradient_by_hand():
    """On policy with A = 1: the mean of -weight, and -weight / tokens of each token."""
    config = dataclasses.replace(DEFAULT, sampler_weight_cap=2.0)
    arrays = {
        'entropies': jnp.zeros_like(OLD),
        'old_log_probs': OLD,
        'ref_log_probs': None,
        'advantages': jnp.ones((1, 1)),
        'mask': MASK,
        'sampler_log_probs': SAMPLER,
    }
    grad = jax.jit(jax.value_and_grad(loss_of, has_aux=True), static_argnums=1)
    (value, metrics), slopes = grad(OLD, config, arrays)
    assert value == pytest.approx(-(0.5 + 1 + 2 + 2) / 4)
    np.testing.assert_allclose(slopes[0, 0], [-0.125, -0.25, -0.5, -0.5, 0], rtol=1e-6)
    metrics.pop('problem_loss')
    of_update = {name: x[None] for name, x in metrics.items()}
    metrics = losses.finish_metrics(of_update, MASK.sum()[None])
    assert metrics['sampler_weight'] == pytest.approx(5.5 / 4)
    assert metrics['sampler_weight_capped'] == 0.5


def test_of_an_exact_sampler_with_top_p_the_weight_is_the_mass_that_it_keeps():
    """Of 0.6, 0.2 and 0.2, top_p=0.8 keeps two, which are drawn as 0.75 and 0.25."""
    learner, drawn = (jnp.log(jnp.array([[p]])) for p in ([0.6, 0.2], [0.75, 0.25]))
    weights, _ = losses.sampler_weights(learner, drawn, MASK[..., :2], cap=2.0)
    np.testing.assert_allclose(weights, 0.8, rtol=1e-6)


def test_weights_are_constants():
    def total(old, sampler):
        return losses.sampler_weights(old, sampler, MASK, cap=2.0)[0].sum()

    for slopes in jax.grad(total, argnums=(0, 1))(OLD, SAMPLER):
        assert not np.any(slopes)


def test_only_the_policy_gradient_is_weighted():
    arrays = batch()
    sampler = arrays['old_log_probs'] - jnp.log(2.0)
    config = dataclasses.replace(FULL, sampler_weight_cap=4.0)
    log_probs = arrays.pop('log_probs')
    plain, metrics = loss_of(log_probs, FULL, arrays)
    weighted, weighted_metrics = loss_of(
        log_probs, config, arrays | {'sampler_log_probs': sampler}
    )
    doubled = pytest.approx(2 * float(metrics['policy_loss']), rel=1e-5)
    assert float(weighted_metrics['policy_loss']) == doubled
    remainder = plain - metrics['policy_loss']
    weighted_remainder = float(weighted - weighted_metrics['policy_loss'])
    assert weighted_remainder == pytest.approx(float(remainder), abs=1e-5)


@pytest.mark.parametrize('garbage', [np.nan, np.inf, -np.inf])
def test_what_stands_at_pads_is_harmless(garbage):
    sampler = jnp.where(MASK, SAMPLER, garbage)
    weights, _ = losses.sampler_weights(OLD, sampler, MASK, cap=2.0)
    np.testing.assert_allclose(weights[0, 0], [0.5, 1, 2, 2, 1], rtol=1e-6)


def test_a_token_that_the_sampler_thought_impossible_has_the_cap():
    sampler = SAMPLER.at[0, 0, 0].set(-jnp.inf)
    weights, capped = losses.sampler_weights(OLD, sampler, MASK, cap=2.0)
    assert weights[0, 0, 0] == 2
    assert capped[0, 0, 0]


def test_without_a_cap_nothing_is_weighted_and_nothing_reported():
    arrays = batch()
    log_probs = arrays.pop('log_probs')
    plain, metrics = loss_of(log_probs, FULL, arrays)
    unweighted, other_metrics = loss_of(
        log_probs, FULL, arrays | {'sampler_log_probs': arrays['old_log_probs'] - 1}
    )
    assert plain == unweighted
    assert metrics.keys() == other_metrics.keys()
    assert not {'sampler_weight', 'sampler_weight_capped'} & metrics.keys()
