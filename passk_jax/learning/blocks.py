"""Distributes the responses of a mini-batch over all devices, in blocks of packed rows.

Responses differ in length, and some need no backward pass. So the unit of a pass is not
a prompt with its N responses but a *block*: a prompt and R rows of one width. Each row
has whole responses of the prompt, one after another.

1. :func:`pack_rows` packs each prompt's responses into rows, those with a signal first.
2. :func:`plan_passes` cuts the rows into blocks, of one size or, on one CPU device, of
   several. It sorts the blocks: first those with a signal, then those without, then
   empty ones. A pass has G consecutive blocks, of any prompts.
3. :func:`scan_passes` learns from passes with a signal, only measures passes without
   one, and skips empty passes.
4. :func:`take` makes the batch of a pass. Its rows are the blocks' prompts; responses
   outside a block have no tokens there. So the loss treats it like any batch.

A prompt runs once in each of its blocks. All shapes are static. Only the kinds of the
passes depend on the lengths, so one program serves every step.

These letters add to those of types.py, and count over all devices:

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
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Int

from passk_jax import sharding
from passk_jax.learning import packing
from passk_jax.learning.batch_loss import Batch
from passk_jax.learning.packing import Packing
from passk_jax.sharding import AnyMesh

# A pass has one _PARTS-th of the tokens that fit in memory, because the last pass is
# partly empty. But every pass gathers the weights, and only this many tokens per device
# hide that: 459 TFLOP/s and 200 GB/s of a v5p make 2,295, and an H100 has this ratio.
_PARTS = 4
_FEWEST_TOKENS = 2048
# What a CPU does once in a pass, such as adding up gradients, takes as long as about
# this many tokens (SmolLM2-135M). Between 32 and 128, the chosen blocks cost the same
# within 1.3 %.
_PASS_TOKENS = 64
# The largest block whose rows may be three times a power of two. Each size is compiled.
_LARGEST_TRIPLE = 16


@dataclasses.dataclass(frozen=True)
class BlockSize:
    """``rows`` per block, and ``blocks`` per pass.

    ``cost`` is the work of a block, to choose among several sizes, in tokens.
    """

    rows: int
    blocks: int
    cost: int = 1


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
    """Chooses the sizes of blocks.

    On one CPU device, these are :func:`several_sizes`; elsewhere there is one size. If
    a block has few rows, it runs its prompt for little; if it has many, the last block
    of a prompt is partly empty. The sum of these costs, ``S / (R W)`` and ``R / N``, is
    least at ``R = sqrt(S N / W)``. At full lengths, passes have equally many blocks.

    Args:
        mesh: the devices; also the mesh of ``jax.set_mesh``.
        num_prompts, num_rollouts: P and N of a mini-batch.
        pass_prompts, pass_rollouts: prompts per pass, and rollouts per prompt, that fit
            in memory.
        prompt_tokens, row_tokens: S and W.
    """
    if isinstance(mesh, Mesh) and [x.platform for x in mesh.devices.flat] == ['cpu']:
        most_rows = min(num_rollouts, pass_prompts * pass_rollouts)
        return several_sizes(
            most_rows, prompt_tokens=prompt_tokens, row_tokens=row_tokens
        )
    best = math.sqrt(prompt_tokens * num_rollouts / row_tokens)
    rows = 1 << max(0, round(math.log2(max(best, 1))))
    of_rollouts, of_batch = map(sharding.mesh_shards, ('rollouts', 'batch'))
    rows = min(-(-rows // of_rollouts) * of_rollouts, pass_rollouts)
    fitting = pass_prompts * (prompt_tokens + pass_rollouts * row_tokens)
    parts = min(_PARTS, max(1, fitting // (_FEWEST_TOKENS * of_rollouts * of_batch)))
    # Count blocks per shard. Round to the nearest: fewer blocks would mean more passes.
    most = fitting / (prompt_tokens + rows * row_tokens) / of_batch
    blocks = max(1, min(round(most / parts), int(most)))
    needed = -(-num_prompts * -(-num_rollouts // rows) // of_batch)
    blocks = math.ceil(needed / math.ceil(needed / blocks))
    return (BlockSize(rows, blocks * of_batch),)


def several_sizes(
    most_rows: int, *, prompt_tokens: int, row_tokens: int
) -> tuple[BlockSize, ...]:
    """Lists the sizes of blocks on one CPU device, largest first, one block per pass.

    They have 2^k rows, 3 * 2^k if that is neither 3 nor large, and ``most_rows``. Small
    blocks run a prompt often, and large ones have empty rows. On several devices,
    passes of several sizes would have empty blocks.

    >>> [x.rows for x in several_sizes(10, prompt_tokens=100, row_tokens=64)]
    [10, 8, 6, 4, 2, 1]
    """
    powers = [1 << k for k in range(most_rows.bit_length())]
    triples = [n for x in powers[1:] if (n := 3 * x) <= min(most_rows, _LARGEST_TRIPLE)]
    of_pass = prompt_tokens + _PASS_TOKENS
    return tuple(
        BlockSize(rows, 1, of_pass + rows * row_tokens)
        for rows in sorted({*powers, *triples, most_rows}, reverse=True)
    )


def count_blocks(sizes: tuple[BlockSize, ...], num_rows: int) -> np.ndarray:
    """Counts the blocks of each size that have room for some rows, at the lowest cost.

    Args:
        sizes: the sizes, the largest first.
        num_rows: the most rows.

    Returns:
        ``[num_rows + 1, sizes]`` int32, for each number of rows from 0 on.
    """
    counts = np.zeros((num_rows + 1, len(sizes)), np.int32)
    costs = [0]
    for rows in range(1, num_rows + 1):
        remaining = [max(0, rows - size.rows) for size in sizes]
        of_sizes = [
            costs[n] + size.cost for n, size in zip(remaining, sizes, strict=True)
        ]
        best = int(np.argmin(of_sizes))
        costs.append(of_sizes[best])
        counts[rows] = counts[remaining[best]]
        counts[rows, best] += 1
    return counts


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
        first_rows: ``[passes, G]`` int32, its first row; for an empty block, a row past
            all responses.
        kinds: ``[passes]`` int32, 0: skip, 1: measure, 2: learn.
    """

    prompts: jax.Array
    first_rows: jax.Array
    kinds: jax.Array


