"""A function of positions on a few of them at a time."""

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
) -> Any:
    """``fn`` on chunks of axis 2, so that the sharded batch axis stays whole.

    Args:
        fn: of a chunk of each array; what it returns has the chunk as axis 2 too. The
            last chunk may end in zeros, whose results are dropped. Wrap it in
            ``jax.checkpoint`` if the backward pass is to hold one chunk at a time.
        arrays: equally long in axis 2.
        max_width: positions a chunk; all in one: ``fn(arrays)`` and nothing else.
    """
    T = arrays[0].shape[2]
    count = math.ceil(T / max_width)
    if count == 1:
        return fn(arrays)
    # Even chunks: 12 tokens in chunks of at most 11 are 6 + 6, not 11 + 1 + 10 pads.
    width = math.ceil(T / count)

    def split(x: jax.Array) -> jax.Array:
        pads = [(0, 0)] * x.ndim
        pads[2] = (0, count * width - T)
        x = jnp.pad(x, pads).reshape(*x.shape[:2], count, width, *x.shape[3:])
        return jnp.moveaxis(x, 2, 0)

    def join(x: jax.Array) -> jax.Array:
        x = jnp.moveaxis(x, 0, 2)
        return x.reshape(*x.shape[:2], count * width, *x.shape[4:])[:, :, :T]

    return jax.tree.map(join, jax.lax.map(fn, jax.tree.map(split, arrays)))
