"""Rows that move in the grid keep what is theirs."""

import numpy as np

from passk_jax.models import policy as policies
from passk_jax.sampling import slots


def test_rows_move_with_all_their_slots_oldest_first():
    rng = np.random.default_rng(0)
    G, C, K, H, ring, index = 2, 1, 3, 2, 5, 7
    keys = rng.normal(size=(G, C, K, H, ring)).astype(np.float32)
    values = keys.swapaxes(3, 4)
    source = np.array([[4], [0], [-1], [2]], np.int32)
    layer = policies.KeyValues(keys=keys, values=values)
    moved = slots.move_cache(layer, source, np.int32(index), ring=8)
    assert moved.keys.shape == (4, C, 1, H, 8)
    order = (index + np.arange(ring)) % ring
    for g, old in enumerate(source[:, 0]):
        if old >= 0:
            want = keys[old // K, :, old % K][..., order]
            np.testing.assert_array_equal(moved.keys[g, :, 0, :, :ring], want)
            np.testing.assert_array_equal(
                moved.values[g, :, 0, :ring], want.swapaxes(1, 2)
            )
    same = slots.move_cache(layer, source, np.int32(index), ring=ring)
    np.testing.assert_array_equal(same.keys[1, :, 0], keys[0, :, 0])
