"""Deals the responses of a mini-batch over all devices, in blocks of packed rows.

Responses have many lengths, and some need no backward pass. So the unit of a pass is
not a prompt with its N responses but a *block*: a prompt and R rows of one width, each
with whole responses of the prompt one after another.

1. :func:`pack_rows` packs each prompt's responses into rows, those with a signal first.
2. :func:`plan_passes` cuts the rows into blocks of one size, or on a single device of
   several, and orders these: blocks with a signal, blocks without one, nothing. A pass
   has G of them, whatever their prompts.
3. :func:`scan_passes` learns from the passes of the first kind, measures those of the
   second, and skips those of the third.
4. :func:`take` makes the batch of a pass: a row a block, in which the prompt's other
   responses have no tokens. So the loss is that of any batch.

A prompt runs once in each of its blocks. All shapes are static, and only the kinds of
the passes depend on the lengths: one program serves every step.

The letters beside those of types.py, all of which count on all devices:

    R  rows of a block; in types.py, all rows of a prompt
    W  tokens of a row
    G  blocks of a pass; in sampling/scheduled/, slots; in sharding.py, shards
    M  blocks that a prompt may have; in types.py, tokens of pictures
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Int

from passk_jax import sharding
from passk_jax.learning import packing
from passk_jax.learning.batch_loss import Batch
from passk_jax.learning.packing import Packing
from passk_jax.sharding import AnyMesh

# A pass has one _PARTS-th of the tokens that fit: the last one is partly empty. But it
# gathers the weights, which so many tokens a device hide: 459 TFLOP/s and 200 GB/s of a
# v5p are 2,295 tokens, and an H100 has the same ratio.
_PARTS = 4
_FEWEST_TOKENS = 2048


@dataclasses.dataclass(frozen=True)
class BlockSize:
    """``rows`` of a block, and ``blocks`` of a pass."""

    rows: int
    blocks: int


def choose_sizes(
    mesh: AnyMesh,
    *,
    num_prompts: int,
    num_rollouts: int,
    pass_prompts: int,
    pass_rollouts: int,
    prompt_tokens: int,
    row_tokens: int,
) -> tuple[BlockSize, ...]:
    """Chooses the sizes of blocks, on a mesh that is that of ``jax.set_mesh`` too.

    On one processor they are :func:`power_sizes`, else a single one. With few rows, a
    block runs its prompt for little; with many, the last block of a prompt is partly
    empty. The costs ``S / (R W)`` and ``R / N`` are least together at ``R = sqrt(S N /
    W)``. At full lengths, the last pass has as many blocks as the others.

    Args:
        mesh: the devices.
        num_prompts, num_rollouts: P and N of a mini-batch.
        pass_prompts, pass_rollouts: prompts of a pass, and rows of each, that fit in
            memory.
        prompt_tokens, row_tokens: S and W.
    """
    if isinstance(mesh, Mesh) and [x.platform for x in mesh.devices.flat] == ['cpu']:
        return power_sizes(min(num_rollouts, pass_prompts * pass_rollouts))
    best = math.sqrt(prompt_tokens * num_rollouts / row_tokens)
    rows = 1 << max(0, round(math.log2(max(best, 1))))
    of_rollouts, of_batch = map(sharding.mesh_shards, ('rollouts', 'batch'))
    rows = min(-(-rows // of_rollouts) * of_rollouts, pass_rollouts)
    fitting = pass_prompts * (prompt_tokens + pass_rollouts * row_tokens)
    parts = min(_PARTS, max(1, fitting // (_FEWEST_TOKENS * of_rollouts * of_batch)))
    # Of a shard. The nearest to a part: fewer blocks would be more passes.
    most = fitting / (prompt_tokens + rows * row_tokens) / of_batch
    blocks = max(1, min(round(most / parts), int(most)))
    needed = -(-num_prompts * -(-num_rollouts // rows) // of_batch)
    blocks = math.ceil(needed / math.ceil(needed / blocks))
    return (BlockSize(rows, blocks * of_batch),)


def power_sizes(most_rows: int) -> tuple[BlockSize, ...]:
    """Lists blocks of 1, 2, 4 ... rows, the largest first, one block a pass.

    A prompt's rows are a sum of them, so no block is partly empty. Each size is
    compiled. On several devices, passes of several sizes would have empty blocks.

    >>> [size.rows for size in power_sizes(12)]
    [8, 4, 2, 1]
    """
    return tuple(BlockSize(1 << k, 1) for k in reversed(range(most_rows.bit_length())))


def pack_rows(
    lengths: Int[Array, 'P N'], signal: Bool[Array, 'P N'], *, width: int
) -> Packing:
    """Packs each prompt's responses into rows, those with a signal into the first."""
    # Longest first (first-fit decreasing), and those with a signal before all others.
    order = jnp.argsort(jnp.where(signal, -width - 1, 0) - lengths, axis=-1)
    rows, offsets, _ = packing.first_fit(lengths, order, width=width)
    return Packing(rows, offsets, rows.max(axis=-1) + 1, is_dealt=True)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Passes:
    """The blocks of the passes of a mini-batch.

    Attributes:
        prompts: ``[passes, G]`` int32, the prompt of each block.
        first_rows: ``[passes, G]`` int32, its first row; no response lies in the rows
            of an empty block.
        kinds: ``[passes]`` int32, 0: nothing to do, 1: to measure, 2: to learn from.
    """

    prompts: jax.Array
    first_rows: jax.Array
    kinds: jax.Array


