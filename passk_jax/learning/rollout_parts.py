"""Cuts the rollouts of each prompt into parts, so that a pass needs less memory.

A pass of the learner has at least one prompt per device, with all its rollouts. If
those do not fit, each prompt becomes several rows with a part of its rollouts:
``[P, N, ...]`` becomes ``[P parts, N / parts, ...]``, and the prompt runs once per row.
Losses are sums over responses, so the rows' gradient is that of the prompts.

Rows of a prompt belong to one mini-batch, and stay on the prompt's device.
"""

from typing import Any

import jax
from jax import numpy as jnp

from passk_jax.types import Prompts


def split(batch: Any, *, parts: int, num_updates: int = 1) -> Any:
    """Cuts each prompt into ``parts`` rows; part j has the rollouts j, j + parts, ...

    Args:
        batch: leaves ``[P, N, ...]`` and any :class:`Prompts`; not packed yet.
        parts: divides N; 1: the batch stays as it is.
        num_updates: mini-batches that :func:`packing.interleave` will make of the rows.
    """
    if parts == 1:
        return batch

    def repeat(x: jax.Array) -> jax.Array:
        x = x.reshape(-1, 1, num_updates, *x.shape[1:])
        return x.repeat(parts, axis=1).reshape(-1, *x.shape[3:])

    def cut(x: jax.Array) -> jax.Array:
        P, N = x.shape[:2]
        x = x.reshape(P // num_updates, num_updates, N // parts, parts, *x.shape[2:])
        x = jnp.moveaxis(x, 3, 1)
        return x.reshape(P * parts, N // parts, *x.shape[4:])

    def split_leaf(x: jax.Array | Prompts) -> jax.Array | Prompts:
        return jax.tree.map(repeat if isinstance(x, Prompts) else cut, x)

    return jax.tree.map(split_leaf, batch, is_leaf=lambda x: isinstance(x, Prompts))


def join(x: jax.Array, *, parts: int, num_updates: int = 1) -> jax.Array:
    """Undoes :func:`split` for an array: ``[P, N, ...]`` again."""
    rows, N = x.shape[0], x.shape[1] * parts
    x = x.reshape(-1, parts, num_updates, *x.shape[1:])
    x = jnp.moveaxis(x, 1, 3)
    return x.reshape(rows // parts, N, *x.shape[4:])


def add(x: jax.Array, *, parts: int, num_updates: int = 1) -> jax.Array:
    """Sums the values of each prompt's rows: ``[P parts] -> [P]``."""
    return x.reshape(-1, parts, num_updates).sum(axis=1).reshape(-1)
