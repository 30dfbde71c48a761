"""How evenly the tokens of a step run the experts of each layer."""

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

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


def load_metrics(tokens: Float[Array, '*B L E'] | None) -> dict[str, jax.Array]:
    """Computes the metrics of a step.

    Args:
        tokens: that ran each expert of each layer, by update; ``None``: no experts.

    Returns:
        ``expert_load_max``, the tokens of a layer's busiest expert as a multiple of an
        even share, from 1 to E / k; ``experts_idle``, the share of a layer's experts
        that no token ran. Both are means over the layers.
    """
    if tokens is None:
        return {}
    tokens = tokens.reshape(-1, *tokens.shape[-2:]).sum(axis=0)
    even = jnp.maximum(tokens.mean(axis=-1), 1)
    return {
        'expert_load_max': (tokens.max(axis=-1) / even).mean(),
        'experts_idle': (tokens == 0).mean(),
    }
