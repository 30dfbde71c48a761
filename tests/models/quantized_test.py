"""Keys and values as int8: how far they may be from what they hold."""

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies as st
from jax import numpy as jnp

from passk_jax.models import decode_attention
from passk_jax.models.attention import KeyValues
from passk_jax.models.quantized import empty_layer, quantize
from tests.models import oracle
from tests.models.decode_attention_test import random_inputs


def layer_of(values) -> KeyValues:
    values = jnp.asarray(values)
    return KeyValues(values.swapaxes(-1, -2), values)


def dequantized(layer: KeyValues) -> KeyValues:
    """``s q`` in float64, as the module's docstring defines it."""
    keys, values, scales = (np.asarray(x, np.float64) for x in vars(layer).values())
    return KeyValues(keys * scales[..., :1, :], values * scales[..., 1:, :].mT)


@hypothesis.given(
    st.integers(0, 2**31),
    # Of few shapes, because each is compiled.
    st.sampled_from([1, 5]),
    st.sampled_from([1, 24]),
    st.floats(-30, 30),
    st.sampled_from(['float32', 'bfloat16']),
)
def test_a_number_is_off_by_at_most_half_a_step(seed, tokens, size, power, dtype):
    rng = np.random.default_rng(seed)
    # Of heavy tails, and of very different sizes from token to token.
    spread = np.exp2(rng.uniform(power - 8, power + 8, (tokens, 1)))
    x = jnp.asarray(rng.standard_t(2, (tokens, size)) * spread, dtype)
    quantized = quantize(layer_of(x))
    assert (quantized.keys.dtype, quantized.values.dtype) == (jnp.int8, jnp.int8)
    expected, have = np.asarray(x, np.float64), dequantized(quantized)
    largest = np.abs(expected).max(axis=-1, keepdims=True)
    step = largest / 127
    for array in (have.values, have.keys.mT):
        assert (np.abs(array - expected) <= step * (0.5 + 1e-4)).all()
        # The largest number of a token has hardly an error.
        np.testing.assert_allclose(np.abs(array).max(-1, keepdims=True), largest, 1e-6)
    assert np.abs(np.asarray(quantized.values, int)).max() == 127


@pytest.mark.parametrize('value', [0.0, 1e-30, -3.0])
def test_equal_numbers_are_exact(value):
    quantized = quantize(layer_of(np.full((3, 8), value, np.float32)))
    assert np.isfinite(quantized.scales).all()
    for x in (dequantized(quantized).keys, dequantized(quantized).values):
        np.testing.assert_allclose(x, value, rtol=1e-6)


def test_a_token_does_not_depend_on_others():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 6, 8)).astype(np.float32)
    all_tokens, alone = quantize(layer_of(x)), quantize(layer_of(x[..., 2:3, :]))
    other = x * np.where(np.arange(6) == 2, 1, 100)[:, None]
    for layer in (all_tokens, quantize(layer_of(other))):
        np.testing.assert_array_equal(layer.keys[..., 2:3], alone.keys)
        np.testing.assert_array_equal(layer.values[..., 2:3, :], alone.values)
        np.testing.assert_array_equal(layer.scales[..., 2:3], alone.scales)


@pytest.mark.parametrize('window', [0, 5])
@pytest.mark.parametrize('size', [0.2, 1.0, 4.0])
@pytest.mark.parametrize('H', [8, 64])
def test_attention_is_off_by_no_more_than_its_logits_and_values(window, size, H):
    """Against the form without int8, by a bound that nothing here has computed.

    A logit moves by at most ``e = |q|_1 s / 2``, so a weight by a factor within
    ``exp(2 e)``, and a value by half a step.
    """
    query, cache, seen, prefix, seen_prefix = random_inputs(window=window, H=H)
    query = query * size
    quantized, quantized_prefix = quantize(cache), quantize(prefix)
    have, want = (
        decode_attention.attend_newest('plain', query, a, seen, b, seen_prefix)
        for a, b in ((quantized, quantized_prefix), (cache, prefix))
    )
    steps = [np.asarray(x.scales) for x in (quantized, quantized_prefix)]
    of_keys, of_values = (max(x[..., i, :].max() for x in steps) for i in (0, 1))
    moved = np.abs(np.asarray(query)).sum(axis=-1, keepdims=True) * of_keys / 2
    largest = max(float(jnp.abs(x.values).max()) for x in (cache, prefix))
    bound = np.expm1(2 * moved) * largest + of_values / 2
    error = np.abs(np.asarray(have) - np.asarray(want))
    assert (error <= bound + 1e-6).all()
    assert error.max() > 1e-4


@pytest.mark.parametrize(('head_dim', 'share'), [(128, 0.516), (64, 0.531), (8, 0.75)])
def test_an_empty_layer_has_about_half_the_bytes_of_bfloat16(head_dim, share):
    arch = oracle.tiny_arch(dtype='bfloat16', head_dim=head_dim)
    layers = [empty_layer(arch, (2, 3), 16, x) for x in (False, True)]
    full, half = (sum(x.nbytes for x in jax.tree.leaves(layer)) for layer in layers)
    assert half / full == pytest.approx(share, abs=1e-3)
    for layer in layers:
        assert layer.keys.shape == (2, 3, head_dim, 16)
        assert layer.values.shape == (2, 3, 16, head_dim)
        assert not any(np.asarray(x, np.float32).any() for x in jax.tree.leaves(layer))
    assert jax.tree.structure(layers[1]) == jax.tree.structure(quantize(layers[0]))