def plan_passes(
    rows: Packing, signal: Bool[Array, 'P N'], sizes: tuple[BlockSize, ...]
) -> tuple[Passes, ...]:
    """Cuts the rows of all prompts into blocks, and blocks of one size into passes.

    A prompt's rows with a signal, which come first, and then its other rows are cut
    into the blocks of :func:`count_blocks`. The blocks of a size are sorted by kind.
    """
    N = signal.shape[1]
    counts = count_blocks(sizes, N)
    of_sizes = counts * np.array([size.rows for size in sizes])
    firsts, room = np.cumsum(of_sizes, axis=1) - of_sizes, of_sizes.sum(axis=1)
    num_learned = jnp.where(signal, rows.rows + 1, 0).max(axis=1)
    covered = jnp.asarray(room)[num_learned]
    num_measured = jnp.maximum(rows.num_rows - covered, 0)
    planned = []
    for i, size in enumerate(sizes):
        count, first = jnp.asarray(counts[:, i]), jnp.asarray(firsts[:, i])
        # The most blocks of this size that a prompt may have, M.
        most = max(
            counts[n, i] + counts[: max(0, N - room[n]) + 1, i].max()
            for n in range(N + 1)
        )
        block = jnp.arange(most)
        learned, measured = count[num_learned, None], count[num_measured, None]
        starts = jnp.where(
            block < learned,
            first[num_learned, None] + block * size.rows,
            (covered + first[num_measured])[:, None] + (block - learned) * size.rows,
        )
        is_there = block < learned + measured
        planned.append(_passes(rows, signal, size, starts, is_there))
    return tuple(planned)


def _passes(
    rows: Packing,
    signal: Bool[Array, 'P N'],
    size: BlockSize,
    starts: Int[Array, 'P M'],
    is_there: Bool[Array, 'P M'],
) -> Passes:
    """Sorts blocks, given by their first rows, and cuts them into passes."""
    N, (P, most) = signal.shape[1], is_there.shape
    local = rows.rows[..., None] - starts[:, None]
    inside = (local >= 0) & (local < size.rows) & signal[..., None]
    kinds = jnp.where(is_there, 1 + inside.any(axis=1), 0)
    count = -(-P * most // size.blocks) * size.blocks
    pads = (0, count - P * most)
    kinds, starts = (jnp.pad(x.reshape(-1), pads) for x in (kinds, starts))
    order = jnp.argsort(-kinds)
    kinds, starts = (x[order].reshape(-1, size.blocks) for x in (kinds, starts))
    # Row N is past all responses.
    return Passes(
        prompts=jnp.where(kinds > 0, order.reshape(kinds.shape) // most, 0),
        first_rows=jnp.where(kinds > 0, starts, N),
        kinds=kinds.max(axis=1),
    )


def take(
    batch: Batch, prompts: Int[Array, 'G'], first_rows: Int[Array, 'G'], *, rows: int
) -> Batch:
    """Makes the batch of a pass: G prompts with N responses each.

    Only responses in a block's rows have tokens. Rows count from the block's first row.
    """

    def take_leaf(x: jax.Array) -> jax.Array:
        part = jnp.take(x, prompts, axis=0)
        return sharding.shard(part, 'batch', *(None,) * (part.ndim - 1))

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
        sums: arrays whose first axis is prompts; the blocks' arrays are added to them.
        rows: rows per block.
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
