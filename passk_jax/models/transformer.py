"""The transformer of every family: embedding, a stack of blocks, norm and head.

It runs the same blocks (block.py) in two ways:

* :meth:`Transformer.forward` runs entire sequences: in each layer the prompts
  ``[P, 1, S]`` and the responses ``[P, N, T]`` that continue them. A prompt runs once
  for its N rollouts, in sampling and in training, and its gradient is exact.
* :meth:`Transformer.step` runs the next token of every rollout. It reads the prompts'
  keys and values and a cache of the rollouts'.

Sequences are right-padded. Causality keeps pads out of real tokens; only the prefix
needs a mask. Training scans over layers whose parameters are stacked on a leading axis,
one period of ``Arch.layers`` at a time. A network for decoding has a list of layers
instead, because a scan would copy its cache for every token.
"""

import dataclasses
import functools
from typing import Any, Generic

import jax
from flax import nnx
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.models import attention_kernels
from passk_jax.models.arch import Arch, Layer
from passk_jax.models.attention import KeyValues
from passk_jax.models.block import SAVED, Block
from passk_jax.models.decode_attention import newest_seen
from passk_jax.models.layers import (
    BETWEEN_LAYERS,
    INSIDE_LAYERS,
    Linear,
    RMSNorm,
    Statistics,
    shard_streams,
    unstack,
)
from passk_jax.models.lora import with_adapters
from passk_jax.models.master_weights import (
    Axes,
    Streams,
    look_up,
    repeat_for_shards,
    score_tokens,
    working_copy,
)
from passk_jax.models.parameters import Parameter, Table, kernel, nested, norm_scale
from passk_jax.models.pictures import (
    Placed,
    next_positions,
    place_features,
    prompt_positions,
)
from passk_jax.models.rope import Rope, Turn, rotary
from passk_jax.models.vision import VisionTower
from passk_jax.types import Leaf, Prompts

