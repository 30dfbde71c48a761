import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.models import masters


@pytest.mark.parametrize('rank_in', [1, 2])
def test_the_written_gradient_of_a_projection_is_that_of_tensordot(rank_in):
    x = jax.random.normal(jax.random.key(0), (5, 3, 4))
    kernel = jax.random.normal(jax.random.key(1), (*x.shape[-rank_in:], 6, 2))

    def loss(fn):
        return lambda x, kernel: jnp.sin(fn(x, kernel, rank_in)).sum()

    have = jax.grad(loss(masters.project), argnums=(0, 1))(x, kernel)
    want = jax.grad(loss(jnp.tensordot), argnums=(0, 1))(x, kernel)
    for a, b in zip(have, want, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def spread_plainly(weight, tokens, dtype):
    return jnp.broadcast_to(weight.astype(dtype), (*tokens.shape, *weight.shape))


def spread(weight, tokens, dtype):
    return masters.spread(weight, (*tokens.shape, *weight.shape), dtype)


def look_up_plainly(weight, tokens, dtype):
    return weight.astype(dtype)[tokens]


PAIRS = [(spread, spread_plainly), (masters.look_up, look_up_plainly)]


@pytest.mark.parametrize(('fn', 'plain'), PAIRS)
def test_written_gradients_are_those_of_autodiff_in_float32(fn, plain):
    weight = jax.random.normal(jax.random.key(0), (5, 3))
    tokens = jax.random.randint(jax.random.key(1), (2, 3, 4), 0, 5)

    def loss(fn):
        return lambda weight: jnp.sin(fn(weight, tokens, jnp.float32)).sum()

    have, want = jax.grad(loss(fn))(weight), jax.grad(loss(plain))(weight)
    np.testing.assert_allclose(have, want, atol=1e-5)


@pytest.mark.parametrize(('fn', 'plain'), PAIRS)
@pytest.mark.parametrize('master', ['float32', 'bfloat16'])
def test_what_is_used_8192_times_gets_the_sum_of_8192_gradients(fn, plain, master):
    weight = jax.random.normal(jax.random.key(0), (5, 3), jnp.dtype(master))
    tokens = jnp.full((1, 64, 128), 2)

    def loss(fn):
        return lambda weight: (fn(weight, tokens, jnp.bfloat16) * 0.01).sum()

    value = fn(weight, tokens, jnp.bfloat16)
    assert value.dtype == jnp.bfloat16
    np.testing.assert_array_equal(value, plain(weight, tokens, jnp.bfloat16))
    have = jax.grad(loss(fn))(weight)
    assert have.dtype == weight.dtype
    # bfloat16 stops at 4: a hundredth is less than half of its last bit.
    np.testing.assert_allclose(np.float32(have[2]), 81.92, rtol=4e-3)
