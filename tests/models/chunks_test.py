import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.models.chunks import map_chunks


@pytest.mark.parametrize('max_width', [1, 3, 4, 7, 8])
def test_chunks_give_what_the_whole_gives_in_order(max_width):
    x = jnp.arange(2.0 * 3 * 7 * 2).reshape(2, 3, 7, 2)
    y = jnp.arange(7)[None, None]

    def fn(arrays):
        x, y = arrays
        return {'sum': x.sum(-1) + y, 'twice': 2 * x}

    have = map_chunks(fn, (x, y), max_width=max_width)
    jax.tree.map(np.testing.assert_array_equal, have, fn((x, y)))


def test_any_axis_can_be_cut():
    x = jnp.arange(2.0 * 5 * 3).reshape(2, 5, 3)
    have = map_chunks(lambda a: 2 * a[0], (x,), max_width=2, axis=1)
    np.testing.assert_array_equal(have, 2 * x)


def test_chunks_are_even_and_no_longer_than_allowed():
    widths = []

    def fn(arrays):
        widths.append(arrays[0].shape[2])
        return arrays[0]

    for T, max_width in [(12, 11), (12, 4), (7, 3), (5, 8)]:
        map_chunks(fn, (jnp.zeros((1, 1, T)),), max_width=max_width)
    assert sorted(set(widths)) == [3, 4, 5, 6]


def test_the_zeros_that_fill_a_chunk_get_no_gradient():
    x = jnp.arange(1.0, 6.0)[None, None]

    def loss(x, max_width):
        # Its gradient at zero is infinite.
        roots = map_chunks(lambda a: jnp.sqrt(a[0] + 1), (x,), max_width=max_width)
        return roots.sum()

    np.testing.assert_allclose(jax.grad(loss)(x, 3), jax.grad(loss)(x, 5), rtol=1e-6)
