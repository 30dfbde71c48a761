"""The repeated block of the transformer."""

import functools
from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from passk_jax.models import attention_kernels
from passk_jax.models.arch import Arch, Layer
from passk_jax.models.attention import KeyValues
from passk_jax.models.feed_forward import FEED_FORWARDS, GATED
from passk_jax.models.layers import (
    BETWEEN_LAYERS,
    PROJECTED,
    Attention,
    RMSNorm,
    Statistics,
    Streams,
    shard_streams,
)
from passk_jax.models.parameters import Table, nested, norm_scale

SAVED = {
    'attention': (attention_kernels.SAVED,),
    'qkv': (attention_kernels.SAVED, PROJECTED),
    'gate_up': (attention_kernels.SAVED, PROJECTED, GATED),
}
"""Names of the arrays that a block saves for its backward pass, by ``arch.remat``."""


class Block(nnx.Module):
    """Attention and a feed-forward part, both with a residual.

    ``arch.norms`` says whether each part has a norm before it, after it, or both.
    """

    def __init__(
        self, arch: Arch, layer: Layer, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs
    ):
        norm = functools.partial(RMSNorm, (arch.embed_dim,), arch, stack=stack)
        before, after = arch.norms != 'after', arch.norms != 'before'
        self.attention_norm = norm() if before else None
        self.attention = Attention(arch, stack=stack, rngs=rngs)
        self.attention_out_norm = norm() if after else None
        self.mlp_norm = norm() if before else None
        self.mlp = FEED_FORWARDS[layer.feed_forward](arch, stack=stack, rngs=rngs)
        self.mlp_out_norm = norm() if after else None

    @staticmethod
    def parameters(arch: Arch, layer: Layer) -> Table:
        """Lists the block's parameters; tensor names follow the layer's number."""
        attention = nested('attention', Attention.parameters(arch))
        mlp = nested('mlp', FEED_FORWARDS[layer.feed_forward].parameters(arch))
        # Published names say where a norm was in Llama, not always where it is here.
        norms = {
            'attention_norm': 'input',
            'attention_out_norm': 'post_attention',
            'mlp_norm': 'pre_feedforward' if arch.norms == 'both' else 'post_attention',
            'mlp_out_norm': 'post_feedforward',
        }
        rows = {
            name: {
                f'{name}.scale': norm_scale(
                    f'{tensor}_layernorm.weight', None, kind=arch.norm_scale
                )
            }
            for name, tensor in norms.items()
        }
        before, after = arch.norms != 'after', arch.norms != 'before'
        return {
            **(rows['attention_norm'] if before else {}),
            **attention,
            **(rows['attention_out_norm'] if after else {}),
            **(rows['mlp_norm'] if before else {}),
            **mlp,
            **(rows['mlp_out_norm'] if after else {}),
        }

    def forward(
        self, xs: Streams, *args: Any, routing: Streams | None = None, **options: Any
    ) -> tuple[Streams, KeyValues, Statistics]:
        """Runs entire streams; the arguments are those of ``Attention.forward``.

        A feed-forward part with experts takes ``routing``.
        """
        normed = _normalize(self.attention_norm, xs)
        mixed, key_values = self.attention.forward(normed, *args, **options)
        xs, statistics = self._finish(xs, mixed, routing)
        return xs, key_values, statistics

    def step(
        self, x: Float[Array, 'P N 1 D'], *args: Any
    ) -> tuple[Float[Array, 'P N 1 D'], KeyValues, Statistics]:
        """Runs the next token; the arguments are those of ``Attention.step``."""
        (normed,) = _normalize(self.attention_norm, (x,))
        mixed, cache = self.attention.step(normed, *args)
        (x,), statistics = self._finish((x,), (mixed,))
        return x, cache, statistics

    def _finish(
        self, xs: Streams, mixed: Streams, routing: Streams | None = None
    ) -> tuple[Streams, Statistics]:
        mixed = _normalize(self.attention_out_norm, mixed)
        xs = tuple(x + y for x, y in zip(xs, mixed, strict=True))
        xs = shard_streams(xs, BETWEEN_LAYERS, None)
        options = {} if routing is None else {'routing': routing}
        ys, statistics = self.mlp(*_normalize(self.mlp_norm, xs), **options)
        ys = _normalize(self.mlp_out_norm, ys)
        xs = tuple(x + y for x, y in zip(xs, ys, strict=True))
        return shard_streams(xs, BETWEEN_LAYERS, None), statistics


def _normalize(norm: RMSNorm | None, xs: Streams) -> Streams:
    return xs if norm is None else norm(*xs)
