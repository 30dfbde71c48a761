"""Attention of many sequences to a shared prefix and to themselves.

Memory grows with the length of a sequence, not with its square, because many queries
run in chunks, forward and backward.

This is the plain form: one softmax over both parts. The transformer decides what is
cached. attention_kernels.py has the accelerators' kernels for entire sequences.
"""

import dataclasses
from collections.abc import Callable
from typing import Generic

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.models.chunks import map_chunks
from passk_jax.models.products import multiply_matrices
from passk_jax.sharding import local_size
from passk_jax.types import Leaf

# Logits of a layer that a device holds at one time: 1 GiB of float32. The backward pass
# holds about three arrays of this size.
MAX_LOGITS = 1 << 28

CACHE_AXES = ('batch', 'kv_heads', 'rollouts', None, None)
PREFIX_AXES = ('batch', 'kv_heads', None, None)
"""Logical axes of every array of :class:`KeyValues`, in a cache and in a prefix."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KeyValues(Generic[Leaf]):
    """Keys and values of one layer, keys transposed for the matrix product.

    Attributes:
        keys: ``[P, C, H, S]`` in a prefix; ``[P, C, N, H, T]`` in a suffix or cache.
        values: ``[P, C, S, H]``, or ``[P, C, N, T, H]``.
        scales: float32 ``[P, C, 2, S]``, or ``[P, C, N, 2, T]``, of int8 keys and
            values (quantized.py); ``None``: keys and values have the working dtype.
    """

    keys: Leaf
    values: Leaf
    scales: Leaf | None = None


def map_slots(fn: Callable[..., jax.Array], *parts: KeyValues) -> KeyValues:
    """Applies ``fn(*arrays, axis)`` to keys, values and scales, along their slots."""
    first, *_ = parts
    keys = fn(*(part.keys for part in parts), -1)
    values = fn(*(part.values for part in parts), -2)
    if first.scales is None:
        return KeyValues(keys, values)
    return KeyValues(keys, values, fn(*(part.scales for part in parts), -1))


def attend(
    query: Float[Array, 'P N T J H'],
    suffix: KeyValues,
    last: Int[Array, 'T'],
    prefix: KeyValues | None,
    prefix_lengths: Int[Array, 'P'] | None,
    starts: Int[Array, 'P N T'] | None = None,
    *,
    window: int = 0,
    max_logits: int = MAX_LOGITS,
) -> Float[Array, 'P N T J H']:
    """Attends from each problem's N sequences to their prefix and to themselves.

    Both parts share one softmax: each is summed unnormalised, under the common maximum.
    So one matrix product with the prefix serves all N sequences, without a copy.

    If the queries have more than ``max_logits`` logits, they run in chunks that the
    backward pass recomputes. The result is the same.

    Args:
        query: rotated queries, scaled by ``H ** -0.5``.
        suffix: keys ``[P, C, N, H, R]`` and values ``[P, C, N, R, H]``.
        last: the slot of each query's token, the last slot that it sees.
        prefix: the problem's prompt, or ``None``.
        prefix_lengths: how many slots of the prefix are not padding.
        starts: the slot where each query's response starts, if a sequence has several
            responses one after another; ``None``: 0.
        window: tokens that a query sees, including itself; 0: no limit.
        max_logits: the most logits that a device holds at a time; a single query may
            exceed it.

    Returns:
        The weighted sums of values, in the dtype of the queries.
    """
    P, N, T, J, _ = query.shape
    suffix_slots = jnp.arange(suffix.values.shape[3])
    prefix_slots = jnp.arange(0 if prefix is None else prefix.values.shape[2])
    rows = local_size('batch', P) * local_size('rollouts', N) * local_size('heads', J)
    width = max(1, max_logits // (rows * (suffix_slots.size + prefix_slots.size)))

    def part(args: tuple[jax.Array, ...]) -> jax.Array:
        query, last, *starts = (args[0], *(x[..., None] for x in args[1:]))
        seen, seen_prefix = suffix_slots <= last, None
        if starts:
            seen &= suffix_slots >= starts[0]
        if window:
            seen &= suffix_slots > last - window
        if prefix_lengths is not None:
            seen_prefix = (prefix_slots < prefix_lengths[:, None])[:, None, None]
            if window:
                # The position of each query, if the prefix begins at 0.
                position = last - starts[0] if starts else last
                position += prefix_lengths[:, None, None, None]
                seen_prefix &= prefix_slots > position - window
        return attend_masked(query, suffix, seen, prefix, seen_prefix)

    arrays = (query, last[None, None], *(() if starts is None else (starts,)))
    if width >= T:
        return part(arrays)
    return map_chunks(jax.checkpoint(part), arrays, max_width=width)


def attend_masked(
    query: Float[Array, 'P N T J H'],
    suffix: KeyValues,
    seen: Bool[Array, '#P #N T R'],
    prefix: KeyValues | None,
    seen_prefix: Bool[Array, 'P #N #T S'] | None,
) -> Float[Array, 'P N T J H']:
    """Attends like :func:`attend`, under any masks and without chunks.

    Args:
        query, suffix, prefix: as for :func:`attend`.
        seen: which slots of the suffix each query sees; at least one.
        seen_prefix: which slots of the prefix each query sees; perhaps none.
    """
    P, N, T, J, H = query.shape
    C = suffix.keys.shape[1]
    G = J // C
    query = query.reshape(P, N, T, C, G, H).transpose(0, 3, 1, 4, 2, 5)
    dtype = query.dtype
    lowest = jnp.finfo(jnp.float32).min

    logits = _score(query.reshape(P, C, N, G * T, H), suffix)
    logits = logits.reshape(P, C, N, G, T, -1)
    logits = jnp.where(seen[:, None, :, None], logits, lowest)
    top = logits.max(axis=-1, keepdims=True)
    before = None
    if prefix is not None and seen_prefix is not None:
        before = _score(query.reshape(P, C, N * G * T, H), prefix)
        before = before.reshape(P, C, N, G, T, -1)
        before = jnp.where(seen_prefix[:, None, :, None], before, lowest)
        top = jnp.maximum(top, before.max(axis=-1, keepdims=True))
    top = jax.lax.stop_gradient(top)
    weights = jnp.exp(logits - top)
    total = weights.sum(axis=-1, keepdims=True)
    mixed = _mix(weights.reshape(P, C, N, G * T, -1), suffix, dtype)
    mixed = mixed.reshape(P, C, N, G, T, H)
    if prefix is not None and before is not None:
        weights = jnp.exp(before - top)
        total = total + weights.sum(axis=-1, keepdims=True)
        shared = _mix(weights.reshape(P, C, N * G * T, -1), prefix, dtype)
        mixed = mixed + shared.reshape(P, C, N, G, T, H)
    mixed = (mixed / total).astype(dtype)
    return mixed.transpose(0, 2, 4, 1, 3, 5).reshape(P, N, T, J, H)


def _score(query: Float[Array, '*B M H'], part: KeyValues) -> Float[Array, '*B M S']:
    """Multiplies queries by keys; the logits are float32."""
    keys = part.keys.astype(query.dtype)
    logits = multiply_matrices(query, keys, dtype=jnp.float32)
    return logits if part.scales is None else logits * part.scales[..., :1, :]


def _mix(
    weights: Float[Array, '*B M S'], part: KeyValues, dtype: jnp.dtype
) -> Float[Array, '*B M H']:
    """Sums values by their weights, in products of a dtype; the sums are float32."""
    if part.scales is not None:
        weights = weights * part.scales[..., 1:, :]
    operands = weights.astype(dtype), part.values.astype(dtype)
    return multiply_matrices(*operands, dtype=jnp.float32)
