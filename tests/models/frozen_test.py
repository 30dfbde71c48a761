"""Which parameters are frozen, and which are trained."""

import jax
import numpy as np
import pytest

from passk_jax.models.frozen import Weights, split_weights
from tests.models import oracle

FROZEN = frozenset({'embed.embedding', 'layers.attention.query.kernel'})


def test_a_policy_says_which_of_its_parameters_are_frozen():
    policy = oracle.tiny_policy(frozen=FROZEN)
    params = oracle.random_params(policy)
    weights = split_weights(policy, params)
    assert weights.frozen.keys() == FROZEN
    assert weights.trained.keys() == params.keys() - FROZEN
    assert weights.merged.keys() == params.keys()
    # The very arrays.
    assert all(x is params[name] for name, x in weights.merged.items())
    doubled = jax.tree.map(lambda x: 2 * x, weights)
    assert isinstance(doubled, Weights)
    np.testing.assert_array_equal(
        doubled.frozen['embed.embedding'], 2 * params['embed.embedding']
    )


def test_in_full_fine_tuning_nothing_is_frozen():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    assert split_weights(policy, params) == Weights({}, params)


def test_only_a_parameter_of_the_policy_can_be_frozen():
    words = r"frozen=\['adapter'\] are none of \['embed.embedding', 'layers"
    with pytest.raises(ValueError, match=words):
        oracle.tiny_policy(frozen=frozenset({'adapter', 'embed.embedding'}))
