"""The layers of the transformer, on streams.

A *stream* is an array ``[P, N, T, ...]`` of activations. A layer takes one stream (the
prompts, or the next token of every rollout) or two: the prompts ``[P, 1, S]`` and the
responses ``[P, N, T]`` that continue them. Two streams share one read of each weight.

A class declares its ``parameters(arch)`` (parameters.py). A ``stack`` adds leading
axes, which a scan splits before it calls the layer. Master weights have ``param_dtype``
and are cast to ``dtype`` at use (master_weights.py has their gradients). Norms and
softmax are float32.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
from flax import nnx
from jax import numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from passk_jax.models import attention_kernels, lora
from passk_jax.models.arch import Arch
from passk_jax.models.attention import KeyValues, map_slots
from passk_jax.models.decode_attention import Seen, attend_newest
from passk_jax.models.master_weights import Axes, Streams, project, spread
from passk_jax.models.parameters import (
    Parameter,
    Table,
    kernel,
    norm_scale,
    vector,
)
from passk_jax.models.quantized import quantize
from passk_jax.models.rope import Turn, rotate
from passk_jax.sharding import shard

PROJECTED = 'qkv'
"""Name of queries, keys and values for remat policies."""

Statistics = Mapping[str, Streams]
"""Figures of a layer by name, one for each token of a stream: ``[P, N, T]`` float32,
for a mean over layers and tokens, or with more axes behind, for other uses.

