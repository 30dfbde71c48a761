"""The feed-forward part of a block: a class and a row of the table for each kind.

A class takes ``(arch, stack=, rngs=)``, maps streams to streams and declares its
``PARAMETERS``. :class:`~passk_jax.models.block.Block` makes the kind that
``Arch.feed_forward`` names and calls its parameters ``layers.mlp.<name>``.
"""

from collections.abc import Mapping
from typing import ClassVar

import jax
from flax import nnx

from passk_jax.models.arch import Arch
from passk_jax.models.layers import (
    INSIDE_LAYERS,
    Linear,
    Parameter,
    Streams,
    kernel,
    shard_streams,
)


class SwiGLU(nnx.Module):
    """``down(silu(gate(x)) * up(x))``.

    The backward pass recomputes the product of gate and up instead of keeping it.
    """

    PARAMETERS: ClassVar[Mapping[str, Parameter]] = {
        'gate.kernel': kernel('mlp.gate_proj.weight', 'embed', 'mlp'),
        'up.kernel': kernel('mlp.up_proj.weight', 'embed', 'mlp'),
        'down.kernel': kernel('mlp.down_proj.weight', 'mlp', 'embed'),
    }

    def __init__(self, arch: Arch, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs):
        embed, mlp = (arch.embed_dim,), (arch.mlp_dim,)
        options = {'stack': stack, 'rngs': rngs}
        self.gate = Linear(self.PARAMETERS['gate.kernel'], embed, mlp, arch, **options)
        self.up = Linear(self.PARAMETERS['up.kernel'], embed, mlp, arch, **options)
        self.down = Linear(self.PARAMETERS['down.kernel'], mlp, embed, arch, **options)

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