EMBEDDING = Parameter('embed_tokens.weight', ('vocab', 'embed'), dims=((0,), (1,)))
"""The token table, as a part of the decoder."""
HEAD = kernel('lm_head.weight', 'embed', 'vocab')
"""The head, if the token table is not also the head."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prefix(Generic[Leaf]):
    """The prompts: one :class:`KeyValues` per layer, and their lengths ``[P]``.

    ``routing`` is as in :class:`~passk_jax.types.Prompts`. ``next_positions [P]`` are
    the positions after the prompts; ``None``: the prompts' lengths.
    """

    layers: tuple[KeyValues[Leaf], ...]
    lengths: Leaf
    routing: Leaf | None = None
    next_positions: Leaf | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache:
    """Keys and values of the responses while decoding: a ring of slots.

    In each step, all rollouts write the same slot. The ring has room for the longest
    rollout. A rollout that began later has a smaller length, so it does not see the
    earlier content of its row.

    Attributes:
        layers: one :class:`KeyValues` per layer.
        index: int32 scalar, slots written so far; modulo the ring, the next slot.
        lengths: ``[P, N]`` int32, how many of the newest slots belong to the rollout.
        routing: ``[P, N, L, k]``, the experts that ran the newest token; ``None``: no
            learner replays them.
    """

    layers: tuple[KeyValues, ...]
    index: jax.Array
    lengths: jax.Array
    routing: jax.Array | None = None


def cache_slots(num_tokens: int) -> int:
    """Returns the slots of a cache for ``num_tokens`` tokens: a multiple of 16.

    Other sizes cost a CPU 1.5 times as much as the next multiple, and an accelerator
    pads them.
    """
    return -(-max(num_tokens, 1) // 16) * 16


class Transformer(nnx.Module):
    """The decoder, from tokens to hidden states; :meth:`logits` applies the head.

    Args:
        arch: the architecture.
        stacked: make one block whose parameters have a leading axis of layers, for a
            scan; otherwise a list of blocks.
        rngs: draws the initial parameters.
    """

    def __init__(self, arch: Arch, *, stacked: bool, rngs: nnx.Rngs):
        self.arch = arch
        self.stacked = stacked
        self.embed = nnx.Embed(
            arch.vocab_size,
            arch.embed_dim,
            param_dtype=jnp.dtype(arch.param_dtype),
            embedding_init=jax.nn.initializers.normal(0.02),
            rngs=rngs,
        )
        if stacked:
            stack = (arch.num_layers,)
            self.layers: Any = Block(arch, arch.layers[0], stack=stack, rngs=rngs)
        else:
            self.layers = nnx.List(
                [Block(arch, layer, rngs=rngs) for layer in arch.all_layers]
            )
        self.final_norm = RMSNorm((arch.embed_dim,), arch)
        sizes = (arch.embed_dim,), (arch.vocab_size,)
        head = functools.partial(Linear, HEAD, *sizes, arch, rngs=rngs)
        self.head = None if arch.tie_embeddings else head()
        self.vision = VisionTower(arch.base, rngs=rngs) if arch.vision else None

    @staticmethod
    @functools.cache
    def parameters(arch: Arch) -> Table:
        """Lists the parameters of a network with stacked layers, in its order."""
        block = Block.parameters(arch, arch.layers[0])
        decoder, vision = 'model.', {}
        if arch.vision:
            decoder, table = 'model.language_model.', VisionTower.parameters(arch)
            vision = nested('vision', table, tensors='model.visual.')
        table = {
            'embed.embedding': EMBEDDING.within(decoder),
            **nested('layers', block, tensors=decoder + 'layers.{layer}.'),
            'final_norm.scale': norm_scale(
                f'{decoder}norm.weight', None, kind=arch.norm_scale
            ),
            **({} if arch.tie_embeddings else {'head.kernel': HEAD}),
        }
        # The tower has no adapters.
        return {**with_adapters(table, arch.lora), **vision}

    def forward(
        self,
        tokens: tuple[Int[Array, 'P N T'], ...],
        positions: tuple[Int[Array, 'P 1 T'], ...],
        lengths: Int[Array, 'P'] | None = None,
        starts: Int[Array, 'P N T'] | None = None,
        routing: Streams | None = None,
        pictures: Placed | None = None,
        *,
        keep: bool,
    ) -> tuple[Streams, tuple[KeyValues, ...] | None, Statistics]:
        """Runs entire sequences.

        Args:
            tokens: the prompts, ``[P, 1, S]``, and possibly their responses.
            positions: position of each token, for :func:`rotary`.
            lengths: tokens of each prompt that responses see.
            starts: the slot where each token's response starts, if a row has several;
                ``None``: one response per row, from slot 0.
            routing: experts that run each token, ``[L, P, N, T, k]`` for every stream;
                ``None``: the router chooses.
            pictures: features that replace the prompts' picture tokens; ``None``: the
                prompts are text.
            keep: also return the keys and values of the prompts.

        Returns:
            The hidden states of every stream, for :meth:`logits`, in the working dtype;
            each layer's keys and values of the prompts, or ``None``; and the statistics
            of the feed-forward parts, ``[L, P, N, T]`` for every stream.
        """
        xs = self._embed(*tokens)
        turns = self._turns(*positions)
        numbers = None
        if pictures is not None:
            xs = (pictures.replace(xs[0]), *xs[1:])
            numbers = jnp.arange(self.arch.num_layers)

        def run(
            block: Block, xs: Streams, layer: Layer, of_layer: Any
        ) -> tuple[Streams, tuple[KeyValues | None, Statistics]]:
            args, (routing, number) = (turns[layer.rope], lengths, starts), of_layer
            options = {'window': layer.window, 'routing': routing}
            xs, key_values, statistics = block.forward(xs, *args, **options)
            if pictures is not None:
                xs = (pictures.add_after(number, xs[0]), *xs[1:])
            return xs, (key_values if keep else None, statistics)

        of_layers = routing, numbers
        if self.stacked:
            xs, results = self._scan(run, xs, of_layers)
        else:
            results = []
            for i, layer in enumerate(self.arch.all_layers):
                of_layer = jax.tree.map(lambda x, i=i: x[i], of_layers)
                xs, result = run(self.layers[i], xs, layer, of_layer)
                results.append(result)
        key_values, statistics = zip(*results, strict=True)
        statistics = jax.tree.map(lambda *x: jnp.stack(x), *statistics)
        return xs, key_values if keep else None, statistics

    def _scan(self, run: Any, xs: Streams, of_layers: Any) -> tuple[Streams, list[Any]]:
        """Scans the stack, one pattern of layers at a time."""
        period, num_layers = len(self.arch.layers), self.arch.num_layers
        graphdef, params = nnx.split(self.layers)
        params = params, of_layers
        if period > 1:
            params = jax.tree.map(
                lambda x: x.reshape(num_layers // period, period, *x.shape[1:]), params
            )

        def one(layer: Layer, xs: Streams, params: Any) -> tuple[Streams, Any]:
            params, of_layer = params
            return run(nnx.merge(graphdef, params), xs, layer, of_layer)

        def pattern(xs: Streams, params: Any) -> tuple[Streams, list[Any]]:
            parts = unstack(params) if period > 1 else [params]
            results = []
            for layer, part in zip(self.arch.layers, parts, strict=True):
                run_one = self._remat(functools.partial(one, layer))
                xs, result = run_one(xs, part)
                results.append(result)
            return xs, results

        xs, results = jax.lax.scan(pattern, xs, params)
        return xs, [
            jax.tree.map(lambda x, i=i: x[i // period], results[i % period])
            for i in range(num_layers)
        ]

    def responses(
        self,
        prompts: Prompts,
        tokens: Int[Array, 'P N T'],
        starts: Int[Array, 'P N T'] | None,
        routing: Int[Array, 'P N T L k'] | None,
    ) -> tuple[Float[Array, 'P N T D'], Statistics]:
        """Computes the hidden state that predicts each response token, and statistics.

        The first input of a response is the last token of its prompt, so T inputs give
        T predictions. Responses do not see that token in the prompt's stream.
        """
        P, N, T = tokens.shape
        seen = prompts.lengths - 1
        last = jnp.take_along_axis(prompts.tokens, seen[:, None], axis=1)
        last = jnp.broadcast_to(last[:, None], (P, N, 1))
        inputs = jnp.concatenate([last, tokens[..., :-1]], axis=2)
        steps = jnp.arange(T)
        if starts is not None:
            steps = steps - starts
            inputs = jnp.where(steps == 0, last, inputs)
        of_prompts, after = prompt_positions(prompts), next_positions(prompts)
        before = seen if after is None else after - 1
        positions = of_prompts, before[:, None, None] + steps
        pictures = place_features(self.vision, prompts)
        streams = (prompts.tokens[:, None], inputs)
        replayed = None
        if routing is not None:
            assert prompts.routing is not None
            both = prompts.routing[:, None], routing
            replayed = tuple(jnp.moveaxis(x, 3, 0) for x in both)
        (_, hidden), _, figures = self.forward(
            streams, positions, seen, starts, replayed, pictures, keep=False
        )
        return hidden, figures

    def step(
        self, tokens: Int[Array, 'P N'], prefix: Prefix, cache: Cache
    ) -> tuple[Float[Array, 'P N D'], tuple[KeyValues, ...], Statistics]:
        """Runs the next token of every rollout.

        Returns:
            The hidden states; the layers' caches; and the statistics of the
            feed-forward parts, ``[L, P, N, 1]`` for the one stream.
        """
        (x,) = self._embed(tokens[..., None])
        positions = (prefix.lengths[:, None] + cache.lengths)[..., None]
        if prefix.next_positions is not None:
            positions = (prefix.next_positions[:, None] + cache.lengths)[..., None]
        turns = self._turns(positions)
        ring = cache.layers[0].values.shape[3]
        slot = cache.index % ring
        see = functools.partial(newest_seen, prefix.lengths, cache.lengths, slot)
        windows = {layer.window for layer in self.arch.layers}
        seen = {window: see(ring=ring, window=window) for window in windows}
        caches, figures = [], []
        for i, layer in enumerate(self.arch.all_layers):
            (turn,), (prompt, response) = turns[layer.rope], seen[layer.window]
            x, new, statistics = self.layers[i].step(
                x, turn, prefix.layers[i], prompt, cache.layers[i], response, slot
            )
            caches.append(new)
            figures.append(statistics)
        statistics = jax.tree.map(lambda *x: jnp.stack(x), *figures)
        return x[:, :, 0], tuple(caches), statistics

    def head_weights(self, shards: tuple[int, int]) -> tuple[jax.Array, jax.Array]:
        """Gathers the head for :meth:`logits`, once for all chunks.

        Args:
            shards: numbers of shards of the batch and of the rollouts.
        """
        weight, axes = self._head()
        copy = working_copy(weight, axes, jnp.dtype(self.arch.dtype))
        copy = repeat_for_shards(jax.lax.stop_gradient(copy), axes, shards)
        return repeat_for_shards(weight, axes, shards), copy

    def logits(
        self,
        hidden: Float[Array, 'G K *B D'],
        head_weights: tuple[jax.Array, jax.Array],
    ) -> Float[Array, 'G K *B V']:
        """Computes next-token logits, float32 in any working dtype.

        It also applies the final norm, so that only selected tokens need it.

        Args:
            hidden: from :meth:`forward` or :meth:`step`, split by shards.
            head_weights: from :meth:`head_weights`.
        """
        _, axes = self._head()
        (hidden,) = self.final_norm(hidden)
        return score_tokens(hidden, *head_weights, axes)

    def _head(self) -> tuple[jax.Array, Axes]:
        if self.head is None:
            return self.embed.embedding[...], EMBEDDING.axes
        return self.head.kernel[...], HEAD.axes

    def _embed(self, *tokens: jax.Array) -> Streams:
        dtype = jnp.dtype(self.arch.dtype)
        table = self.embed.embedding[...]
        xs = look_up(table, tokens, EMBEDDING.axes, dtype)
        if self.arch.scale_embedding:
            # Round the factor to the working dtype, as transformers does.
            xs = tuple(x * jnp.asarray(self.arch.embed_dim**0.5, dtype) for x in xs)
        # 'tensor' splits the table, so it cannot split the tokens.
        xs = shard_streams(xs, INSIDE_LAYERS, None)
        return shard_streams(xs, BETWEEN_LAYERS, None)

    def _turns(
        self, *positions: Int[Array, 'P N T']
    ) -> dict[Rope | None, tuple[Turn | None, ...]]:
        """Computes the rotations of every stream for each rope of the layers."""
        ropes = dict.fromkeys(layer.rope for layer in self.arch.layers)
        return {rope: tuple(self._turn(x, rope) for x in positions) for rope in ropes}

    def _turn(self, positions: Int[Array, 'P N T'], rope: Rope | None) -> Turn | None:
        if rope is None:
            return None
        turn = rotary(positions, rope, head_dim=self.arch.head_dim)
        # Without the stack and the barrier, XLA:CPU would recompute the cosines in
        # every product with them.
        cos, sin = jax.lax.optimization_barrier(jnp.stack(turn))
        return cos, sin

    def _remat(self, fn: Any) -> Any:
        if self.arch.remat == 'none':
            return fn
        policies = jax.checkpoint_policies
        policy = policies.nothing_saveable
        if saved := SAVED.get(self.arch.remat):
            by_name = policies.save_only_these_names(*saved)
            policy = policies.save_from_both_policies(
                by_name, attention_kernels.saves_cudnn_output
            )
        # XLA cannot merge recomputation across a scan, but it unrolls a scan of one.
        alone = 1 < len(self.arch.layers) == self.arch.num_layers
        return jax.checkpoint(fn, policy=policy, prevent_cse=alone)
