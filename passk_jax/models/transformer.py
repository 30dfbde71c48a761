"""The transformer of every family: grouped-query attention, rotary positions, SwiGLU.

It runs in two ways, on the same blocks (layers.py):

* :meth:`Transformer.whole` runs whole sequences: the prompts ``[P, 1, S]`` and beside
  them, layer by layer, the responses ``[P, N, T]`` that go on from them. So a prompt is
  run once for its N rollouts when sampling and when training alike, and the gradient
  through it is exact.
* :meth:`Transformer.step` runs the next token of every rollout, with the prompts' keys
  and values and a cache of the rollout's own.

Sequences are right-padded: causality alone keeps pads out of real tokens, and only the
prefix needs a mask. The layers' parameters are stacked on a leading axis that training
scans; a network made to decode has a list of layers instead, because a cache in a scan
is copied every token.
"""

import dataclasses
import functools
from typing import Any

import jax
from flax import nnx
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.models import attention_kernels
from passk_jax.models.arch import Arch
from passk_jax.models.attention import KeyValues
from passk_jax.models.layers import (
    AXES,
    BETWEEN_LAYERS,
    INSIDE_LAYERS,
    Block,
    Linear,
    RMSNorm,
    Streams,
    shard_streams,
)
from passk_jax.models.master_weights import (
    for_each_shard,
    look_up,
    score_tokens,
    working_copy,
)
from passk_jax.models.rope import Turn, rotary


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prefix:
    """The prompts' keys and values: one :class:`KeyValues` a layer, and lengths."""

    layers: tuple[KeyValues, ...]
    lengths: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache:
    """The responses' keys and values while decoding: a ring of slots.

    All rollouts write one slot, the same, for each token; the ring is as long as the
    most tokens of a rollout that are to be seen. A rollout that began later than others
    has a smaller length, and does not see what was in its row before.

    Attributes:
        layers: one :class:`KeyValues` a layer.
        index: int32 scalar, slots ever written; the next one is this modulo the ring.
        lengths: ``[P, N]`` int32, the newest slots that are the rollout's own.
    """

    layers: tuple[KeyValues, ...]
    index: jax.Array
    lengths: jax.Array


class Embed(nnx.Module):
    """The token table."""

    def __init__(self, arch: Arch, *, rngs: nnx.Rngs):
        shape = (arch.vocab_size, arch.embed_dim)
        initializer = jax.nn.initializers.normal(0.02)
        table = initializer(rngs.params(), shape, jnp.dtype(arch.param_dtype))
        self.embedding = nnx.Param(table)


