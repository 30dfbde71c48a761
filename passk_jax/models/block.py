"""The repeated block of the transformer."""

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from passk_jax.models.arch import Arch, Layer
from passk_jax.models.attention import KeyValues
from passk_jax.models.feed_forward import FEED_FORWARDS
from passk_jax.models.layers import (
    BETWEEN_LAYERS,
    Attention,
    RMSNorm,
    Statistics,
    Streams,
    shard_streams,
)
from passk_jax.models.parameters import Table, nested, vector


class Block(nnx.Module):
    """Attention and a feed-forward part, both with a norm before and a residual."""

    def __init__(
        self, arch: Arch, layer: Layer, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs
    ):
        self.attention_norm = RMSNorm(arch.embed_dim, arch, stack=stack)
        self.attention = Attention(arch, stack=stack, rngs=rngs)
        self.mlp_norm = RMSNorm(arch.embed_dim, arch, stack=stack)
        self.mlp = FEED_FORWARDS[layer.feed_forward](arch, stack=stack, rngs=rngs)

    @staticmethod
    def parameters(arch: Arch, layer: Layer) -> Table:
        """Lists the block's parameters; tensor names follow the layer's number."""
        return {
            'attention_norm.scale': vector('input_layernorm.weight', None),
            **nested('attention', Attention.parameters(arch)),
            'mlp_norm.scale': vector('post_attention_layernorm.weight', None),
            **nested('mlp', FEED_FORWARDS[layer.feed_forward].parameters(arch)),
        }

    def forward(
        self, xs: Streams, *args: Any, routing: Streams | None = None, **options: Any
    ) -> tuple[Streams, KeyValues, Statistics]:
        """Runs entire streams; the arguments are those of ``Attention.forward``.

        A feed-forward part with experts takes ``routing``.
        """
        mixed, key_values = self.attention.forward(
            self.attention_norm(*xs), *args, **options
        )
        xs, statistics = self._finish(xs, mixed, routing)
        return xs, key_values, statistics

    def step(
        self, x: Float[Array, 'P N 1 D'], *args: Any
    ) -> tuple[Float[Array, 'P N 1 D'], KeyValues, Statistics]:
        """Runs the next token; the arguments are those of ``Attention.step``."""
        (normed,) = self.attention_norm(x)
        mixed, cache = self.attention.step(normed, *args)
        (x,), statistics = self._finish((x,), (mixed,))
        return x, cache, statistics

    def _finish(
        self, xs: Streams, mixed: Streams, routing: Streams | None = None
    ) -> tuple[Streams, Statistics]:
        xs = tuple(x + y for x, y in zip(xs, mixed, strict=True))
        xs = shard_streams(xs, BETWEEN_LAYERS, None)
        options = {} if routing is None else {'routing': routing}
        ys, statistics = self.mlp(*self.mlp_norm(*xs), **options)
        xs = tuple(x + y for x, y in zip(xs, ys, strict=True))
        return shard_streams(xs, BETWEEN_LAYERS, None), statistics
