"""Maps a function over chunks of positions."""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax import numpy as jnp


def map_chunks(
    fn: Callable[[tuple[jax.Array, ...]], Any],
    arrays: tuple[jax.Array, ...],
    *,
    max_width: int,
    axis: int = 2,
) -> Any:
    """Applies ``fn`` to chunks along one axis, without splitting the batch axes.

    Args:
        fn: maps one chunk of each array to results with the same axis. The last chunk
            may end in zeros, whose results are dropped. Wrap it in ``jax.checkpoint``
            so that the backward pass holds one chunk at a time.
        arrays: arrays of equal length in the axis.
        max_width: maximum positions per chunk; if all fit, the result is
            ``fn(arrays)``.
        axis: the axis of the positions.
    """
    _, results = scan_chunks(
        lambda _, chunk: (None, fn(chunk)), None, arrays, max_width=max_width, axis=axis
    )
    return results


def scan_chunks(
    fn: Callable[[Any, tuple[jax.Array, ...]], tuple[Any, Any]],
    carry: Any,
    arrays: tuple[jax.Array, ...],
    *,
    max_width: int,
    axis: int,
) -> tuple[Any, Any]:
    """Runs :func:`map_chunks` with a carry, and returns the last carry first."""
    T = arrays[0].shape[axis]
    count = math.ceil(T / max_width)
    if count == 1:
        return fn(carry, arrays)
    # Even chunks: 12 tokens in chunks of at most 11 are 6 + 6, not 11 + 1 + 10 pads.
    width = math.ceil(T / count)

    def split(x: jax.Array) -> jax.Array:
        pads = [(0, 0)] * x.ndim
        pads[axis] = (0, count * width - T)
        x = jnp.pad(x, pads)
        x = x.reshape(*x.shape[:axis], count, width, *x.shape[axis + 1 :])
        return jnp.moveaxis(x, axis, 0)

    def join(x: jax.Array) -> jax.Array:
        x = jnp.moveaxis(x, 0, axis)
        x = x.reshape(*x.shape[:axis], count * width, *x.shape[axis + 2 :])
        return jax.lax.slice_in_dim(x, 0, T, axis=axis)

    carry, results = jax.lax.scan(fn, carry, jax.tree.map(split, arrays))
    return carry, jax.tree.map(join, results)
