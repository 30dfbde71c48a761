"""The loss reads every field of its section: no value here is a default."""

import dataclasses

import numpy as np
import pytest

from passk_jax.config import LossConfig
from tests.learning.losses_test import batch, loss_and_gradients, numpy_loss

CONFIG = LossConfig(
    clip_low=0.1,
    clip_high=0.15,
    aggregation='sequence',
    entropy_coef=0.3,
    kl_coef=0.7,
    kl_estimator='k1',
    mask_truncated=False,
    sampler_weight_cap=0.0,
    router_aux_coef=0.0,
)
CHANGES = {
    'clip_low': 0.2,
    'clip_high': 0.28,
    'aggregation': 'token',
    'entropy_coef': 0.0,
    'kl_coef': 0.0,
    'kl_estimator': 'k3',
}


def loss_of(config, arrays):
    return float(loss_and_gradients(arrays, config)[0])


@pytest.mark.parametrize('field', [None, *CHANGES])
def test_the_loss_has_the_settings_that_it_is_given(field):
    arrays = batch()
    config = CONFIG
    if field:
        config = dataclasses.replace(CONFIG, **{field: CHANGES[field]})
        # The formulas tell them apart.
        assert abs(numpy_loss(arrays, config) - numpy_loss(arrays, CONFIG)) > 1e-4
    np.testing.assert_allclose(
        loss_of(config, arrays), numpy_loss(arrays, config), rtol=1e-5
    )


@pytest.mark.parametrize('cap', [1.25, 3.0])
def test_weights_of_tokens_are_capped_where_the_section_says(cap):
    arrays = batch()
    config = dataclasses.replace(CONFIG, kl_coef=0.0, entropy_coef=0.0)
    rng = np.random.default_rng(3)
    sampler = arrays['old_log_probs'] + rng.normal(size=arrays['mask'].shape)
    arrays['sampler_log_probs'] = sampler.astype(np.float32)
    weighted = dataclasses.replace(config, sampler_weight_cap=cap)
    metrics = loss_and_gradients(arrays, weighted)[2]
    weights = np.minimum(np.exp(arrays['old_log_probs'] - sampler), cap)
    expected = np.where(arrays['mask'], weights, 0).sum()
    np.testing.assert_allclose(metrics['sampler_weight'], expected, rtol=1e-5)
    assert metrics['sampler_weight_capped'] > 0
