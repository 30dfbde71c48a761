"""The distribution that each token is drawn from, and the draw itself.

The options apply in Hugging Face's order: temperature; top-k; top-p on the tokens that
top-k kept, renormalised; min-p. All values are float32. A token whose logit is ``-inf``
is never drawn; finite logits give finite values.
"""

import dataclasses

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.config import SamplingOptions
from passk_jax.config.ranges import check_fields

# draw() sums each row in pieces of this many tokens. Published vocabularies are
# multiples of it; copying a row to pad it would take ten times as long.
_PIECE = 128
# The most blocks of whole pieces in a row. With more blocks, each is less probable, and
# a 23-bit uniform may never draw a block whose probability is below 1e-7.
_MAX_BLOCKS = 300


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
        logits: float32; finite, or ``-inf`` where an id is no token.
        uniforms: independent, in [0, 1).
        options: from :func:`traced_options`.
        greedy: whether to take the most probable token, the lowest id among equals
            (static).
        truncate: whether to apply top-k, top-p and min-p (static).
    """
    # Subtract the maximum before dividing: a small temperature would overflow.
    scores = logits - logits.max(axis=-1, keepdims=True)
    if not greedy:
        scores = scores / options.temperature
    weights = jnp.exp(scores)
    total = weights.sum(axis=-1)
    # A score may be -inf where the weight is 0; their product would be NaN.
    mean_score = jnp.where(weights > 0, weights * scores, 0).sum(axis=-1) / total
    sampled_total = total
    if greedy:
        tokens = jnp.argmax(scores, axis=-1)
    else:
        if truncate:
            weights = jnp.where(kept_by_truncation(scores, options), weights, 0)
            sampled_total = weights.sum(axis=-1)
        tokens = draw(weights, uniforms)
    score = jnp.take_along_axis(scores, tokens[..., None], axis=-1)[..., 0]
    return Choice(
        tokens=tokens.astype(jnp.int32),
        sampler_log_probs=score - (score if greedy else jnp.log(sampled_total)),
        untruncated_log_probs=score - jnp.log(total),
        entropies=jnp.log(total) - mean_score,
    )


def kept_by_truncation(
    scores: Float[Array, '*B V'], options: TracedOptions
) -> Bool[Array, '*B V']:
    """Marks the tokens that top-k, top-p and min-p keep.

    Among equally probable tokens, top-k and top-p take the lower ids first. Top-p keeps
    the smallest set of most probable tokens whose share of the probability that top-k
    left is at least ``top_p``. Min-p compares each token with the most probable one.
    All three keep the most probable token. Scores are log-probabilities, shifted so
    that each row's maximum is 0.
    """

    def keep_top_k(allowed: jax.Array) -> jax.Array:
        count = options.top_k.astype(jnp.float32)
        return _keep_below(scores, allowed.astype(jnp.float32), limit=count)

    def keep_top_p(allowed: jax.Array) -> jax.Array:
        weights = jnp.where(allowed, jnp.exp(scores), 0)
        enough = options.top_p * weights.sum(axis=-1, keepdims=True)
        return allowed & _keep_below(scores, weights, limit=enough)

    # A filter that is off costs nothing, and rounding cannot make it drop a token.
    allowed = jnp.ones_like(scores, bool)
    allowed = jax.lax.cond(options.top_k > 0, keep_top_k, lambda x: x, allowed)
    allowed = jax.lax.cond(options.top_p < 1, keep_top_p, lambda x: x, allowed)
    # The maximum score is 0, so exp(score) is the ratio to the most probable token.
    return allowed & (jnp.exp(scores) >= options.min_p)


def _keep_below(
    scores: Float[Array, '*B V'], amounts: Float[Array, '*B V'], *, limit: jax.Array
) -> Bool[Array, '*B V']:
    """Keeps tokens, best first, while the amounts before them sum to less than a limit.

    Bisects for the score of the last such token, which takes 31 sums over the row.
    Sorting a vocabulary of 150,000 takes many times as long.
    """
    # The bits of non-negative floats sort as the floats do; rank 0 is the best token.
    ranks = jax.lax.bitcast_convert_type(jnp.abs(scores), jnp.int32)

    def before(rank: jax.Array) -> jax.Array:
        return jnp.where(ranks < rank, amounts, 0).sum(axis=-1, keepdims=True)

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]):
        low, high = bounds
        middle = low + (high - low) // 2
        below = before(middle) < limit
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low = jnp.zeros_like(ranks[..., :1])
    beyond_infinity = jnp.full_like(low, 0x7F800001)
    edge, _ = jax.lax.fori_loop(0, 31, halve, (low, beyond_infinity))
    tied = jnp.where(ranks == edge, amounts, 0)
    earlier = before(edge) + jnp.cumsum(tied, axis=-1) - tied
    return (ranks < edge) | ((ranks == edge) & (earlier < limit))


def draw(
    weights: Float[Array, '*B V'], uniforms: Float[Array, '*B 2']
) -> Int[Array, '*B']:
    """Draws an index in proportion to the weights, never one whose weight is 0.

    Inverting the running sum takes one or two uniforms per row; Gumbel noise would take
    V. In a long row, the first uniform draws a block and the second a token of that
    block. A single float32 running sum over a vocabulary of 150,000 would round away
    the tokens of the tail, and costs more than summing each block.
    """
    *lead, vocab_size = weights.shape
    if vocab_size <= _PIECE:
        return _invert(weights, uniforms[..., 0])
    pieces = _padded(weights, _PIECE).reshape(*lead, -1, _PIECE)
    count = pieces.shape[-2]
    width = -(-count // _MAX_BLOCKS)
    sums = _padded(pieces.sum(axis=-1), width).reshape(*lead, -1, width)
    block = _invert(sums.sum(axis=-1), uniforms[..., 0])
    at = block[..., None] * width + jnp.arange(width)
    inside = jnp.take_along_axis(pieces, jnp.minimum(at, count - 1)[..., None], axis=-2)
    inside = jnp.where(at[..., None] < count, inside, 0).reshape(*lead, -1)
    return block * width * _PIECE + _invert(inside, uniforms[..., 1])


def _padded(x: jax.Array, width: int) -> jax.Array:
    """Pads the last axis with zeros to a multiple of ``width``."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % width)])


def _invert(
    weights: Float[Array, '*B V'], uniform: Float[Array, '*B']
) -> Int[Array, '*B']:
    # A parallel running sum may decrease in its last bit. So exclude weight 0
    # explicitly, and keep the target below the largest sum that can be chosen.
    sums = jnp.where(weights > 0, jnp.cumsum(weights, axis=-1), 0)
    target = uniform * sums.max(axis=-1)
    return jnp.argmax(sums > target[..., None], axis=-1)
