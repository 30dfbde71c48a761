"""The distribution that each token is drawn from, and the draw itself.

The options apply in Hugging Face's order: temperature; top-k; top-p on the tokens that
top-k kept, renormalised; min-p. All values are float32. A token whose logit is ``-inf``
is never drawn; finite logits give finite values.

Where a mesh splits the vocabulary, no logits cross devices; see vocabulary_rows.py.
"""

import dataclasses
import functools

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from passk_jax import sharding
from passk_jax.config import SamplingOptions
from passk_jax.config.ranges import check_fields
from passk_jax.sampling.vocabulary_rows import Rows, rows_on_mesh


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedOptions:
    """``SamplingOptions`` as traced scalars: a new value recompiles nothing."""

    temperature: jax.Array | np.float32
    top_p: jax.Array | np.float32
    top_k: jax.Array | np.int32
    min_p: jax.Array | np.float32


def traced_options(options: SamplingOptions, *, vocab_size: int) -> TracedOptions:
    """Converts the options to the scalars that :func:`choose` takes.

    Raises:
        ValueError: an option is out of range.
    """
    check_fields(options)
    return TracedOptions(
        temperature=np.float32(options.temperature),
        top_p=np.float32(options.top_p),
        top_k=np.int32(min(options.top_k, vocab_size)),
        min_p=np.float32(options.min_p),
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Choice:
    """The token chosen in each row, with the fields of ``Rollouts``."""

    tokens: jax.Array
    sampler_log_probs: jax.Array
    untruncated_log_probs: jax.Array
    entropies: jax.Array


def choose(
    logits: Float[Array, '*B V'],
    uniforms: Float[Array, '*B 2'],
    options: TracedOptions,
    *,
    greedy: bool,
    truncate: bool,
) -> Choice:
    """Chooses the next token of each row.

    A greedy choice is a draw from a point mass, so its sampler log-probability is 0.
    Its untruncated log-probability and its entropy are those at temperature 1.

    Args:
        logits: float32; finite, or ``-inf`` for ids that are not tokens. Under
            ``jax.set_mesh``, devices split the rows by ``'batch'`` and ``'rollouts'``,
            and each row by ``'vocab'`` if each device gets whole blocks.
        uniforms: independent, in [0, 1).
        options: from :func:`traced_options`.
        greedy: whether to take the most probable token; ties go to the lowest id
            (static).
        truncate: whether to apply top-k, top-p and min-p (static).
    """
    rows = rows_on_mesh(logits.shape[-1])
    names = ('batch', 'rollouts')[: logits.ndim - 1]
    of_logits = sharding.spec_of((*names, 'vocab' if rows.axes else None), logits.shape)
    of_uniforms = sharding.spec_of((*names, None), uniforms.shape)
    on_device = functools.partial(_choose, rows=rows, greedy=greedy, truncate=truncate)
    return sharding.on_devices(
        on_device,
        (of_logits, of_uniforms, PartitionSpec()),
        sharding.spec_of(names, logits.shape[:-1]),
    )(logits, uniforms, options)


def _choose(
    logits: Float[Array, '*B v'],
    uniforms: Float[Array, '*B 2'],
    options: TracedOptions,
    *,
    rows: Rows,
    greedy: bool,
    truncate: bool,
) -> Choice:
    """Chooses tokens on one device, which may have only a part of each row."""
    # Subtract the maximum before dividing: a small temperature would overflow.
    scores = logits - rows.max(logits)[..., None]
    if not greedy:
        scores = scores / options.temperature
    weights = jnp.exp(scores)
    # A score may be -inf where the weight is 0; their product would be NaN.
    mean_score = rows.sum(jnp.where(weights > 0, weights * scores, 0))
    weights = rows.split(weights, pad=0)
    sums = rows.block_sums(weights)
    total = rows.row_sum(sums)
    if greedy:
        tokens = rows.first_marked(scores == 0)
        score = sampler_log_probs = jnp.zeros_like(total)
    else:
        if truncate:
            allowed = mark_allowed(rows.split(scores, pad=-jnp.inf), options, rows)
            weights = jnp.where(allowed, weights, 0)
            sums = rows.block_sums(weights)
        tokens = draw(weights, sums, uniforms, rows)
        score = rows.at(scores, tokens)
        sampler_log_probs = score - jnp.log(rows.row_sum(sums))
    return Choice(
        tokens=tokens.astype(jnp.int32),
        sampler_log_probs=sampler_log_probs,
        untruncated_log_probs=score - jnp.log(total),
        entropies=jnp.log(total) - mean_score / total,
    )


def mark_allowed(
    scores: Float[Array, '*B c L'], options: TracedOptions, rows: Rows
) -> Bool[Array, '*B c L']:
    """Marks the tokens that top-k, top-p and min-p keep.

    Among equally probable tokens, top-k and top-p take the lower ids first. Top-p keeps
    the fewest most probable tokens that have at least ``top_p`` of the probability that
    top-k left. Min-p compares each token with the most probable one.
    All three keep the most probable token. Scores are log-probabilities, shifted so
    that each row's maximum is 0.
    """

    def keep_top_k(allowed: jax.Array) -> jax.Array:
        count = options.top_k.astype(jnp.float32)
        return _keep_below(scores, allowed.astype(jnp.float32), rows, limit=count)

    def keep_top_p(allowed: jax.Array) -> jax.Array:
        weights = jnp.where(allowed, jnp.exp(scores), 0)
        enough = options.top_p * rows.row_sum(rows.block_sums(weights))
        return allowed & _keep_below(scores, weights, rows, limit=enough)

    # A filter that is off costs nothing, and rounding cannot make it drop a token.
    allowed = jnp.ones_like(scores, bool)
    allowed = jax.lax.cond(options.top_k > 0, keep_top_k, lambda x: x, allowed)
    allowed = jax.lax.cond(options.top_p < 1, keep_top_p, lambda x: x, allowed)
    # The maximum score is 0, so exp(score) is the ratio to the most probable token.
    return allowed & (jnp.exp(scores) >= options.min_p)


def _keep_below(
    scores: Float[Array, '*B c L'],
    amounts: Float[Array, '*B c L'],
    rows: Rows,
    *,
    limit: Float[Array, '*#B'],
) -> Bool[Array, '*B c L']:
    """Keeps tokens, best first, while the amounts before them sum to less than a limit.

    Bisects for the score of the last such token, which takes 31 sums over the row.
    Sorting a vocabulary of 150,000 takes many times as long.

    Args:
        scores: at most 0.
        amounts: not negative; tokens with equal scores have equal amounts or 0.
        rows: how the rows lie on devices.
        limit: above 0.
    """
    # The bits of non-negative floats sort as the floats do; rank 0 is the best token.
    ranks = jax.lax.bitcast_convert_type(jnp.abs(scores), jnp.int32)

    def before(rank: jax.Array) -> jax.Array:
        better = jnp.where(ranks < rank[..., None, None], amounts, 0)
        return rows.row_sum(rows.block_sums(better))

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]):
        low, high = bounds
        middle = low + (high - low) // 2
        below = before(middle) < limit
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low = jnp.zeros(ranks.shape[:-2], jnp.int32)
    beyond_infinity = jnp.full_like(low, 0x7F800001)
    edge, _ = jax.lax.fori_loop(0, 31, halve, (low, beyond_infinity))
    # Tokens at the edge have equal amounts; keep those that begin below the limit.
    tied = (ranks == edge[..., None, None]) & (amounts > 0)
    amount = rows.max(jnp.where(tied, amounts, 0).max(axis=-2))
    last = _find(tied, jnp.ceil((limit - before(edge)) / amount), rows)
    ids = rows.split(rows.ids(scores.reshape(*scores.shape[:-2], -1)), pad=0)
    return (ranks < edge[..., None, None]) | (tied & (ids <= last[..., None, None]))


