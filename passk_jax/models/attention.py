"""Attention of many sequences to a prefix they share and to themselves.

Memory grows with the length of a sequence, not with its square: queries that are many
go a chunk at a time, forward and backward.

The one softmax over both parts, as a plain function; which network calls it, and what
is cached, is the transformer's business. Kernels of accelerators for whole sequences
are in attention_kernels.py.
"""

import dataclasses

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.models.chunks import map_chunks
from passk_jax.sharding import local_size

# Logits of one layer that exist on a device at one time: 1 GiB of float32. The
# backward pass holds about three arrays of their size.
MAX_LOGITS = 1 << 28


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KeyValues:
    """Keys and values of one layer, keys transposed for the matrix product.

    Attributes:
        keys: ``[P, C, H, S]`` as a prefix; ``[P, C, N, H, T]`` as own or cache.
        values: ``[P, C, S, H]``; ``[P, C, N, T, H]``.
    """

    keys: jax.Array
    values: jax.Array


def attend(
    query: Float[Array, 'P N T J H'],
    own: KeyValues,
    last: Int[Array, 'T'],
    prefix: KeyValues | None,
    prefix_mask: Bool[Array, 'P S'] | None,
    first: Int[Array, 'P N T'] | None = None,
    *,
    max_logits: int = MAX_LOGITS,
) -> Float[Array, 'P N T J H']:
    """Attention of N sequences a problem to a shared prefix and to themselves.

    One softmax over both parts: each gives unnormalised sums under the common
    maximum, so that the prefix is multiplied once as a matrix for all N sequences
    and never repeated.

    Where all queries have more logits than ``max_logits`` they go in chunks that have
    not, each recomputed in the backward pass. The result is the same.

    Args:
        query: rotated queries, scaled by ``H ** -0.5``.
        own: keys ``[P, C, N, H, R]`` and values ``[P, C, N, R, H]``.
        last: the last own slot each query sees; it sees those before it too.
        prefix: the problem's prompt, or ``None``.
        prefix_mask: which prefix slots are real.
        first: the first own slot each query sees, where a sequence holds several
            responses one behind the other; ``None``: slot 0.
        max_logits: on a device at one time; but never less than one query's.

    Returns:
        The mixed values, in the queries' dtype.
    """
    P, N, T, J, _ = query.shape
    num_slots = own.values.shape[3]
    if prefix is not None:
        num_slots += prefix.values.shape[2]
    rows = local_size('batch', P) * local_size('rollouts', N) * local_size('heads', J)
    width = max(1, max_logits // (rows * num_slots))

    def part(args: tuple[jax.Array, ...]) -> jax.Array:
        query, last, *first = args
        slots = jnp.arange(own.values.shape[3])
        seen = slots <= last[..., None]
        if first:
            seen &= slots >= first[0][..., None]
        return attend_masked(query, own, seen, prefix, prefix_mask)

    arrays = (query, last[None, None], *(() if first is None else (first,)))
    if width >= T:
        return part(arrays)
    return map_chunks(jax.checkpoint(part), arrays, max_width=width)


def attend_masked(
    query: Float[Array, 'P N T J H'],
    own: KeyValues,
    seen: Bool[Array, '#P #N T R'],
    prefix: KeyValues | None,
    prefix_mask: Bool[Array, 'P S'] | None,
) -> Float[Array, 'P N T J H']:
    """:func:`attend` to any own slots, with all logits at one time.

    Args:
        query, own, prefix, prefix_mask: as there.
        seen: which own slots each query sees; at least one.
    """
    P, N, T, J, H = query.shape
    C = own.keys.shape[1]
    G = J // C
    query = query.reshape(P, N, T, C, G, H).transpose(0, 3, 1, 4, 2, 5)
    dtype = query.dtype
    lowest = jnp.finfo(jnp.float32).min

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.matmul(a, b, preferred_element_type=jnp.float32)

    logits = product(query.reshape(P, C, N, G * T, H), own.keys)
    logits = logits.reshape(P, C, N, G, T, -1)
    logits = jnp.where(seen[:, None, :, None], logits, lowest)
    top = logits.max(axis=-1, keepdims=True)
    if prefix is not None:
        before = product(query.reshape(P, C, N * G * T, H), prefix.keys)
        before = before.reshape(P, C, N, G, T, -1)
        before = jnp.where(prefix_mask[:, None, None, None, None], before, lowest)
        top = jnp.maximum(top, before.max(axis=-1, keepdims=True))
    top = jax.lax.stop_gradient(top)
    weights = jnp.exp(logits - top)
    total = weights.sum(axis=-1, keepdims=True)
    mixed = product(weights.astype(dtype).reshape(P, C, N, G * T, -1), own.values)
    mixed = mixed.reshape(P, C, N, G, T, H)
    if prefix is not None:
        weights = jnp.exp(before - top)
        total = total + weights.sum(axis=-1, keepdims=True)
        shared = product(
            weights.astype(dtype).reshape(P, C, N * G * T, -1), prefix.values
        )
        mixed = mixed + shared.reshape(P, C, N, G, T, H)
    mixed = (mixed / total).astype(dtype)
    return mixed.transpose(0, 2, 4, 1, 3, 5).reshape(P, N, T, J, H)
