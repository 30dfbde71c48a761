"""Packs each prompt's responses into fewer rows: the learner computes fewer pads.

A batch is as wide as its longest response, so most of it may be padding. Packing puts
short responses of a prompt one after another into rows of that width. ``[P, N, T]``
becomes ``[P, R, T]`` with R < N, and each prompt still runs once:

1. :func:`pack` assigns a row and an offset to each response.
2. :func:`row_counts` lists the few R to compile. :func:`switch_on_rows` runs the
   smallest that holds a micro-batch, in one program with ``lax.switch``.
3. :func:`apply_in_rows` moves tokens into rows, and results back to ``[P, N, T]``.
4. :func:`cut` makes micro-batches of prompts that need similar numbers of rows.

Everything runs inside jit with static shapes. On a mesh, each device packs its own
rollouts and sorts its own prompts; all take the branch that the fullest device needs.
The policy's attention uses where each response starts.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax import sharding

Rows = TypeVar('Rows')
"""A tree of arrays ``[P, R, T]``, returned as ``[P, N, T]``."""


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=('rows', 'offsets', 'num_rows'),
    meta_fields=('is_dealt',),
)
@dataclasses.dataclass(frozen=True)
class Packing:
    """The place of each response.

    Attributes:
        rows: ``[P, N]`` int32, its row, counted on the device that has the rollout.
        offsets: ``[P, N]`` int32, the place of its first token in the row.
        num_rows: ``[P]`` int32, the most rows that the prompt needs on any device.
        is_dealt: whether a prompt's rows count over all devices (blocks.py).
    """

    rows: jax.Array
    offsets: jax.Array
    num_rows: jax.Array
    is_dealt: bool = False

    @property
    def shards(self) -> int:
        """The parts of the rollouts that are packed on their own."""
        N = self.rows.shape[1]
        return 1 if self.is_dealt else sharding.num_shards('rollouts', N)


def pack(lengths: Int[Array, 'P N'], *, width: int) -> Packing:
    """Packs each prompt's responses, longest first, each into the first row with room.

    First-fit decreasing needs at most 11/9 of the fewest possible rows plus one (D. S.
    Johnson, 1973), and hardly more than the fewest if few responses are long.

    Args:
        lengths: tokens of the responses, at most ``width``.
        width: tokens in a row.
    """
    P, N = lengths.shape
    shards = sharding.num_shards('rollouts', N)
    lengths = lengths.reshape(P, shards, N // shards)
    rows, offsets, filled = first_fit(lengths, jnp.argsort(-lengths), width=width)
    num_rows = (filled > 0).sum(axis=-1, dtype=jnp.int32).max(axis=-1)
    return Packing(rows.reshape(P, N), offsets.reshape(P, N), num_rows)


def first_fit(
    lengths: Int[Array, '*P N'], order: Int[Array, '*P N'], *, width: int
) -> tuple[Int[Array, '*P N'], Int[Array, '*P N'], Int[Array, '*P N']]:
    """Puts responses one after another, in this order, into the first row with room.

    Returns:
        The row and the offset of each response, and the tokens in each row.
    """
    ordered = jnp.take_along_axis(lengths, order, axis=-1)

    def place(filled: jax.Array, length: jax.Array) -> tuple[jax.Array, Any]:
        """Puts a response into the first row with room; some row is always empty."""
        row = jnp.argmax(filled + length[..., None] <= width, axis=-1)
        here = jnp.arange(filled.shape[-1]) == row[..., None]
        offset = jnp.where(here, filled, 0).sum(axis=-1)
        return filled + here * length[..., None], (row, offset)

    empty = jnp.zeros_like(lengths)
    filled, places = jax.lax.scan(place, empty, jnp.moveaxis(ordered, -1, 0))
    back = jnp.argsort(order, axis=-1)
    rows, offsets = (
        jnp.take_along_axis(jnp.moveaxis(x, 0, -1), back, axis=-1).astype(jnp.int32)
        for x in places
    )
    return rows, offsets, filled


def row_counts(num_rollouts: int, *, sizes: int) -> tuple[int, ...]:
    """Lists at most ``sizes`` numbers of rows to compile, spaced geometrically.

    The largest is one row per rollout, which always suffices. Each is about half of the
    next or more, because a batch that just misses a size has to use the next. The
    smallest is about an eighth of the largest or more, which already saves seven
    eighths of the work. If ``sizes >= num_rollouts``, all numbers are listed.

    >>> row_counts(32, sizes=6)
    (4, 6, 9, 14, 21, 32)
    >>> row_counts(32, sizes=2)
    (16, 32)
    """
    if sizes >= num_rollouts:
        return tuple(range(1, num_rollouts + 1))
    smallest = num_rollouts / min(8, 2 ** (sizes - 1))
    counts = np.geomspace(num_rollouts, max(1, smallest), sizes)
    return tuple(sorted({round(float(count)) for count in counts}))


def switch_on_rows(
    fn: Callable[[int | None], Any], packing: Packing | None, *, sizes: int
) -> Any:
    """Calls ``fn`` with the smallest compiled number of rows that holds these prompts.

    Differentiate inside ``fn``: the gradient of a switch would store what the backward
    passes of all branches need.

    Args:
        fn: takes the static number of rows per device; ``None``: one row per response.
        packing: where the responses lie; ``None``: one row per response.
        sizes: as in :func:`row_counts`.
    """
    if packing is None:
        return fn(None)
    num_rollouts = sharding.local_size('rollouts', packing.rows.shape[1])
    counts = row_counts(num_rollouts, sizes=sizes)
    branches = [functools.partial(fn, rows) for rows in (*counts[:-1], None)]
    index = jnp.searchsorted(jnp.array(counts), packing.num_rows.max())
    return jax.lax.switch(index, branches)


def num_positions(
    tokens: Int[Array, 'P N T'], packing: Packing | None, rows: int | None
) -> int:
    """Counts the positions computed for these responses, including pads."""
    P, N, T = tokens.shape
    packed = rows is not None and packing is not None
    return P * T * (packing.shards * rows if packed else N)


def apply_in_rows(
    fn: Callable[[jax.Array, jax.Array | None, jax.Array | None], Rows],
    arrays: tuple[Int[Array, 'P N T'], Int[Array, 'P N T L k'] | None],
    lengths: Int[Array, 'P N'],
    packing: Packing | None,
    *,
    rows: int | None,
) -> Rows:
    """Applies ``fn`` to the response tokens, packed into rows or not.

    Args:
        fn: takes tokens ``[P, R, T]``, the place where each token's response starts
            (``None``: 0) and the routing; returns a tree of arrays of the tokens'
            shape, with or without more axes.
        arrays: tokens and routing of the responses.
        lengths: lengths of the responses.
        packing: where the responses lie in the rows; ``None``: do not pack.
        rows: rows per device, from :func:`switch_on_rows`; ``None``: do not pack.

    Returns:
        The results at the tokens' original places; if packed, 0 at pads.
    """
    tokens, routing = arrays
    if rows is None or packing is None:
        return fn(tokens, None, routing)
    N, T = tokens.shape[1:]
    slots = token_slots(lengths, packing, width=T, rows=rows)
    if routing is not None:
        empty = jnp.zeros((rows * T, *routing.shape[3:]), routing.dtype)
        routing = _move(routing, slots, empty)
    starts = jnp.broadcast_to(packing.offsets[..., None], tokens.shape)
    # A pad is token 0 in a response of its own, so no other token attends to it.
    pads = jnp.tile(jnp.arange(T, dtype=jnp.int32), rows)
    tokens = _move(tokens, slots, jnp.zeros_like(pads))
    results = fn(tokens, _move(starts, slots, pads), routing)
    return jax.tree.map(lambda x: unpack(x, slots, num_rollouts=N), results)


def _move(
    values: Int[Array, 'P N T ...'],
    slots: Int[Array, 'P shards slots'],
    empty: Int[Array, 'rows_T ...'],
) -> Int[Array, 'P R T ...']:
    """Moves values to slots of rows; the others have the values of ``empty``."""
    P, _, T, *more = values.shape
    shards = slots.shape[1]

    @functools.partial(jax.vmap, in_axes=(0, 0, None))
    @functools.partial(jax.vmap, in_axes=(0, 0, None))
    def scatter(slots: jax.Array, values: jax.Array, empty: jax.Array) -> jax.Array:
        return empty.at[slots].set(values, mode='drop', unique_indices=True)

    moved = scatter(slots, values.reshape(P, shards, -1, *more), empty)
    moved = moved.reshape(P, shards * len(empty) // T, T, *more)
    return sharding.shard(moved, 'batch', 'rollouts', None, *(None for _ in more))


def unpack(
    values: Float[Array, 'P R T ...'],
    slots: Int[Array, 'P shards slots'],
    *,
    num_rollouts: int,
) -> Float[Array, 'P N T ...']:
    """Moves values back from the slots of their tokens; the result is 0 at pads."""
    (P, shards, _), (T, *more) = slots.shape, values.shape[2:]
    slots = slots.reshape(*slots.shape, *(1 for _ in more))
    values = values.reshape(P, shards, -1, *more)
    unpacked = jnp.take_along_axis(values, slots, axis=2, mode='fill', fill_value=0)
    unpacked = unpacked.reshape(P, num_rollouts, T, *more)
    return sharding.shard(unpacked, 'batch', 'rollouts', None, *(None for _ in more))


def token_slots(
    lengths: Int[Array, 'P N'], packing: Packing, *, width: int, rows: int
) -> Int[Array, 'P shards slots']:
    """Assigns each token a slot on its device, and each pad a slot past the end."""
    P, N = lengths.shape
    shards = packing.shards
    steps = jnp.arange(width)
    first = packing.rows * width + packing.offsets
    past = rows * width + jnp.arange(N // shards * width).reshape(-1, width)
    past = jnp.broadcast_to(jnp.tile(past, (shards, 1)), (P, N, width))
    slots = jnp.where(steps < lengths[..., None], first[..., None] + steps, past)
    return slots.reshape(P, shards, -1)


def cut(
    tree: Any, packing: Packing | None, *, parts: int
) -> tuple[Any, Callable[[Any], Any]]:
    """Groups prompts that need similar numbers of rows into parts.

    Args:
        tree: leaves whose first axis is the prompts; may include the packing.
        packing: packing of the responses; ``None`` keeps the order of the prompts.
        parts: the number of parts, as in :func:`interleave`.

    Returns:
        The parts, and a function that joins results of the parts in the old order.
    """
    if packing is None:
        return interleave(tree, parts), deinterleave
    order = order_by_size(packing.num_rows, parts=parts)
    back = jnp.argsort(order, axis=1)

    def join(results: Any) -> Any:
        return reorder(deinterleave(results), back)

    return interleave(reorder(tree, order), parts), join


def order_by_size(
    num_rows: Int[Array, 'P'], *, parts: int
) -> Int[Array, 'devices prompts']:
    """Orders prompts so that :func:`interleave` groups those of similar ``num_rows``.

    The order, for :func:`reorder`, leaves prompts on their devices.
    """
    P = len(num_rows)
    shards = sharding.num_shards('batch', P // parts)
    order = jnp.argsort(num_rows.reshape(shards, P // shards), axis=1)
    order = order.reshape(shards, parts, -1).swapaxes(1, 2)
    return order.reshape(shards, P // shards)


def reorder(tree: Any, order: Int[Array, 'devices prompts']) -> Any:
    """Reorders the prompts of every leaf; ``argsort(order, axis=1)`` undoes it."""

    def move(x: jax.Array) -> jax.Array:
        parts = x.reshape(*order.shape, *x.shape[1:])
        places = order.reshape(*order.shape, *(1,) * (x.ndim - 1))
        return jnp.take_along_axis(parts, places, axis=1).reshape(x.shape)

    return jax.tree.map(move, tree)


def interleave(tree: Any, parts: int) -> Any:
    """Reshapes to ``[parts, P / parts, ...]``; part i gets prompts i, i + parts, ..."""
    return jax.tree.map(
        lambda x: x.reshape(-1, parts, *x.shape[1:]).swapaxes(0, 1), tree
    )


def deinterleave(tree: Any) -> Any:
    """Undoes :func:`interleave`."""
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), tree)