def _find(
    marked: Bool[Array, '*B c L'], number: Float[Array, '*B'], rows: Rows
) -> Int[Array, '*B']:
    """Returns the id of each row's ``number``-th marked token, or of its last."""
    marked = marked.astype(jnp.float32)
    counts = rows.block_sums(marked)
    target = jnp.minimum(number, counts.sum(axis=-1)) - 1
    block = _first_above(counts, target)
    earlier = jnp.arange(counts.shape[-1]) < block[..., None]
    target -= jnp.where(earlier, counts, 0).sum(axis=-1)
    ids = block * rows.block_tokens + _first_above(rows.block(marked, block), target)
    return rows.agree(ids, ids)


def draw(
    weights: Float[Array, '*B c L'],
    sums: Float[Array, '*B C'],
    uniforms: Float[Array, '*B 2'],
    rows: Rows,
) -> Int[Array, '*B']:
    """Draws a token in proportion to the weights, never one whose weight is 0.

    Inverting the running sum takes one or two uniforms per row; Gumbel noise would take
    V. In a long row, the first uniform draws a block and the second a token of that
    block. A single float32 running sum over a vocabulary of 150,000 would round away
    the tail, and costs more than summing each block.

    Args:
        weights: not negative.
        sums: the sum of the weights in each block.
        uniforms: independent, in [0, 1).
        rows: how the rows lie on devices.
    """
    block = _invert(sums, uniforms[..., 0])
    uniform = uniforms[..., 0 if sums.shape[-1] == 1 else 1]
    at = _invert(rows.block(weights, block), uniform)
    ids = block * rows.block_tokens + at
    return rows.agree(ids, ids)


def _invert(
    weights: Float[Array, '*B V'], uniform: Float[Array, '*B']
) -> Int[Array, '*B']:
    # The uniform is below 1, so the largest running sum exceeds the target.
    largest = _running_sums(weights).max(axis=-1)
    return _first_above(weights, uniform * largest)


def _first_above(
    weights: Float[Array, '*B V'], target: Float[Array, '*B']
) -> Int[Array, '*B']:
    """Returns the index of the first positive weight whose sum exceeds the target."""
    return jnp.argmax(_running_sums(weights) > target[..., None], axis=-1)


def _running_sums(weights: Float[Array, '*B V']) -> Float[Array, '*B V']:
    # A parallel running sum may decrease in its last bit, so exclude weight 0.
    return jnp.where(weights > 0, jnp.cumsum(weights, axis=-1), 0)
