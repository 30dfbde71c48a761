"""The distribution a token is drawn from, and one draw from it a row.

The options act in Hugging Face's order: temperature, top-k, top-p on what top-k left,
renormalised, then min-p. All values are float32, and finite for any finite logits.
"""

import dataclasses

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.config import SamplingOptions
from passk_jax.config.ranges import check_fields

# A row is summed in pieces of so many tokens; see draw(). Published vocabularies are
# multiples of it: no row is copied to be padded, which takes ten times as long.
_PIECE = 128

# A row has at most so many blocks, each of whole pieces. The more there are, the less
# probable each is, and a uniform of 23 bits may never draw one below 1e-7.
_MAX_BLOCKS = 300


# Traced, so that another value needs no other program.
_NAMES = [field.name for field in dataclasses.fields(SamplingOptions)]
jax.tree_util.register_dataclass(SamplingOptions, _NAMES, [])


def traced_options(options: SamplingOptions, *, vocab_size: int) -> SamplingOptions:
    """The options as the scalars that :func:`choose` takes.

    Raises:
        ValueError: an option is out of range.
    """
    check_fields(options)
    options = dataclasses.replace(
        options,
        # A smaller share keeps one token too, but is 0 in float32, which keeps none.
        top_p=max(options.top_p, float(np.finfo(np.float32).tiny)),
        top_k=min(options.top_k, vocab_size),
    )
    dtypes = {float: np.float32, int: np.int32}
    scalars = {
        field.name: dtypes[field.type](getattr(options, field.name))
        for field in dataclasses.fields(options)
    }
    return SamplingOptions(**scalars)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Choice:
    """A token for each row, and its figures; the fields are those of ``Rollouts``."""

    tokens: jax.Array
    sampler_log_probs: jax.Array
    untruncated_log_probs: jax.Array
    entropies: jax.Array


def choose(
    logits: Float[Array, '*B V'],
    uniforms: Float[Array, '*B 2'],
    options: SamplingOptions,
    *,
    greedy: bool,
    truncate: bool,
) -> Choice:
    """Chooses the next token of each row.

    Greedy choice is a draw from a point mass: its sampler log-probability is 0, and
    the untruncated one and the entropy are those of temperature 1.

    Args:
        logits: float32 and finite.
        uniforms: in [0, 1), independent.
        options: from :func:`traced_options`.
        greedy: take the most probable token, the first of equals (static).
        truncate: apply top-k, top-p and min-p (static: without them no search is paid).
    """
    # The maximum goes first: dividing large logits by a small temperature overflows.
    scores = logits - logits.max(axis=-1, keepdims=True)
    if not greedy:
        scores = scores / options.temperature
    weights = jnp.exp(scores)
    total = weights.sum(axis=-1)
    # A weight of 0 adds nothing, though its score may be -inf.
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
    scores: Float[Array, '*B V'], options: SamplingOptions
) -> Bool[Array, '*B V']:
    """Which tokens top-k, top-p and min-p leave.

    Of equal tokens, top-k and top-p take the lower ids first. Top-p keeps the smallest
    set of most probable tokens whose share of what top-k left is at least ``top_p``.
    Min-p compares with the most probable token, which all three always keep.

    Args:
        scores: log-probabilities up to a constant of the row; the largest is 0.
        options: top-k, top-p and min-p.
    """

    def by_top_k(kept: jax.Array) -> jax.Array:
        count = options.top_k.astype(jnp.float32)
        return _keep_below(scores, kept.astype(jnp.float32), limit=count)

    def by_top_p(kept: jax.Array) -> jax.Array:
        weights = jnp.where(kept, jnp.exp(scores), 0)
        enough = options.top_p * weights.sum(axis=-1, keepdims=True)
        return kept & _keep_below(scores, weights, limit=enough)

    # Whichever is off costs nothing, and drops nothing by rounding.
    kept = jnp.ones_like(scores, bool)
    kept = jax.lax.cond(options.top_k > 0, by_top_k, lambda x: x, kept)
    kept = jax.lax.cond(options.top_p < 1, by_top_p, lambda x: x, kept)
    # The largest score is 0, so a weight is the ratio to the most probable token's.
    return kept & (jnp.exp(scores) >= options.min_p)


def _keep_below(
    scores: Float[Array, '*B V'], amounts: Float[Array, '*B V'], *, limit: jax.Array
) -> Bool[Array, '*B V']:
    """Keeps tokens, best first, while the amounts before them are below a limit.

    By bisection of the score at the edge: 31 sums over the row, where sorting a
    vocabulary of 150,000 takes many times as long.
    """
    # Bits of a float that is not negative rise with it: 0 is the best token.
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
    """Draws an index in proportion to weights; never one of weight 0.

    By inversion: a uniform or two a row, where Gumbel noise would take V of them. A
    long row is drawn as a block of tokens and then a token of the block. One float32
    running sum over a vocabulary of 150,000 would round away the tail's tokens, and
    costs more than a plain sum a block.
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
    """Zeros behind the last axis, which is then a multiple of ``width`` long."""
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % width)])


def _invert(
    weights: Float[Array, '*B V'], uniform: Float[Array, '*B']
) -> Int[Array, '*B']:
    # Parallel running sums are not monotone to the last bit. So weight 0 is excluded
    # by hand, and the target lies below the largest sum that can be chosen.
    sums = jnp.where(weights > 0, jnp.cumsum(weights, axis=-1), 0)
    target = uniform * sums.max(axis=-1)
    return jnp.argmax(sums > target[..., None], axis=-1)
