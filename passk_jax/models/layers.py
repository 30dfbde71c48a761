"""The layers of the transformer, on streams.

A *stream* is an array ``[P, N, T, ...]`` of activations. Layers take one (the prompts,
or the next token of every rollout) or two, the prompts ``[P, 1, S]`` and the responses
``[P, N, T]`` that go on from them: a weight is then fetched once for both.

With a ``stack`` the parameters have leading axes, for a scan to take apart: a layer is
only called when it has none. Masters are kept in ``param_dtype`` and cast to ``dtype``
at use (see master_weights.py for their gradients); norms and softmax are float32.
"""

import functools
from typing import Any

import jax
from flax import nnx
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.models import attention_kernels
from passk_jax.models.arch import Arch
from passk_jax.models.attention import KeyValues, attend_masked
from passk_jax.models.master_weights import project, spread
from passk_jax.models.rope import Turn, rotate
from passk_jax.sharding import shard

# Last two parts of a parameter's path -> logical axis of each dimension, less the
# leading one of stacked layers.
AXES = {
    'embed.embedding': ('vocab', 'embed'),
    'query.kernel': ('embed', 'heads', None),
    'key.kernel': ('embed', 'kv_heads', None),
    'value.kernel': ('embed', 'kv_heads', None),
    'query.bias': ('heads', None),
    'key.bias': ('kv_heads', None),
    'value.bias': ('kv_heads', None),
    'query_norm.scale': (None,),
    'key_norm.scale': (None,),
    'out.kernel': ('heads', None, 'embed'),
    'gate.kernel': ('embed', 'mlp'),
    'up.kernel': ('embed', 'mlp'),
    'down.kernel': ('mlp', 'embed'),
    'attention_norm.scale': (None,),
    'mlp_norm.scale': (None,),
    'final_norm.scale': (None,),
    'head.kernel': ('embed', 'vocab'),
}

# Axes of the streams [P, N, T, ...], of prompts and of responses: inside a layer, where
# heads and MLP are split over 'tensor', and between layers, where the tokens are.
INSIDE_LAYERS = (('batch', None, 'prompt_tokens'), ('batch', 'rollouts', None))
BETWEEN_LAYERS = (
    ('batch', None, 'prompt_residual'),
    ('batch', 'rollouts', 'response_residual'),
)

Streams = tuple[jax.Array, ...]
"""Activations of the prompts, or of prompts and responses, or of one next token."""


def shard_streams(
    xs: Streams, axes: tuple[tuple[str | None, ...], ...], *rest: str | None
) -> Streams:
    """Constrains streams; a single one that has rollouts is one of responses."""
    if len(xs) == 1 and xs[0].shape[1] > 1:
        axes = axes[1:]
    return tuple(shard(x, *a, *rest) for x, a in zip(xs, axes, strict=False))