Pads have figures too, so a mean must leave them out.
"""

# Axes of the streams [P, N, T, ...]: of prompts, then of responses. 'tensor' splits
# heads and MLP inside a layer, and tokens between layers.
INSIDE_LAYERS = (('batch', None, 'prompt_tokens'), ('batch', 'rollouts', None))
BETWEEN_LAYERS = (
    ('batch', None, 'prompt_residual'),
    ('batch', 'rollouts', 'response_residual'),
)
# Attention looks along the whole sequence, so its tokens are not split.
IN_ATTENTION = tuple((*axes[:2], None) for axes in INSIDE_LAYERS)


def shard_streams(
    xs: Streams, axes: tuple[Axes, ...], *feature_axes: str | None
) -> Streams:
    """Constrains the sharding of streams to the axes from :func:`stream_axes`."""
    pairs = zip(xs, stream_axes(xs, axes), strict=True)
    return tuple(shard(x, *a, *feature_axes) for x, a in pairs)


def stream_axes(xs: Streams, axes: tuple[Axes, ...]) -> tuple[Axes, ...]:
    """Picks the axes of each stream; a single one with N > 1 has those of responses."""
    first = len(xs) == 1 and xs[0].shape[1] > 1
    return axes[first : first + len(xs)]


def unstack(tree: Any) -> list[Any]:
    """Splits the first axis of all arrays of a tree: returns a tree for each index.

    Gradients add up in place through it, but not through ``x[i]``: JAX (0.10.2) cannot
    add to a slice in place.
    """
    leaves, structure = jax.tree.flatten(tree)
    parts = zip(*map(jnp.unstack, leaves), strict=True)
    return [structure.unflatten(part) for part in parts]


class Linear(nnx.Module):
    """``x @ kernel + bias``; the kernel may have several output dimensions.

    With an adapter (lora.py) it adds ``scale * (x @ lora_a) @ lora_b``.
    """

    def __init__(
        self,
        declared: Parameter,
        features_in: tuple[int, ...],
        features_out: tuple[int, ...],
        arch: Arch,
        *,
        stack: tuple[int, ...] = (),
        bias: bool = False,
        rngs: nnx.Rngs,
    ):
        dtype = jnp.dtype(arch.param_dtype)
        first, last = len(stack), len(stack) + len(features_in)
        initializer = jax.nn.initializers.lecun_normal(
            in_axis=tuple(range(first, last)),
            out_axis=tuple(range(last, last + len(features_out))),
            batch_axis=tuple(range(first)),
        )
        shape = (*stack, *features_in, *features_out)
        self.kernel = nnx.Param(initializer(rngs.params(), shape, dtype))
        zeros = jnp.zeros((*stack, *features_out), dtype)
        self.bias = nnx.Param(zeros) if bias else None
        self.rank_in = len(features_in)
        self.axes = declared.axes
        self.dtype = jnp.dtype(arch.dtype)
        adapters = _adapter(declared, features_in, features_out, arch, stack, rngs)
        self.lora_a, self.lora_b = adapters
        self.lora = arch.lora
        self.lora_axes = tuple(x.axes for x in lora.adapters(declared, self.rank_in))

    def __call__(self, *xs: jax.Array) -> Streams:
        xs = tuple(x.astype(self.dtype) for x in xs)
        ys = project(xs, self.kernel[...], self.rank_in, self.axes)
        if self.lora_a is not None and self.lora_b is not None and self.lora:
            axes_a, axes_b = self.lora_axes
            zs = project(xs, self.lora_a[...], self.rank_in, axes_a)
            # In bfloat16, most factors would be rounded, by up to 0.4 %.
            zs = (self.lora.scale * z.astype(jnp.float32) for z in zs)
            zs = tuple(z.astype(self.dtype) for z in zs)
            zs = project(zs, self.lora_b[...], 1, axes_b)
            ys = tuple(y + z for y, z in zip(ys, zs, strict=True))
        if self.bias is None:
            return ys
        return tuple(y + spread(self.bias[...], y.shape, y.dtype) for y in ys)


def _adapter(
    declared: Parameter,
    features_in: tuple[int, ...],
    features_out: tuple[int, ...],
    arch: Arch,
    stack: tuple[int, ...],
    rngs: nnx.Rngs,
) -> tuple[nnx.Param, nnx.Param] | tuple[None, None]:
    """Draws an adapter like PEFT: A uniform within 1 / sqrt(inputs), B zero."""
    if arch.lora is None or not arch.lora.adapts(declared):
        return None, None
    rank, dtype = arch.lora.rank, jnp.dtype(arch.param_dtype)
    bound = math.prod(features_in) ** -0.5
    shape = *stack, *features_in, rank
    a = jax.random.uniform(rngs.adapters(), shape, dtype, minval=-bound, maxval=bound)
    b = jnp.zeros((*stack, rank, *features_out), dtype)
    return nnx.Param(a), nnx.Param(b)


class RMSNorm(nnx.Module):
    """``x / rms(x) * scale``, in float32; ``arch.norm_scale`` says how it scales.

    Args:
        shape: the last dimensions of a stream, over which the mean square is taken.
        arch: the architecture.
        stack: leading axes of the scale.
    """

    def __init__(
        self, shape: tuple[int, ...], arch: Arch, *, stack: tuple[int, ...] = ()
    ):
        one_plus = arch.norm_scale == 'one_plus'
        initial = jnp.zeros if one_plus else jnp.ones
        self.scale = nnx.Param(initial((*stack, *shape), jnp.dtype(arch.param_dtype)))
        self.axes = tuple(range(-len(shape), 0))
        self.kind = arch.norm_scale
        self.eps = arch.norm_eps

    def __call__(self, *xs: jax.Array) -> Streams:
        return tuple(map(self._norm, xs))

    def _norm(self, x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        mean = jnp.square(wide).mean(self.axes, keepdims=True)
        wide = wide * jax.lax.rsqrt(mean + self.eps)
        # The order of operations is that of transformers.
        if self.kind == 'cast':
            return spread(self.scale[...], x.shape, x.dtype) * wide.astype(x.dtype)
        scale = spread(self.scale[...], x.shape, jnp.float32)
        return (wide * (scale + (self.kind == 'one_plus'))).astype(x.dtype)


class Attention(nnx.Module):
    """Grouped-query attention to a shared prefix and to the query's own sequence."""

    def __init__(self, arch: Arch, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs):
        embed = (arch.embed_dim,)
        queries = (arch.num_heads, arch.head_dim)
        keys = (arch.num_kv_heads, arch.head_dim)
        declared = self.parameters(arch)

        def linear(name: str, before: tuple, after: tuple, *, bias: bool) -> Linear:
            row = declared[f'{name}.kernel']
            return Linear(row, before, after, arch, stack=stack, bias=bias, rngs=rngs)

        self.query = linear('query', embed, queries, bias=arch.qkv_bias)
        self.key = linear('key', embed, keys, bias=arch.qkv_bias)
        self.value = linear('value', embed, keys, bias=arch.qkv_bias)
        first = 0 if arch.qk_norm_over_heads else 1
        norm = functools.partial(RMSNorm, arch=arch, stack=stack)
        self.query_norm = norm(queries[first:]) if arch.qk_norm else None
        self.key_norm = norm(keys[first:]) if arch.qk_norm else None
        self.out = linear('out', queries, embed, bias=False)
        self.scale = (arch.query_scalar or arch.head_dim) ** -0.5
        self.implementation = arch.attention

    @staticmethod
    def parameters(arch: Arch) -> Table:
        """Lists the attention's parameters."""
        table = {}
        letters = {'query': 'q', 'key': 'k', 'value': 'v'}
        for name, letter in letters.items():
            tensor = f'self_attn.{letter}_proj'
            heads = 'heads' if name == 'query' else 'kv_heads'
            table[f'{name}.kernel'] = kernel(f'{tensor}.weight', 'embed', heads, None)
            if arch.qkv_bias:
                table[f'{name}.bias'] = vector(f'{tensor}.bias', heads, None)
        for name, heads in (('query', 'heads'), ('key', 'kv_heads')):
            if arch.qk_norm:
                axes = (heads, None) if arch.qk_norm_over_heads else (None,)
                tensor = f'self_attn.{letters[name]}_norm.weight'
                row = norm_scale(tensor, *axes, kind=arch.norm_scale)
                table[f'{name}_norm.scale'] = row
        out = ('heads', None, 'embed')
        table['out.kernel'] = kernel('self_attn.o_proj.weight', *out, inputs=2)
        return table

    def forward(
        self,
        xs: Streams,
        turns: tuple[Turn | None, ...],
        lengths: Int[Array, 'P'] | None,
        starts: Int[Array, 'P N T'] | None = None,
        *,
        window: int = 0,
    ) -> tuple[Streams, KeyValues]:
        """Attends in entire streams; also returns keys and values of the first."""
        queries, keys, values = (
            tuple(checkpoint_name(x, PROJECTED) for x in streams)
            for streams in self._project(xs, turns)
        )
        prompt = (keys[0], values[0])
        attend_to = functools.partial(
            attention_kernels.attend_whole, self.implementation, window=window
        )
        mixed = [attend_to(queries[0], prompt, None, None)]
        if len(xs) == 2:
            response = (keys[1], values[1])
            mixed.append(attend_to(queries[1], response, prompt, lengths, starts))
        mixed = shard_streams(tuple(mixed), IN_ATTENTION, 'heads', None)
        return self.out(*mixed), attention_kernels.key_values(prompt)

    def step(
        self,
        x: Float[Array, 'P N 1 D'],
        turn: Turn | None,
        prefix: KeyValues,
        seen_prefix: Seen,
        cache: KeyValues,
        seen: Seen,
        slot: Int[Array, ''],
    ) -> tuple[Float[Array, 'P N 1 D'], KeyValues]:
        """Attends with the next token of each rollout; also returns the new cache."""
        (query,), keys, values = self._project((x,), (turn,))
        new = attention_kernels.key_values((keys[0], values[0]))
        if cache.scales is not None:
            new = quantize(new)
        # All sequences write the same slot, so this is a slice and not a scatter.
        write = jax.lax.dynamic_update_slice_in_dim
        updated = map_slots(lambda x, y, axis: write(x, y, slot, axis), cache, new)
        mixed = attend_newest(
            self.implementation, query, updated, seen, prefix, seen_prefix
        )
        return self.out(mixed)[0], updated

    def _project(
        self, xs: Streams, turns: tuple[Turn | None, ...]
    ) -> tuple[Streams, ...]:
        """Computes scaled, rotated queries, rotated keys, and values of each stream."""
        # Otherwise XLA would norm and rotate split tokens before it splits the heads.
        queries = shard_streams(self.query(*xs), INSIDE_LAYERS, 'heads', None)
        keys = shard_streams(self.key(*xs), INSIDE_LAYERS, 'kv_heads', None)
        values = shard_streams(self.value(*xs), INSIDE_LAYERS, 'kv_heads', None)
        if self.query_norm is not None and self.key_norm is not None:
            queries, keys = self.query_norm(*queries), self.key_norm(*keys)
        pairs = zip(queries, turns, strict=True)
        queries = tuple(rotate(x, turn, scale=self.scale) for x, turn in pairs)
        keys = tuple(rotate(x, turn) for x, turn in zip(keys, turns, strict=True))
        return (
            shard_streams(queries, IN_ATTENTION, 'heads', None),
            shard_streams(keys, IN_ATTENTION, 'kv_heads', None),
            shard_streams(values, IN_ATTENTION, 'kv_heads', None),
        )
