"""The feed-forward part of a block: each kind is a class and a row of a table.

:class:`FeedForward` is the interface. A :class:`~passk_jax.models.block.Block` makes
the kind that its layer names. The parameters are called ``layers.mlp.<name>``.
"""

import functools
from collections.abc import Mapping
from typing import Protocol

import jax
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

from passk_jax.models.arch import Arch
from passk_jax.models.experts import Experts
from passk_jax.models.layers import (
    INSIDE_LAYERS,
    Linear,
    Statistics,
    Streams,
    shard_streams,
)
from passk_jax.models.parameters import Table, kernel

GATED = 'gate_up'
"""Name of the products with gate and up for remat policies."""


class FeedForward(Protocol):
    """A kind of feed-forward part."""

    def __init__(self, arch: Arch, *, stack: tuple[int, ...], rngs: nnx.Rngs): ...

    @staticmethod
    def parameters(arch: Arch) -> Table:
        """Lists the parameters."""

    @staticmethod
    def flops(arch: Arch) -> int:
        """Counts the forward FLOPs of a token: two per weight that multiplies it."""

    def __call__(self, *xs: jax.Array) -> tuple[Streams, Statistics]:
        """Maps each stream to one of its shape; also returns statistics, if any."""


class SwiGLU(nnx.Module):
    """``down(silu(gate(x)) * up(x))``.

    The backward pass recomputes the product of gate and up to save memory.
    """

    activate = staticmethod(jax.nn.silu)

    def __init__(self, arch: Arch, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs):
        embed, mlp = (arch.embed_dim,), (arch.mlp_dim,)
        options = {'stack': stack, 'rngs': rngs}
        declared = self.parameters(arch)
        self.gate = Linear(declared['gate.kernel'], embed, mlp, arch, **options)
        self.up = Linear(declared['up.kernel'], embed, mlp, arch, **options)
        self.down = Linear(declared['down.kernel'], mlp, embed, arch, **options)

    @staticmethod
    def parameters(arch: Arch) -> Table:
        """Lists the parameters."""
        del arch
        return {
            'gate.kernel': kernel('mlp.gate_proj.weight', 'embed', 'mlp'),
            'up.kernel': kernel('mlp.up_proj.weight', 'embed', 'mlp'),
            'down.kernel': kernel('mlp.down_proj.weight', 'mlp', 'embed'),
        }

    @staticmethod
    def flops(arch: Arch) -> int:
        """Counts two FLOPs per weight of the three matrices."""
        return 2 * 3 * arch.embed_dim * arch.mlp_dim

    def __call__(self, *xs: jax.Array) -> tuple[Streams, Statistics]:
        """Returns the streams, and no statistics."""
        # This saves two of six arrays of the MLP's width. The scan over layers prevents
        # XLA from merging the recomputation with the forward pass.
        finish = jax.checkpoint(self._finish, prevent_cse=False)
        gates, ups = (
            tuple(checkpoint_name(y, GATED) for y in matrix(*xs))
            for matrix in (self.gate, self.up)
        )
        return finish(gates, ups), {}

    def _finish(self, gates: Streams, ups: Streams) -> Streams:
        both = zip(gates, ups, strict=True)
        hidden = tuple(self.activate(gate) * up for gate, up in both)
        return self.down(*shard_streams(hidden, INSIDE_LAYERS, 'mlp'))


class GeGLU(SwiGLU):
    """Like :class:`SwiGLU`, with the tanh approximation of GELU instead of SiLU."""

    activate = staticmethod(functools.partial(jax.nn.gelu, approximate=True))


FEED_FORWARDS: Mapping[str, type[FeedForward]] = {
    'swiglu': SwiGLU,
    'geglu': GeGLU,
    'moe': Experts,
}
