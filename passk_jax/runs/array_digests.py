"""Digests of arrays, computed where the arrays lie.

A digest depends on every bit of an array, its dtype and its shape. It does not depend
on how the array is sharded, on the platform or on the number of processes, because sums
modulo 2**32 have no rounding. So a checkpoint needs no second reading: the digest of
what was written and that of what was read are both made in memory.

It detects accidents, not tampering.
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
    """Describes arrays; every process of the run must call it.

    Args:
        arrays: arrays by name, of any dtype of at most 64 bits, on one mesh.

    Returns:
        ``'<kind> <digest>'`` of each array, where :func:`kind` says the first; and the
        names of those that hold NaN or infinity.
    """
    if not arrays:
        return {}, []
    rows = hosts.fetch(_stack([_summary(array) for array in arrays.values()]))
    described, bad = {}, []
    for (name, array), (finite, *words) in zip(arrays.items(), rows, strict=True):
        described[name] = f'{kind(array)} ' + ''.join(f'{x:08x}' for x in words)
        bad += [] if finite else [name]
    return described, bad


def kind(array: Any) -> str:
    """The dtype and the shape, for example ``'float32[8, 16]'``."""
    return f'{np.dtype(array.dtype).name}{list(array.shape)}'


@jax.jit
def _summary(x: jax.Array) -> jax.Array:
    """Whether all is finite (1 or 0), and two words of the digest: ``[3]`` uint32.

    Each word is a sum over the elements. A flipped bit changes an element's term, and
    the position is part of the term, so exchanged elements show too.
    """
    bits = _bits(x)
    position = jnp.zeros(bits.shape, jnp.uint32)
    for axis, size in enumerate(bits.shape):
        along = lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
        # Only its remainder counts: the product of large sizes exceeds 32 bits.
        position = position * np.uint32(size % 2**32) + along
    terms = _mixed(bits ^ _mixed(position + np.uint32(_SALT)))
    words = [_sum(terms), _sum(_mixed(terms + np.uint32(_SALT)))]
    return jnp.stack([jnp.isfinite(x).all().astype(jnp.uint32), *words])


@jax.jit
def _stack(rows: list[jax.Array]) -> jax.Array:
    """One array, because each that is fetched is a message between the processes."""
    return jnp.stack(rows)


def _bits(x: jax.Array) -> jax.Array:
    """The bits as uint32; 64-bit elements become two along another axis."""
    if x.dtype == bool:
        return x.astype(jnp.uint32)
    size = min(x.dtype.itemsize, 4)
    return lax.bitcast_convert_type(x, f'uint{8 * size}').astype(jnp.uint32)


def _mixed(x: jax.Array) -> jax.Array:
    for shift, factor in _MIX:
        x = (x ^ (x >> shift)) * np.uint32(factor)
    return x


def _sum(x: jax.Array) -> jax.Array:
    return jnp.sum(x, dtype=jnp.uint32)
