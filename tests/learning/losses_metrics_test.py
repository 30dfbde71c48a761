"""What a step says of its ratios, tokens and clips."""

import pytest
from jax import numpy as jnp

from passk_jax.learning import losses
from tests.learning.losses_test import DEFAULT, loss_and_gradients


def test_clip_fractions_and_entropy_by_hand():
    ratios = jnp.asarray([[[1.3, 1.25, 0.7, 9.0], [1.3, 0.75, 0.9, 0.9]]])
    arrays = {
        'log_probs': jnp.log(ratios),
        'entropies': jnp.full((1, 2, 4), 0.5),
        'old_log_probs': jnp.zeros((1, 2, 4)),
        'ref_log_probs': None,
        'sampler_log_probs': jnp.zeros((1, 2, 4)),
        'advantages': jnp.asarray([[1.0, -1.0]]),
        'mask': jnp.asarray([[[True, True, True, False], [True] * 4]]),
    }
    _, _, metrics = loss_and_gradients(arrays, DEFAULT)
    metrics.pop('problem_loss')
    # Seven tokens after an update without a ratio but 1, and then one of three tokens.
    of_updates = {name: jnp.stack([0 * x, x, 2 * x]) for name, x in metrics.items()}
    finished = losses.finish_metrics(of_updates, jnp.array([7, 7, 3]))
    for name in ('clip_fraction_high', 'clip_fraction_low'):
        assert finished[name] == pytest.approx(3 / 10)
        assert finished[f'{name}_update_2'] == pytest.approx(1 / 7)
        assert finished[f'{name}_update_3'] == pytest.approx(2 / 3)
        assert f'{name}_update_1' not in finished
    of_updates['entropy'] = jnp.stack([7 * 0.5, 7 * 0.5, 3 * 0.5])
    finished = losses.finish_metrics(of_updates, jnp.array([7, 7, 3]))
    assert finished['entropy'] == pytest.approx(0.5)
    assert finished['loss'] == finished['policy_loss']


def test_more_tokens_than_int32_counts_have_their_mean():
    tokens = jnp.array([1_100_000_000] * 2, jnp.int32)
    finished = losses.finish_metrics({'entropy': 0.5 * tokens}, tokens)
    assert finished['entropy'] == pytest.approx(0.5)


def test_the_largest_ratio_is_of_the_tokens_that_are_trained():
    def largest(log_ratios, mask):
        zeros, shape = jnp.zeros_like(log_ratios), log_ratios.shape
        names = ('entropies', 'old_log_probs', 'sampler_log_probs')
        arrays = dict.fromkeys(names, zeros)
        arrays |= {'ref_log_probs': None, 'advantages': jnp.ones(shape[:2])}
        arrays |= {'log_probs': log_ratios, 'mask': mask}
        return loss_and_gradients(arrays, DEFAULT)[2]['ratio_max']

    log_ratios = jnp.log(jnp.asarray([[[0.5, 0.8, 9.0]]]))
    mask = jnp.asarray([[[True, True, False]]])
    assert largest(log_ratios, mask) == pytest.approx(0.8)
    assert largest(log_ratios, ~mask & mask) == 0
    # The maximum stays finite, since JSON has no infinity.
    assert 1e25 < largest(jnp.full((1, 1, 3), 200.0), mask) < jnp.inf
    far = losses.measure_k3(jnp.full((2**20,), -200.0)).sum()
    assert 1e30 < far < jnp.inf
    parts = losses.join_metrics({'ratio_max': jnp.array([1.5, 3.0, 0.5])})
    assert parts['ratio_max'] == 3.0
    step = losses.finish_metrics({'ratio_max': jnp.array([1.0, 2.0])}, jnp.ones(2, int))
    assert step['ratio_max'] == 2.0


def test_a_token_counts_the_same_in_whichever_update_it_is():
    metrics = {'entropy': jnp.array([6.0, 0, 1]), 'loss': jnp.array([1.0, 0, 2])}
    finished = losses.finish_metrics(metrics, jnp.array([3, 0, 1]))
    assert finished == {'entropy': 7 / 4, 'loss': 1.0}
