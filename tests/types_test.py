"""The pytrees that cross module borders."""

import dataclasses

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax.types import Prompts, Rollouts


def make_rollouts() -> Rollouts:
    P, N, S, T = 2, 3, 4, 5
    per_token = np.zeros((P, N, T), np.float32)
    return Rollouts(
        prompts=Prompts(
            tokens=np.zeros((P, S), np.int32),
            lengths=np.full(P, S, np.int32),
            problem_ids=np.arange(P, dtype=np.int32),
        ),
        tokens=np.ones((P, N, T), np.int32),
        lengths=np.full((P, N), T, np.int32),
        stopped=np.ones((P, N), bool),
        sampler_log_probs=per_token,
        untruncated_log_probs=per_token,
        entropies=per_token,
    )


def test_rollouts_cross_jit_with_every_field():
    rollouts = make_rollouts()
    doubled = jax.jit(lambda r: jax.tree.map(lambda x: x + x, r))(rollouts)
    assert isinstance(doubled, Rollouts)
    assert isinstance(doubled.prompts, Prompts)
    np.testing.assert_array_equal(doubled.tokens, 2 * rollouts.tokens)
    np.testing.assert_array_equal(doubled.prompts.problem_ids, [0, 2])


def test_every_array_has_the_prompts_in_front():
    # What lets one function split a whole batch over the data axes.
    assert {x.shape[0] for x in jax.tree.leaves(make_rollouts())} == {2}


def test_they_are_frozen_and_replaced():
    rollouts = make_rollouts()
    changed = dataclasses.replace(rollouts, lengths=jnp.zeros((2, 3), jnp.int32))
    assert int(changed.lengths.sum()) == 0
    assert int(rollouts.lengths.sum()) == 30