class Transformer(nnx.Module):
    """The decoder: tokens to hidden states; the head is applied by the caller.

    Args:
        arch: the architecture.
        stacked: one block whose parameters have the layers in front, to be scanned;
            else a list of blocks.
        rngs: of the initial parameters.
    """

    def __init__(self, arch: Arch, *, stacked: bool, rngs: nnx.Rngs):
        self.arch = arch
        self.stacked = stacked
        self.embed = Embed(arch, rngs=rngs)
        if stacked:
            self.layers = Block(arch, stack=(arch.num_layers,), rngs=rngs)
        else:
            self.layers = nnx.List(
                [Block(arch, rngs=rngs) for _ in range(arch.num_layers)]
            )
        self.final_norm = RMSNorm(arch.embed_dim, arch)
        head = functools.partial(
            Linear, 'head', (arch.embed_dim,), (arch.vocab_size,), arch, rngs=rngs
        )
        self.head = None if arch.tie_embeddings else head()

    def whole(
        self,
        tokens: tuple[Int[Array, 'P N T'], ...],
        positions: tuple[Int[Array, 'P 1 T'], ...],
        lengths: Int[Array, 'P'] | None = None,
        starts: Int[Array, 'P N T'] | None = None,
        *,
        keep: bool,
    ) -> tuple[Streams, tuple[KeyValues, ...] | None]:
        """Runs whole sequences.

        Args:
            tokens: the prompts, ``[P, 1, S]``, and their responses or nothing.
            positions: absolute position of each token.
            lengths: tokens of each prompt that responses see.
            starts: where in its row each response token's response starts; ``None``:
                at 0, a response a row.
            keep: give the prompts' keys and values too.

        Returns:
            What :meth:`logits` takes, in the working dtype, of every stream; and each
            layer's keys and values of the prompts, or ``None``.
        """
        xs = self._embed(*tokens)
        turns = tuple(map(self._turn, positions))

        def run(layer: Block, xs: Streams) -> tuple[Streams, KeyValues | None]:
            xs, kept = layer.whole(xs, turns, lengths, starts)
            return xs, kept if keep else None

        if self.stacked:
            graphdef, params = nnx.split(self.layers)
            one = self._remat(lambda xs, params: run(nnx.merge(graphdef, params), xs))
            xs, kept = jax.lax.scan(one, xs, params)
            layers = range(self.arch.num_layers) if keep else ()
            kept = [jax.tree.map(lambda x, i=i: x[i], kept) for i in layers]
        else:
            kept = []
            for layer in self.layers:
                xs, own = run(layer, xs)
                kept.append(own)
        return xs, tuple(kept) if keep else None

    def step(
        self, tokens: Int[Array, 'P N'], prefix: Prefix, cache: Cache
    ) -> tuple[Float[Array, 'P N D'], tuple[KeyValues, ...]]:
        """Runs the next token of every rollout; the layers' updated caches."""
        (x,) = self._embed(tokens[..., None])
        turn = self._turn((prefix.lengths[:, None] + cache.lengths)[..., None])
        S = prefix.layers[0].values.shape[2]
        prompt = jnp.arange(S) < prefix.lengths[:, None]
        ring = cache.layers[0].values.shape[3]
        slot = cache.index % ring
        # The token itself is the youngest, of age 0.
        ages = (slot - jnp.arange(ring)) % ring
        seen = (ages <= cache.lengths[..., None])[:, :, None]
        kept = []
        for i, layer in enumerate(self.layers):
            x, own = layer.step(
                x, turn, prefix.layers[i], prompt, cache.layers[i], seen, slot
            )
            kept.append(own)
        return x[:, :, 0], tuple(kept)

    def head_weights(self, shards: tuple[int, int]) -> tuple[jax.Array, jax.Array]:
        """The head as :meth:`logits` takes it: gathered once for all of its chunks.

        Args:
            shards: of the batch and of the rollouts.
        """
        weight, axes = self._head()
        copy = working_copy(weight, axes, jnp.dtype(self.arch.dtype))
        copy = for_each_shard(jax.lax.stop_gradient(copy), axes, shards)
        return for_each_shard(weight, axes, shards), copy

    def logits(
        self,
        hidden: Float[Array, 'G K *B D'],
        head_weights: tuple[jax.Array, jax.Array],
    ) -> Float[Array, 'G K *B V']:
        """Next-token logits, float32 whatever the working dtype.

        The final norm is here, after the caller has picked the tokens it wants.

        Args:
            hidden: from :meth:`whole` or :meth:`step`, by shards.
            head_weights: from :meth:`head_weights`.
        """
        _, axes = self._head()
        (hidden,) = self.final_norm(hidden)
        return score_tokens(hidden, *head_weights, axes)

    def _head(self) -> tuple[jax.Array, tuple[str | None, ...]]:
        if self.head is None:
            return self.embed.embedding[...], AXES['embed.embedding']
        return self.head.kernel[...], AXES['head.kernel']

    def _embed(self, *tokens: jax.Array) -> Streams:
        dtype = jnp.dtype(self.arch.dtype)
        table = self.embed.embedding[...]
        xs = look_up(table, tokens, AXES['embed.embedding'], dtype)
        # The table is split over 'tensor', so tokens are not where they meet it.
        xs = shard_streams(xs, INSIDE_LAYERS, None)
        return shard_streams(xs, BETWEEN_LAYERS, None)

    def _turn(self, positions: Int[Array, 'P N T']) -> Turn:
        turn = rotary(positions, self.arch.rope, head_dim=self.arch.head_dim)
        # Or XLA:CPU computes the cosines anew in every product with them: it fuses what
        # is before a barrier, but not what is put together there.
        cos, sin = jax.lax.optimization_barrier(jnp.stack(turn))
        return cos, sin

    def _remat(self, fn: Any) -> Any:
        if self.arch.remat == 'none':
            return fn
        policies = jax.checkpoint_policies
        policy = policies.nothing_saveable
        if self.arch.remat == 'attention':
            policy = policies.save_only_these_names(attention_kernels.SAVED)
        # A scan keeps its iterations apart: nothing to protect from being merged.
        return jax.checkpoint(fn, policy=policy, prevent_cse=False)
