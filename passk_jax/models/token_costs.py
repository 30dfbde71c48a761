"""The cost of a token: FLOPs of its layers, and the weights that a step reads."""

from collections.abc import Mapping

from passk_jax.models.arch import Arch
from passk_jax.models.feed_forward import FEED_FORWARDS
from passk_jax.models.vision import is_of_tower
from passk_jax.types import Leaf


def token_flops(arch: Arch) -> int:
    """Counts the FLOPs of a token's products with the matrices of all layers."""
    heads = 2 * arch.num_heads + 2 * arch.num_kv_heads
    attention = 2 * arch.embed_dim * heads * arch.head_dim
    return sum(
        attention + FEED_FORWARDS[layer.feed_forward].flops(arch)
        for layer in arch.all_layers
    )


def read_by_step(arch: Arch, weights: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """Selects the decoding weights that a decode step reads in full.

    It does not read the tower, and only a few rows of a token table that is not also
    the head.
    """
    return {
        name: x
        for name, x in weights.items()
        if not is_of_tower(name) and (arch.tie_embeddings or name != 'embed.embedding')
    }
