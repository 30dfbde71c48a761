"""A digest is of the bits and their places, wherever they lie."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from passk_jax.runs import array_digests
from tests.runs import states


def digest(array):
    described, _ = array_digests.describe({'x': array})
    return described['x']


def test_a_digest_is_what_its_definition_says():
    """Two words of sums over mixed bits, here in integers without a limit."""

    def mixed(x):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            x = (x ^ (x >> shift)) * factor % 2**32
        return x

    values = np.arange(6, dtype=np.float32).reshape(2, 3) / 7
    salt = 0x9E3779B9
    terms = [
        mixed(int(bits) ^ mixed((i + salt) % 2**32))
        for i, bits in enumerate(values.view(np.uint32).ravel())
    ]
    first = sum(terms) % 2**32
    second = sum(mixed((x + salt) % 2**32) for x in terms) % 2**32
    assert digest(jnp.array(values)) == f'float32[2, 3] {first:08x}{second:08x}'


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'int32', 'int8', 'bool'])
def test_every_bit_and_every_place_counts(dtype):
    size = np.dtype(dtype).itemsize
    values = np.arange(24).reshape(4, 6) % 2 if dtype == 'bool' else np.arange(24)
    array = values.reshape(4, 6).astype(dtype)
    digests = {digest(jnp.array(array))}
    bits = [0] if dtype == 'bool' else range(8 * size)
    for bit in bits:
        other = array.copy()
        flat = other.view(f'uint{8 * size}').reshape(-1)
        flat[13] ^= np.array(1 << bit, flat.dtype)
        digests.add(digest(jnp.array(other)))
    exchanged = array.copy()
    exchanged[0, 1], exchanged[2, 4] = array[2, 4], array[0, 1]
    digests.add(digest(jnp.array(exchanged)))
    digests.add(digest(jnp.array(array.T)))
    digests.add(digest(jnp.array(array.reshape(6, 4))))
    assert len(digests) == 1 + len(bits) + 3


def test_a_digest_does_not_depend_on_the_devices():
    array = jnp.arange(64.0).reshape(8, 8).astype(jnp.bfloat16)
    specs = [(1,), (8, 'fsdp'), (4, None, 'fsdp'), (2, 'fsdp')]
    placed = [jax.device_put(array, states.sharding(*spec)) for spec in specs]
    assert {digest(x) for x in placed} == {digest(array)}


def test_what_is_not_finite_is_named():
    arrays = {
        'good': jnp.ones(3),
        'nan': jnp.array([0.0, np.nan]),
        'whole': jnp.arange(2),
        'infinite': jnp.array(-np.inf, ml_dtypes.bfloat16),
    }
    described, bad = array_digests.describe(arrays)
    assert bad == ['nan', 'infinite']
    assert list(described) == list(arrays)
    assert described['infinite'].startswith('bfloat16[] ')
    assert array_digests.describe({}) == ({}, [])
