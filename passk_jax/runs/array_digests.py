"""Computes digests of arrays on their devices.

A digest depends on every bit of an array, its dtype and its shape. It does not depend
on sharding, platform or the number of processes, because sums modulo 2**32 do not
round. Digests are computed in memory, before writing and after reading, so verifying a
checkpoint does not read its files twice.

A digest detects accidents, not tampering.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from passk_jax.runtime import hosts

# The finaliser of MurmurHash3 (Appleby), a bijection of 32 bits.
_MIX = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))
_SALT = 0x9E3779B9


def describe(arrays: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Computes the digests of arrays; every process of the run must call it.

    Args:
        arrays: arrays by name, of any dtype of at most 64 bits, on one mesh.

    Returns:
        ``'<kind> <digest>'`` of each array, with :func:`kind`; and the names of the
        arrays that contain NaN or infinity.
    """
    if not arrays:
        return {}, []
    rows = hosts.fetch(_summarize([*arrays.values()]))
    described, bad = {}, []
    for (name, array), (finite, *words) in zip(arrays.items(), rows, strict=True):
        described[name] = f'{kind(array)} ' + ''.join(f'{x:08x}' for x in words)
        bad += [] if finite else [name]
    return described, bad


def kind(array: Any) -> str:
    """Returns dtype and shape, for example ``'float32[8, 16]'``."""
    return f'{np.dtype(array.dtype).name}{list(array.shape)}'


@jax.jit
def _summarize(arrays: list[jax.Array]) -> jax.Array:
    """Returns ``[A, 3]`` uint32, a row of :func:`_summary` for each of A arrays."""
    # One program with one array, because each fetched array costs a message.
    return jnp.stack([_summary(x) for x in arrays])


def _summary(x: jax.Array) -> jax.Array:
    """Returns ``[3]`` uint32: whether all is finite (1 or 0), and two digest words.

    Each word is a sum over the elements. A term depends on the element's bits and its
    position, so the digest detects flipped bits and exchanged elements.
    """
    bits = _bits(x)
    position = jnp.zeros(bits.shape, jnp.uint32)
    for axis, size in enumerate(bits.shape):
        along = lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
        # Positions are modulo 2**32, which the product of large sizes may exceed.
        position = position * np.uint32(size % 2**32) + along
    terms = _mix(bits ^ _mix(position + np.uint32(_SALT)))
    words = [_sum(terms), _sum(_mix(terms + np.uint32(_SALT)))]
    return jnp.stack([jnp.isfinite(x).all().astype(jnp.uint32), *words])


def _bits(x: jax.Array) -> jax.Array:
    """Returns the bits as uint32; 64-bit elements become two along a new axis."""
    if x.dtype == bool:
        return x.astype(jnp.uint32)
    size = min(x.dtype.itemsize, 4)
    return lax.bitcast_convert_type(x, f'uint{8 * size}').astype(jnp.uint32)


def _mix(x: jax.Array) -> jax.Array:
    for shift, factor in _MIX:
        x = (x ^ (x >> shift)) * np.uint32(factor)
    return x


def _sum(x: jax.Array) -> jax.Array:
    return jnp.sum(x, dtype=jnp.uint32)
