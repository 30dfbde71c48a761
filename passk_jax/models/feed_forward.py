"""The feed-forward part of a block: a class and a row of the table for each kind.

A class takes ``(arch, stack=, rngs=)``, maps streams to streams and declares its
``parameters(arch)``. :class:`~passk_jax.models.block.Block` makes the kind that
``Layer.feed_forward`` names and calls its parameters ``layers.mlp.<name>``.
"""

from collections.abc import Mapping

import jax
from flax import nnx

from passk_jax.models.arch import Arch
from passk_jax.models.layers import (
    INSIDE_LAYERS,
    Linear,
    Streams,
    shard_streams,
)
from passk_jax.models.parameters import Table, kernel


class SwiGLU(nnx.Module):
    """``down(silu(gate(x)) * up(x))``.

    The backward pass recomputes the product of gate and up instead of keeping it.
    """

    def __init__(self, arch: Arch, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs):
        embed, mlp = (arch.embed_dim,), (arch.mlp_dim,)
        options = {'stack': stack, 'rngs': rngs}
        declared = self.parameters(arch)
        self.gate = Linear(declared['gate.kernel'], embed, mlp, arch, **options)
        self.up = Linear(declared['up.kernel'], embed, mlp, arch, **options)
        self.down = Linear(declared['down.kernel'], mlp, embed, arch, **options)

    @staticmethod
    def parameters(arch: Arch) -> Table:
        """Its parameters."""
        del arch
        return {
            'gate.kernel': kernel('mlp.gate_proj.weight', 'embed', 'mlp'),
            'up.kernel': kernel('mlp.up_proj.weight', 'embed', 'mlp'),
            'down.kernel': kernel('mlp.down_proj.weight', 'mlp', 'embed'),
        }

    def __call__(self, *xs: jax.Array) -> Streams:
        # This keeps two of six arrays of the MLP's width. A scan over the layers keeps
        # XLA from merging the recomputation with the forward pass.
        finish = jax.checkpoint(self._finish, prevent_cse=False)
        return finish(self.gate(*xs), self.up(*xs))

    def _finish(self, gates: Streams, ups: Streams) -> Streams:
        both = zip(gates, ups, strict=True)
        hidden = tuple(jax.nn.silu(gate) * up for gate, up in both)
        return self.down(*shard_streams(hidden, INSIDE_LAYERS, 'mlp'))


FEED_FORWARDS: Mapping[str, type[nnx.Module]] = {'swiglu': SwiGLU}
