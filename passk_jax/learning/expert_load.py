"""How evenly the tokens of a step are spread over the experts of each layer."""

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.models.products import multiply_matrices

EXPERT_TOKENS = 'expert_tokens'
"""The sum over tokens ``[L, E]`` that :func:`load_metrics` reduces."""


def count_tokens(
    routing: Int[Array, 'P N T L k'], mask: Bool[Array, 'P N T'], *, num_experts: int
) -> Float[Array, 'L E']:
    """Counts the tokens that run each expert of each layer, float32.

    Args:
        routing: the experts of each token, from ``policies.token_log_probs``.
        mask: the tokens that count.
        num_experts: E.
    """
    runs = routing[..., None] == jnp.arange(num_experts, dtype=routing.dtype)
    return jnp.sum(runs & mask[..., None, None, None], (0, 1, 2, 4), jnp.float32)


def balance_factors(tokens: Float[Array, 'L E'], mask: Bool[Array, '...']) -> jax.Array:
    """Computes the factors ``[E]`` of :func:`balance_loss`.

    Args:
        tokens: :func:`count_tokens` of the whole mini-batch.
        mask: the tokens of the whole mini-batch that count.
    """
    num_layers, num_experts = tokens.shape
    count = jnp.maximum(mask.sum(), 1)
    return num_experts * tokens.sum(axis=0) / (num_layers * count) / count


def balance_loss(
    probs: Float[Array, 'P N T L E'],
    mask: Bool[Array, 'P N T'],
    factors: Float[Array, 'E'],
) -> Float[Array, 'P']:
    """Computes each prompt's share of a mini-batch's auxiliary loss.

    ``E * sum_e f_e p_e`` over the tokens of all layers: ``f_e`` is the share of them
    that run expert e, without a gradient, and ``p_e`` its mean probability (Switch
    Transformer, arXiv:2101.03961, equations 4 to 6, and ``load_balancing_loss_func`` of
    transformers). It is k if the load is even. The shares of micro-batches add up.

    Args:
        probs: the router's probabilities.
        mask: the tokens that count.
        factors: from :func:`balance_factors`.
    """
    mean, factors = probs.mean(axis=3), jax.lax.stop_gradient(factors)
    values = multiply_matrices(mean, factors)
    return jnp.where(mask, values, 0.0).sum(axis=(1, 2))


def load_metrics(tokens: Float[Array, '*B L E'] | None) -> dict[str, jax.Array]:
    """Computes the metrics of a step.

    Args:
        tokens: :func:`count_tokens` of each update; ``None``: no experts.

    Returns:
        ``expert_load_max``, the tokens of a layer's busiest expert divided by an even
        share, from 1 to E / k; ``experts_idle``, the share of a layer's experts that no
        token ran. Both are means over the layers.
    """
    if tokens is None:
        return {}
    tokens = tokens.reshape(-1, *tokens.shape[-2:]).sum(axis=0)
    even = jnp.maximum(tokens.mean(axis=-1), 1)
    return {
        'expert_load_max': (tokens.max(axis=-1) / even).mean(),
        'experts_idle': (tokens == 0).mean(),
    }
