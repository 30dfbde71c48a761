"""Rows that move in the grid keep what is theirs."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import PartitionSpec

from passk_jax import sharding
from passk_jax.models.attention import KeyValues
from passk_jax.models.policy import Prefix
from passk_jax.models.quantized import quantize
from passk_jax.sampling.scheduled import state
from passk_jax.sampling.scheduled.state import Slots

G, C, K, H, RING = 2, 1, 3, 2, 5


def cache():
    keys = np.random.default_rng(0).normal(size=(G, C, K, H, RING))
    return KeyValues(keys=keys, values=keys.swapaxes(3, 4))


def test_rows_move_with_all_that_is_theirs():
    source = np.array([[4], [0], [-1], [2]], np.int32)
    layer = cache()
    moved = state.move_cache(layer, source)
    assert moved.keys.shape == (4, C, 1, H, RING)
    for g, old in enumerate(source[:, 0]):
        if old >= 0:
            want = layer.keys[old // K, :, old % K].astype(np.float32)
            np.testing.assert_array_equal(moved.keys[g, :, 0], want)
            np.testing.assert_array_equal(moved.values[g, :, 0], want.swapaxes(1, 2))


def test_scales_go_where_their_keys_and_values_go():
    layer = quantize(cache())
    source = np.array([[4], [0], [2]], np.int32)
    moved = state.move_cache(layer, source)
    longer = state.lengthen(layer, np.int32(2), ring=8)
    assert longer.scales.shape == (G, C, K, 2, 8)
    order = (2 + np.arange(RING)) % RING
    np.testing.assert_array_equal(longer.scales[..., :RING], layer.scales[..., order])
    np.testing.assert_array_equal(longer.keys[..., :RING], layer.keys[..., order])
    for g, old in enumerate(source[:, 0]):
        want = layer.scales[old // K, :, old % K]
        np.testing.assert_array_equal(moved.scales[g, :, 0], want)


@pytest.mark.parametrize('oldest', [None, 0, 1, RING - 1])
def test_a_longer_ring_has_the_oldest_first(oldest):
    layer = cache()
    longer = state.lengthen(layer, oldest and np.int32(oldest), ring=8)
    assert longer.keys.shape == (G, C, K, H, 8)
    order = ((oldest or 0) + np.arange(RING)) % RING
    want = layer.keys[..., order].astype(np.float32)
    np.testing.assert_array_equal(longer.keys[..., :RING], want)
    np.testing.assert_array_equal(longer.values[..., :RING, :], want.swapaxes(3, 4))


def test_only_keys_and_values_are_split_over_their_heads():
    """The experts of prompts have four axes too, and the second is their tokens."""
    layer = KeyValues(keys=jnp.ones((4, 2, 8, 6)), values=jnp.ones((4, 2, 6, 8)))
    prefix = Prefix((layer,), jnp.ones(4, int), routing=jnp.ones((4, 6, 3, 2), int))
    keys = jax.random.split(jax.random.key(0), 4)
    slots = Slots(jnp.arange(4), keys, jnp.ones((4, 8)), prefix)
    mesh = sharding.make_mesh(
        data=2, fsdp=1, rollout=1, tensor=2, devices=jax.devices()[:4]
    )
    # On each shard of the batch.
    places = np.array([0, 1, 0, 1], np.int32)
    with jax.set_mesh(mesh):
        copied = state.take(slots, places)
        written = state.put(state.zeros_like(slots, size=4), slots, places)
    first = ('data', 'fsdp')
    for result in (copied, written):
        (cache,), arrays = result.prefix.layers, [result.hidden, result.prefix.routing]
        for x in (cache.keys, cache.values):
            want = PartitionSpec(first, 'tensor', None, None)
            assert x.sharding.is_equivalent_to(jax.NamedSharding(mesh, want), x.ndim)
        for x in (*arrays, result.problem, result.keys, result.prefix.lengths):
            want = jax.NamedSharding(mesh, PartitionSpec(first))
            assert x.sharding.is_equivalent_to(want, x.ndim), x.shape
        jax.tree.map(np.testing.assert_array_equal, result.prefix, prefix)
