"""Log-probabilities and entropies of tokens under logits, with explicit gradients.

Both gradients are elementwise in the probabilities. So the backward pass reads the
logits once, with one softmax and no scatter.
"""

from typing import NamedTuple

import jax
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

Pair = tuple[Float[Array, '*B'], Float[Array, '*B']]


class TokenScores(NamedTuple):
    """The results of ``policies.token_log_probs`` for each response token.

    Attributes:
        log_probs: ``log softmax(logits / temperature)``, float32, over the tokenizer's
            ids.
        entropies: nats, float32, of the same distribution.
        statistics: statistics of the feed-forward parts at the position that predicts
            the token: means over layers, or ``[P, N, T, L, ...]`` if they have more
            axes.
    """

    log_probs: Float[Array, 'P N T']
    entropies: Float[Array, 'P N T']
    statistics: dict[str, Float[Array, 'P N T ...']]


def log_probs_and_entropies(
    logits: Float[Array, '*B V'], tokens: Int[Array, '*B']
) -> Pair:
    """Computes ``log softmax(logits)`` at the tokens, and the entropies in nats.

    Args:
        logits: float32, finite.
        tokens: below V.
    """
    # With an axis of size 1, XLA's CPU code takes twenty times as long for the sums.
    axes = [axis for axis, size in enumerate(tokens.shape) if size == 1]
    rows = jnp.squeeze(logits, axes), jnp.squeeze(tokens, axes)
    log_probs, entropies = _score_rows(*rows)
    return log_probs.reshape(tokens.shape), entropies.reshape(tokens.shape)


@jax.custom_vjp
def _score_rows(logits: Float[Array, '*B V'], tokens: Int[Array, '*B']) -> Pair:
    return _forward(logits, tokens)[0]


def _chosen(logits: jax.Array, tokens: jax.Array) -> jax.Array:
    # Compare, because a gather along a sharded vocabulary is not local.
    return (
        jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)
        == (tokens[..., None])
    )


def _forward(
    logits: jax.Array, tokens: jax.Array
) -> tuple[Pair, tuple[jax.Array, jax.Array, jax.Array, jax.Array]]:
    total = jax.nn.logsumexp(logits, axis=-1)
    chosen = jnp.where(_chosen(logits, tokens), logits, 0).sum(-1)
    mean = (jnp.exp(logits - total[..., None]) * logits).sum(-1)
    entropies = total - mean
    return (chosen - total, entropies), (logits, tokens, total, entropies)


def _backward(
    residuals: tuple[jax.Array, jax.Array, jax.Array, jax.Array], gs: Pair
) -> tuple[jax.Array, None]:
    logits, tokens, total, entropies = residuals
    of_log_prob, of_entropy = (g[..., None] for g in gs)
    log_probs = logits - total[..., None]
    # d entropy / d logit = -p (log p + entropy).
    slope = of_log_prob + of_entropy * (log_probs + entropies[..., None])
    picked = jnp.where(_chosen(logits, tokens), of_log_prob, 0)
    return picked - jnp.exp(log_probs) * slope, None


_score_rows.defvjp(_forward, _backward)