class Linear(nnx.Module):
    """``x @ kernel + bias`` with the kernel's output dimensions left apart."""

    def __init__(
        self,
        name: str,
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
        self.axes = AXES[f'{name}.kernel']
        self.dtype = jnp.dtype(arch.dtype)

    def __call__(self, *xs: jax.Array) -> Streams:
        xs = tuple(x.astype(self.dtype) for x in xs)
        ys = project(xs, self.kernel[...], self.rank_in, self.axes)
        if self.bias is None:
            return ys
        return tuple(y + spread(self.bias[...], y.shape, y.dtype) for y in ys)


class RMSNorm(nnx.Module):
    """``x / rms(x) * scale``, in float32."""

    def __init__(self, size: int, arch: Arch, *, stack: tuple[int, ...] = ()):
        self.scale = nnx.Param(jnp.ones((*stack, size), jnp.dtype(arch.param_dtype)))
        self.eps = arch.norm_eps

    def __call__(self, *xs: jax.Array) -> Streams:
        return tuple(map(self._norm, xs))

    def _norm(self, x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        wide = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + self.eps)
        # As the reference does: back to the working dtype, then the scale.
        return spread(self.scale[...], x.shape, x.dtype) * wide.astype(x.dtype)


class Attention(nnx.Module):
    """Grouped-query attention over a shared prefix and the own sequence."""

    def __init__(self, arch: Arch, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs):
        embed = (arch.embed_dim,)
        queries = (arch.num_heads, arch.head_dim)
        keys = (arch.num_kv_heads, arch.head_dim)
        options = {'stack': stack, 'rngs': rngs}
        bias = arch.qkv_bias
        self.query = Linear('query', embed, queries, arch, bias=bias, **options)
        self.key = Linear('key', embed, keys, arch, bias=bias, **options)
        self.value = Linear('value', embed, keys, arch, bias=bias, **options)
        norm = functools.partial(RMSNorm, arch.head_dim, arch, stack=stack)
        self.query_norm = norm() if arch.qk_norm else None
        self.key_norm = norm() if arch.qk_norm else None
        self.out = Linear('out', queries, embed, arch, **options)
        self.scale = arch.head_dim**-0.5
        self.implementation = arch.attention

    def whole(
        self,
        xs: Streams,
        turns: tuple[Turn, ...],
        lengths: Int[Array, 'P'] | None,
        starts: Int[Array, 'P N T'] | None = None,
    ) -> tuple[Streams, KeyValues]:
        """Mixes whole streams; the first one's keys and values beside them."""
        queries, keys, values = self._project(xs, turns)
        prompt = (keys[0], values[0])
        attend_to = attention_kernels.attend_whole
        mixed = [attend_to(self.implementation, queries[0], prompt, None, None)]
        if len(xs) == 2:
            own = (keys[1], values[1])
            mixed.append(
                attend_to(self.implementation, queries[1], own, prompt, lengths, starts)
            )
        return self.out(*mixed), attention_kernels.key_values(prompt)

    def step(
        self,
        x: Float[Array, 'P N 1 D'],
        turn: Turn,
        prefix: KeyValues,
        prefix_mask: Bool[Array, 'P S'],
        cache: KeyValues,
        seen: Bool[Array, 'P N 1 T'],
        slot: Int[Array, ''],
    ) -> tuple[Float[Array, 'P N 1 D'], KeyValues]:
        """Mixes the next token of every rollout; the cache with its own added."""
        (query,), keys, values = self._project((x,), (turn,))
        new = attention_kernels.key_values((keys[0], values[0]))
        # One scalar slot for all sequences: a slice write, never a scatter.
        write = jax.lax.dynamic_update_slice_in_dim
        own = KeyValues(
            keys=write(cache.keys, new.keys, slot, 4),
            values=write(cache.values, new.values, slot, 3),
        )
        mixed = attend_masked(query, own, seen, prefix, prefix_mask)
        return self.out(mixed)[0], own

    def _project(self, xs: Streams, turns: tuple[Turn, ...]) -> tuple[Streams, ...]:
        """Queries, scaled, and keys, both turned, and values, of every stream."""
        queries, keys, values = self.query(*xs), self.key(*xs), self.value(*xs)
        if self.query_norm is not None:
            queries, keys = self.query_norm(*queries), self.key_norm(*keys)
        pairs = zip(queries, turns, strict=True)
        queries = tuple(rotate(x, turn, scale=self.scale) for x, turn in pairs)
        keys = tuple(rotate(x, turn) for x, turn in zip(keys, turns, strict=True))
        # Attention looks along all of a sequence.
        whole = tuple((batch, rollouts, None) for batch, rollouts, _ in INSIDE_LAYERS)
        return (
            shard_streams(queries, whole, 'heads', None),
            shard_streams(keys, whole, 'kv_heads', None),
            shard_streams(values, whole, 'kv_heads', None),
        )


class MLP(nnx.Module):
    """SwiGLU; its backward pass multiplies the gates again, and keeps no product."""

    def __init__(self, arch: Arch, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs):
        embed, mlp = (arch.embed_dim,), (arch.mlp_dim,)
        options = {'stack': stack, 'rngs': rngs}
        self.gate = Linear('gate', embed, mlp, arch, **options)
        self.up = Linear('up', embed, mlp, arch, **options)
        self.down = Linear('down', mlp, embed, arch, **options)

    def __call__(self, *xs: jax.Array) -> Streams:
        # Of six arrays as wide as this, two are kept. Layers that train are scanned,
        # which keeps what is computed again apart from what was.
        finish = jax.checkpoint(self._finish, prevent_cse=False)
        return finish(self.gate(*xs), self.up(*xs))

    def _finish(self, gates: Streams, ups: Streams) -> Streams:
        both = zip(gates, ups, strict=True)
        hidden = tuple(jax.nn.silu(gate) * up for gate, up in both)
        return self.down(*shard_streams(hidden, INSIDE_LAYERS, 'mlp'))


class Block(nnx.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, arch: Arch, *, stack: tuple[int, ...] = (), rngs: nnx.Rngs):
        self.attention_norm = RMSNorm(arch.embed_dim, arch, stack=stack)
        self.attention = Attention(arch, stack=stack, rngs=rngs)
        self.mlp_norm = RMSNorm(arch.embed_dim, arch, stack=stack)
        self.mlp = MLP(arch, stack=stack, rngs=rngs)

    def whole(self, xs: Streams, *args: Any) -> tuple[Streams, KeyValues]:
        mixed, kept = self.attention.whole(self.attention_norm(*xs), *args)
        return self._finish(xs, mixed), kept

    def step(
        self, x: Float[Array, 'P N 1 D'], *args: Any
    ) -> tuple[Float[Array, 'P N 1 D'], KeyValues]:
        mixed, own = self.attention.step(*self.attention_norm(x), *args)
        return self._finish((x,), (mixed,))[0], own

    def _finish(self, xs: Streams, mixed: Streams) -> Streams:
        xs = tuple(x + y for x, y in zip(xs, mixed, strict=True))
        xs = shard_streams(xs, BETWEEN_LAYERS, None)
        ys = self.mlp(*self.mlp_norm(*xs))
        xs = tuple(x + y for x, y in zip(xs, ys, strict=True))
        return shard_streams(xs, BETWEEN_LAYERS, None)