def plan_passes(
    rows: Packing, signal: Bool[Array, 'P N'], sizes: tuple[BlockSize, ...]
) -> tuple[Passes, ...]:
    """Cuts the rows of all prompts into blocks, and these into the passes of each size.

    The blocks of a size are ordered by what they need. Of several sizes, each prompt
    has as many of the largest as it fills, and at most one of each other.
    """
    N, needed = signal.shape[1], rows.num_rows[:, None]
    planned = []
    for i, size in enumerate(sizes):
        starts = jnp.arange(-(-N // size.rows))[None] * size.rows
        is_there = starts < needed
        if len(sizes) > 1:
            is_there = starts + size.rows <= needed
        if i:
            larger = sizes[i - 1].rows
            starts = needed // larger * larger
            is_there = starts + size.rows <= needed
        planned.append(_passes(rows, signal, size, starts, is_there))
    return tuple(planned)


def _passes(
    rows: Packing,
    signal: Bool[Array, 'P N'],
    size: BlockSize,
    starts: Int[Array, '#P M'],
    is_there: Bool[Array, 'P M'],
) -> Passes:
    """Orders blocks, given by their first rows, and cuts them into passes."""
    N, (P, most) = signal.shape[1], is_there.shape
    starts = jnp.broadcast_to(starts, is_there.shape)
    local = rows.rows[..., None] - starts[:, None]
    inside = (local >= 0) & (local < size.rows) & signal[..., None]
    kinds = jnp.where(is_there, 1 + inside.any(axis=1), 0)
    count = -(-P * most // size.blocks) * size.blocks
    pads = (0, count - P * most)
    kinds, starts = (jnp.pad(x.reshape(-1), pads) for x in (kinds, starts))
    order = jnp.argsort(-kinds)
    kinds, starts = (x[order].reshape(-1, size.blocks) for x in (kinds, starts))
    # No response lies in the rows past the last one.
    return Passes(
        prompts=jnp.where(kinds > 0, order.reshape(kinds.shape) // most, 0),
        first_rows=jnp.where(kinds > 0, starts, N),
        kinds=kinds.max(axis=1),
    )


def take(
    batch: Batch, prompts: Int[Array, 'G'], first_rows: Int[Array, 'G'], *, rows: int
) -> Batch:
    """Takes the blocks of a pass: a batch of G prompts with N responses each.

    Only responses in the block's rows have tokens. Rows count from the block's first.
    """

    def take_leaf(x: jax.Array) -> jax.Array:
        taken = jnp.take(x, prompts, axis=0)
        return sharding.shard(taken, 'batch', *(None,) * (taken.ndim - 1))

    part = jax.tree.map(take_leaf, batch)
    assert part.packing is not None  # The blocks are made of it.
    local = part.packing.rows - first_rows[:, None]
    inside = (local >= 0) & (local < rows)
    rollouts = dataclasses.replace(
        part.rollouts, lengths=jnp.where(inside, part.rollouts.lengths, 0)
    )
    places = dataclasses.replace(part.packing, rows=jnp.where(inside, local, 0))
    return dataclasses.replace(part, rollouts=rollouts, packing=places)


def scan_passes(
    batch: Batch,
    passes: Passes,
    visit: Callable[[Any, Batch, int, bool], tuple[Any, Any, Any]],
    total: Any,
    sums: Any,
    *,
    rows: int,
    learning: bool = True,
) -> tuple[tuple[Any, Any], Any]:
    """Visits the passes one after another.

    Args:
        batch: the mini-batch, packed by :func:`pack_rows`.
        passes: from :func:`plan_passes`.
        visit: takes the total, a pass's batch, its rows and whether to learn from it;
            returns the next total, figures of the pass, and arrays whose first axis is
            its blocks.
        total: the first total.
        sums: arrays whose first axis is prompts, to which those of the blocks add.
        rows: of a block.
        learning: whether to learn from any pass.

    Returns:
        The last total and sums, and the figures of all passes; 0 for a skipped one.
    """

    def one(carry: Any, at: tuple[jax.Array, ...]) -> tuple[Any, Any]:
        prompts, first_rows, kind = at

        def run(learns: bool, carry: Any) -> tuple[Any, Any]:
            total, sums = carry
            part = take(batch, prompts, first_rows, rows=rows)
            total, figures, by_block = visit(total, part, rows, learns)
            sums = jax.tree.map(lambda x, new: x.at[prompts].add(new), sums, by_block)
            return (total, sums), figures

        measure = functools.partial(run, False)
        _, figures = jax.eval_shape(measure, carry)
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), figures)
        branches = [lambda carry: (carry, nothing), measure]
        if learning:
            branches.append(functools.partial(run, True))
        # Without learning, the last branch serves both kinds.
        return jax.lax.switch(kind, branches, carry)

    places = passes.prompts, passes.first_rows, passes.kinds
    return jax.lax.scan(one, (total, sums), places)
