import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from passk_jax import masked

PAIRS = {
    'sum': (masked.masked_sum, np.ma.sum, 0.0),
    'mean': (masked.masked_mean, np.ma.mean, 0.0),
    'max': (masked.masked_max, np.ma.max, -np.inf),
}


def values_and_mask() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 5, 6)).astype(np.float32)
    mask = rng.random((4, 5, 6)) < 0.4
    mask[1] = False
    mask[2, 3] = False
    return values, mask


@pytest.mark.parametrize('axis', [None, 0, 1, -1, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize('name', PAIRS)
def test_agrees_with_numpy_ma_and_fills_what_is_all_masked(name, axis):
    ours, numpys, empty = PAIRS[name]
    values, mask = values_and_mask()
    want = numpys(np.ma.array(values, mask=~mask), axis=axis)
    got = jax.jit(lambda v, m: ours(v, m, axis=axis))(values, mask)
    np.testing.assert_allclose(got, np.ma.filled(want, empty), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('name', PAIRS)
def test_what_is_masked_reaches_neither_the_value_nor_the_gradient(name, bad):
    reduce = PAIRS[name][0]
    values, mask = values_and_mask()
    spoilt = np.where(mask, values, bad).astype(np.float32)
    for axis in (None, -1):

        @functools.partial(jax.jit, static_argnames='axis')
        def total(x, axis=axis):
            y = reduce(x, mask, axis=axis)
            return jnp.sum(jnp.where(jnp.isfinite(y), y, 0.0))

        assert total(spoilt) == total(values)
        slope = jax.jit(jax.grad(total))
        gradient = np.asarray(slope(spoilt))
        np.testing.assert_array_equal(gradient, slope(values))
        assert np.all(np.isfinite(gradient))
        assert np.all(gradient[~mask] == 0)
        assert np.any(gradient[mask] != 0)


@pytest.mark.parametrize('name', PAIRS)
def test_a_nan_that_is_not_masked_is_seen(name):
    values, mask = values_and_mask()
    values[tuple(np.argwhere(mask)[0])] = np.nan
    assert np.isnan(PAIRS[name][0](values, mask))


@pytest.mark.parametrize('name', PAIRS)
def test_a_mask_broadcasts(name):
    reduce = PAIRS[name][0]
    values, _ = values_and_mask()
    mask = np.array([True, False, True, True, False])[:, None]
    got = reduce(values, mask, axis=1)
    np.testing.assert_array_equal(
        got, reduce(values, np.broadcast_to(mask, values.shape), axis=1)
    )


def test_a_mean_of_many_bfloat16_values_counts_them_all():
    # bfloat16 counts no further than 256.
    values = jnp.ones(1000, jnp.bfloat16)
    mean = masked.masked_mean(values, jnp.ones(1000, bool))
    assert mean == 1.0
    assert mean.dtype == jnp.float32


def test_whole_numbers_and_booleans_are_counted_as_numbers():
    mask = jnp.array([True, True, True, False])
    correct = jnp.array([True, True, False, True])
    assert masked.masked_sum(correct, mask) == 2
    assert masked.masked_mean(jnp.array([1, 2, 6, 100]), mask) == 3.0
    assert masked.masked_max(jnp.array([1, 2, 6, 100]), mask) == 6
    least = np.iinfo(np.int32).min
    assert masked.masked_max(jnp.array([1, 2]), jnp.zeros(2, bool)) == least


@pytest.mark.parametrize('name', PAIRS)
def test_a_mask_that_is_not_boolean_is_an_error(name):
    with pytest.raises(ValueError, match='bool'):
        PAIRS[name][0](jnp.ones(3), jnp.ones(3))
