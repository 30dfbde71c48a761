"""Responses that are handed over are the right ones."""

import dataclasses

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.sampling.plain_loop import empty_record
from passk_jax.sampling.scheduled.hand_over import gather
from tests.models import oracle

P, N, T = 8, 4, 5
empty = jax.jit(empty_record, static_argnums=(0, 1, 2, 3))


@pytest.mark.parametrize('sizes', [(1, 2, 2, 2), (2, 1, 4, 1), (8, 1, 1, 1)])
@pytest.mark.parametrize('count', [1, 3, P * N])
def test_what_is_asked_for_is_gathered(sizes, count):
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    with jax.set_mesh(mesh):
        rollouts = empty(oracle.tiny_policy(), P, N, T)
        number = np.arange(P * N * T, dtype=np.int32).reshape(P, N, T)
        tokens = jax.device_put(number, rollouts.tokens.sharding)
        lengths = jax.device_put(number[..., 0] % T, rollouts.lengths.sharding)
        rollouts = dataclasses.replace(rollouts, tokens=tokens, lengths=lengths)
        which = np.zeros(P * N, bool)
        which[np.random.default_rng(0).permutation(P * N)[:count]] = True
        which = which.reshape(P, N)
        ended = gather(rollouts, which)
    assert which[ended.problems, ended.rollouts].all()
    assert len(ended.problems) == count
    # Every host reads its own copy, so each has it whole.
    assert ended.tokens.sharding.is_fully_replicated
    np.testing.assert_array_equal(ended.tokens[:count], number[which])
    np.testing.assert_array_equal(ended.lengths[:count], number[which][:, 0] % T)


def test_numbers_of_responses_are_few_shapes():
    rollouts = empty(oracle.tiny_policy(), 16, 16, T)
    shapes = set()
    for count in range(1, 257):
        which = np.arange(256).reshape(16, 16) < count
        shapes.add(gather(rollouts, which).tokens.shape)
    assert shapes == {(64, T), (128, T), (256, T)}
