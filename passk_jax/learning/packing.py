"""Responses of one prompt packed into fewer rows, so that the learner runs few pads.

Responses have a long tail: a batch as wide as its longest is mostly padding. Here the
short responses of a prompt lie one behind the other in rows as wide as the longest may
be, ``[P, N, T]`` becoming ``[P, R, T]`` with R < N, and every prompt is still run once:

1. :func:`pack` finds a row and an offset for each response;
2. :func:`row_counts` are the few R that are compiled, and :func:`for_rows` runs the
   smallest that holds a micro-batch (one program, ``lax.switch``);
3. :func:`in_rows` moves the tokens there and the results back, so that whoever uses
   them sees ``[P, N, T]`` and never knows;
4. :func:`cut` makes micro-batches of prompts that need alike many rows.

Everything is inside jit and of static shape. On a mesh a device packs the rollouts and
sorts the prompts that it has; all devices take the branch of the one that needs most
rows. What a token attends to is the policy's business (``starts``).
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax import sharding


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Packing:
    """Where each response lies.

    Attributes:
        rows: ``[P, N]`` int32, among the rows of the device that has the rollout.
        offsets: ``[P, N]`` int32, of its first token in the row.
        num_rows: ``[P]`` int32, rows of a device that the prompt needs.
    """

    rows: jax.Array
    offsets: jax.Array
    num_rows: jax.Array


def pack(lengths: Int[Array, 'P N'], *, width: int) -> Packing:
    """Packs each prompt's responses into rows: the longest first, where it first fits.

    First-fit decreasing needs at most 11/9 of the fewest possible rows and one more
    (D. S. Johnson, 1973); on long tails hardly more than the fewest.

    Args:
        lengths: of the responses, at most ``width``.
        width: of a row.
    """
    P, N = lengths.shape
    shards = sharding.num_shards('rollouts', N)
    lengths = lengths.reshape(P, shards, N // shards)
    order = jnp.argsort(-lengths, axis=-1)
    ordered = jnp.take_along_axis(lengths, order, axis=-1)

    def place(filled: jax.Array, length: jax.Array) -> tuple[jax.Array, Any]:
        """Into the first row with room; an empty one is always left."""
        row = jnp.argmax(filled + length[..., None] <= width, axis=-1)
        here = jnp.arange(filled.shape[-1]) == row[..., None]
        offset = jnp.where(here, filled, 0).sum(axis=-1)
        return filled + here * length[..., None], (row, offset)

    empty = jnp.zeros_like(lengths)
    filled, found = jax.lax.scan(place, empty, jnp.moveaxis(ordered, -1, 0))
    back = jnp.argsort(order, axis=-1)
    rows, offsets = (
        jnp.take_along_axis(jnp.moveaxis(x, 0, -1), back, axis=-1).reshape(P, N)
        for x in found
    )
    num_rows = (filled > 0).sum(axis=-1).max(axis=-1)
    return Packing(
        rows.astype(jnp.int32), offsets.astype(jnp.int32), num_rows.astype(jnp.int32)
    )


def row_counts(num_rollouts: int, *, sizes: int) -> tuple[int, ...]:
    """At most ``sizes`` numbers of rows, each about as many times the one before.

    The last is the number of rollouts, a response a row, which holds whatever comes.
    The first is an eighth of it: where it is still too many, seven eighths are saved.

    >>> row_counts(32, sizes=6)
    (4, 6, 9, 14, 21, 32)
    """
    if sizes >= num_rollouts:
        return tuple(range(1, num_rollouts + 1))
    counts = np.geomspace(num_rollouts, max(1, num_rollouts / 8), sizes)
    return tuple(sorted({round(float(count)) for count in counts}))


def for_rows(
    fn: Callable[[int | None], Any], packing: Packing | None, *, sizes: int
) -> Any:
    """``fn(rows)`` with the fewest rows that are compiled and hold these prompts.

    Differentiate inside ``fn``: the gradient of a switch keeps what the backward pass
    of every branch would need.

    Args:
        fn: of the rows a device has, static; ``None``: a response a row.
        packing: where the responses of these prompts lie; ``None``: a response a row.
        sizes: as in :func:`row_counts`.
    """
    if packing is None:
        return fn(None)
    N = packing.rows.shape[1]
    shards = sharding.num_shards('rollouts', N)
    counts = row_counts(N // shards, sizes=sizes)
    branches = [functools.partial(fn, rows) for rows in counts[:-1]]
    branches.append(functools.partial(fn, None))
    needed = packing.num_rows.max()
    index = jnp.searchsorted(jnp.array(counts), needed)
    return jax.lax.switch(index, branches)


def num_positions(tokens: Int[Array, 'P N T'], rows: int | None) -> int:
    """Positions that are computed for these responses, pads included."""
    P, N, T = tokens.shape
    num_rows = N if rows is None else sharding.num_shards('rollouts', N) * rows
    return P * num_rows * T


def in_rows(
    fn: Callable[[jax.Array, jax.Array | None], tuple[jax.Array, ...]],
    tokens: Int[Array, 'P N T'],
    lengths: Int[Array, 'P N'],
    packing: Packing | None,
    *,
    rows: int | None,
) -> tuple[Float[Array, 'P N T'], ...]:
    """What ``fn`` makes of each response token, in rows or with a row a response.

    Args:
        fn: of tokens ``[P, R, T]`` and where the response of each starts (``None``: at
            0); what it returns is as large as the tokens.
        tokens: of the responses.
        lengths: of the responses.
        packing: where they lie in the rows.
        rows: that a device has, from :func:`for_rows`; ``None``: a response a row.

    Returns:
        The results in the places of the tokens; 0 at pads if they were packed.
    """
    if rows is None:
        return fn(tokens, None)
    found = fn(*pack_tokens(tokens, lengths, packing, rows=rows))
    return tuple(unpack(x, lengths, packing, rows=rows) for x in found)


def pack_tokens(
    tokens: Int[Array, 'P N T'],
    lengths: Int[Array, 'P N'],
    packing: Packing,
    *,
    rows: int,
) -> tuple[Int[Array, 'P R T'], Int[Array, 'P R T']]:
    """The tokens in their rows, pads 0, and where each token's response starts.

    A pad is a response of its own, so that it is in the way of nobody.
    """
    P, N, T = tokens.shape
    shards = sharding.num_shards('rollouts', N)
    slots = _slots(lengths, packing, width=T, rows=rows)

    @functools.partial(jax.vmap, in_axes=(0, 0, None))
    @functools.partial(jax.vmap, in_axes=(0, 0, None))
    def scatter(slots: jax.Array, values: jax.Array, empty: jax.Array) -> jax.Array:
        return empty.at[slots].set(values, mode='drop', unique_indices=True)

    starts = jnp.broadcast_to(packing.offsets[..., None], tokens.shape)
    pads = jnp.tile(jnp.arange(T, dtype=jnp.int32), rows)

    def move(values: jax.Array, empty: jax.Array) -> jax.Array:
        moved = scatter(slots, values.reshape(P, shards, -1), empty)
        moved = moved.reshape(P, shards * rows, T)
        return sharding.shard(moved, 'batch', 'rollouts', None)

    return move(tokens, jnp.zeros_like(pads)), move(starts, pads)


def unpack(
    values: Float[Array, 'P R T'],
    lengths: Int[Array, 'P N'],
    packing: Packing,
    *,
    rows: int,
) -> Float[Array, 'P N T']:
    """What :func:`pack_tokens` packed, in its own place again; 0 at pads."""
    (P, N), T = lengths.shape, values.shape[-1]
    shards = sharding.num_shards('rollouts', N)
    slots = _slots(lengths, packing, width=T, rows=rows)
    found = jnp.take_along_axis(
        values.reshape(P, shards, -1), slots, axis=-1, mode='fill', fill_value=0
    )
    return sharding.shard(found.reshape(P, N, T), 'batch', 'rollouts', None)


def _slots(
    lengths: Int[Array, 'P N'], packing: Packing, *, width: int, rows: int
) -> Int[Array, 'P shards slots']:
    """Slot of each token among its device's, by shard; of a pad: one past them all.

    Pads differ from each other: every slot is written, and added to, once at most.
    """
    P, N = lengths.shape
    shards = sharding.num_shards('rollouts', N)
    steps = jnp.arange(width)
    first = packing.rows * width + packing.offsets
    past = rows * width + jnp.arange(N // shards * width).reshape(-1, width)
    past = jnp.broadcast_to(jnp.tile(past, (shards, 1)), (P, N, width))
    slots = jnp.where(steps < lengths[..., None], first[..., None] + steps, past)
    return slots.reshape(P, shards, -1)


def cut(
    tree: Any, packing: Packing | None, *, parts: int
) -> tuple[Any, Callable[[Any], Any]]:
    """Cuts prompts up into parts, those that need alike many rows into one.

    Args:
        tree: leaves with the prompts in front; the packing may be one of them.
        packing: of the responses; ``None``: the prompts stay in their order.
        parts: as in :func:`interleave`.

    Returns:
        The parts, and what joins results that were made of them in the same way.
    """
    if packing is None:
        return interleave(tree, parts), deinterleave
    order = by_size(packing.num_rows, parts=parts)
    back = jnp.argsort(order, axis=1)

    def join(results: Any) -> Any:
        return reorder(deinterleave(results), back)

    return interleave(reorder(tree, order), parts), join


def by_size(num_rows: Int[Array, 'P'], *, parts: int) -> Int[Array, 'devices prompts']:
    """The order that gives every one of ``parts`` parts prompts of like size.

    Args:
        num_rows: of each prompt.
        parts: as in :func:`interleave`, which is to cut the reordered prompts.

    Returns:
        For :func:`reorder`; prompts stay on the device that has them.
    """
    P = len(num_rows)
    shards = sharding.num_shards('batch', P // parts)
    order = jnp.argsort(num_rows.reshape(shards, P // shards), axis=1)
    order = order.reshape(shards, parts, -1).swapaxes(1, 2)
    return order.reshape(shards, P // shards)


def reorder(tree: Any, order: Int[Array, 'devices prompts']) -> Any:
    """The prompts of every leaf in this order; ``argsort(order, axis=1)`` undoes it."""

    def move(x: jax.Array) -> jax.Array:
        parts = x.reshape(*order.shape, *x.shape[1:])
        places = order.reshape(*order.shape, *(1,) * (x.ndim - 1))
        return jnp.take_along_axis(parts, places, axis=1).reshape(x.shape)

    return jax.tree.map(move, tree)


def interleave(tree: Any, parts: int) -> Any:
    """``[P, ...] -> [parts, P / parts, ...]``; part i takes rows i, i + parts, ..."""
    return jax.tree.map(
        lambda x: x.reshape(-1, parts, *x.shape[1:]).swapaxes(0, 1), tree
    )


def deinterleave(tree: Any) -> Any:
    """The inverse of :func:`interleave`."""
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), tree)
