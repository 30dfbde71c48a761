"""Qwen2: grouped-query attention with QKV bias, rotary positions, SwiGLU.

One forward serves prefill, training and decoding. Tokens are ``[P, N, T]``: N
sequences of each of P problems. Every token attends, in one softmax, to

1. the *prefix*: keys and values of its problem's prompt, stored once a problem; and
2. its own sequence: causally, or through a decode cache.

So a prompt is run once for its N rollouts when sampling and when training alike, and
the gradient through the prefix is exact. Sequences are right-padded: causality alone
keeps pads out of real tokens, and only the prefix needs a mask.

Parameters have logical axis names (:data:`AXES`); masters are kept in
``param_dtype`` and cast to ``dtype`` at use (see masters.py for their gradients); norms
and softmax are float32.
"""

import dataclasses

import jax
from flax import nnx
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.models.attention import KeyValues, attend, rotary, rotate
from passk_jax.models.masters import look_up, project, spread
from passk_jax.sharding import shard


@dataclasses.dataclass(frozen=True)
class Qwen2Config:
    """The architecture.

    Attributes:
        vocab_size: V, rows of the token table.
        num_layers: L.
        embed_dim: D.
        num_heads: J, query heads; a multiple of ``num_kv_heads``.
        num_kv_heads: C, key/value heads.
        head_dim: H, even.
        mlp_dim: F.
        rope_theta: base of the rotary frequencies.
        norm_eps: added to the mean square in the norms.
        tie_embeddings: the token table is the head too.
        param_dtype: dtype of the master weights.
        dtype: dtype of activations and matrix products.
        remat: recompute each layer in the backward pass.
    """

    vocab_size: int
    num_layers: int
    embed_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    mlp_dim: int
    rope_theta: float
    norm_eps: float
    tie_embeddings: bool
    param_dtype: str
    dtype: str
    remat: bool

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type in (int, float) and not value > 0:
                raise ValueError(f'{field.name}={value} must be positive')
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f'{self.num_heads=} must be a multiple of {self.num_kv_heads=}'
            )
        if self.head_dim % 2:
            raise ValueError(f'{self.head_dim=} must be even for rotary positions')


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prefix:
    """The prompts' keys and values: one :class:`KeyValues` a layer, and lengths."""

    layers: tuple[KeyValues, ...]
    lengths: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cache:
    """The responses' keys and values while decoding, one :class:`KeyValues` a layer.

    ``index`` is the scalar slot that the next token writes; slots past it are dead.
    """

    layers: tuple[KeyValues, ...]
    index: jax.Array


# Last two parts of a parameter's path -> logical axis of each dimension.
AXES = {
    'embed.embedding': ('vocab', 'embed'),
    'query.kernel': ('embed', 'heads', None),
    'key.kernel': ('embed', 'kv_heads', None),
    'value.kernel': ('embed', 'kv_heads', None),
    'query.bias': ('heads', None),
    'key.bias': ('kv_heads', None),
    'value.bias': ('kv_heads', None),
    'out.kernel': ('heads', None, 'embed'),
    'gate.kernel': ('embed', 'mlp'),
    'up.kernel': ('embed', 'mlp'),
    'down.kernel': ('mlp', 'embed'),
    'attention_norm.scale': (None,),
    'mlp_norm.scale': (None,),
    'final_norm.scale': (None,),
    'head.kernel': ('embed', 'vocab'),
}


class Linear(nnx.Module):
    """``x @ kernel + bias`` with the kernel's output dimensions left apart."""

    def __init__(
        self,
        features_in: tuple[int, ...],
        features_out: tuple[int, ...],
        config: Qwen2Config,
        *,
        bias: bool = False,
        rngs: nnx.Rngs,
    ):
        dtype = jnp.dtype(config.param_dtype)
        rank_in, rank_out = len(features_in), len(features_out)
        initializer = jax.nn.initializers.lecun_normal(
            in_axis=tuple(range(rank_in)),
            out_axis=tuple(range(rank_in, rank_in + rank_out)),
        )
        shape = (*features_in, *features_out)
        self.kernel = nnx.Param(initializer(rngs.params(), shape, dtype))
        self.bias = nnx.Param(jnp.zeros(features_out, dtype)) if bias else None
        self.rank_in = rank_in
        self.dtype = jnp.dtype(config.dtype)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = project(x.astype(self.dtype), self.kernel[...], self.rank_in)
        return y if self.bias is None else y + spread(self.bias[...], y.shape, y.dtype)


class RMSNorm(nnx.Module):
    """``x / rms(x) * scale``, in float32."""

    def __init__(self, config: Qwen2Config):
        dtype = jnp.dtype(config.param_dtype)
        self.scale = nnx.Param(jnp.ones((config.embed_dim,), dtype))
        self.eps = config.norm_eps

    def __call__(self, x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        wide = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + self.eps)
        # As the reference does: back to the working dtype, then the scale.
        return spread(self.scale[...], x.shape, x.dtype) * wide.astype(x.dtype)


class Attention(nnx.Module):
    """Grouped-query attention over a shared prefix and the own sequence."""

    def __init__(self, config: Qwen2Config, *, rngs: nnx.Rngs):
        embed = (config.embed_dim,)
        queries = (config.num_heads, config.head_dim)
        keys = (config.num_kv_heads, config.head_dim)
        self.query = Linear(embed, queries, config, bias=True, rngs=rngs)
        self.key = Linear(embed, keys, config, bias=True, rngs=rngs)
        self.value = Linear(embed, keys, config, bias=True, rngs=rngs)
        self.out = Linear(queries, embed, config, rngs=rngs)
        self.scale = config.head_dim**-0.5

    def __call__(
        self,
        x: Float[Array, 'P N T D'],
        turn: tuple[jax.Array, jax.Array],
        prefix: KeyValues | None,
        prefix_mask: Bool[Array, 'P S'] | None,
        cache: KeyValues | None,
        index: Int[Array, ''] | None,
    ) -> tuple[Float[Array, 'P N T D'], KeyValues]:
        query = rotate(self.query(x), turn, scale=self.scale)
        query = shard(query, 'batch', None, None, 'heads', None)
        key = rotate(self.key(x), turn)
        key = shard(key, 'batch', None, None, 'kv_heads', None)
        key = key.transpose(0, 3, 1, 4, 2)
        value = shard(self.value(x), 'batch', None, None, 'kv_heads', None)
        value = value.transpose(0, 3, 1, 2, 4)
        last = jnp.arange(x.shape[2])
        if cache is None:
            own = KeyValues(keys=key, values=value)
        else:
            # One scalar index for all sequences: a slice write, never a scatter.
            own = KeyValues(
                keys=jax.lax.dynamic_update_slice_in_dim(cache.keys, key, index, 4),
                values=jax.lax.dynamic_update_slice_in_dim(
                    cache.values, value, index, 3
                ),
            )
            last = index + last
        mixed = attend(query, own, last, prefix, prefix_mask)
        return self.out(mixed), own


class MLP(nnx.Module):
    """SwiGLU."""

    def __init__(self, config: Qwen2Config, *, rngs: nnx.Rngs):
        embed, mlp = (config.embed_dim,), (config.mlp_dim,)
        self.gate = Linear(embed, mlp, config, rngs=rngs)
        self.up = Linear(embed, mlp, config, rngs=rngs)
        self.down = Linear(mlp, embed, config, rngs=rngs)

    def __call__(self, x: Float[Array, 'P N T D']) -> Float[Array, 'P N T D']:
        hidden = jax.nn.silu(self.gate(x)) * self.up(x)
        return self.down(shard(hidden, 'batch', None, None, 'mlp'))


class Block(nnx.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, config: Qwen2Config, *, rngs: nnx.Rngs):
        self.attention_norm = RMSNorm(config)
        self.attention = Attention(config, rngs=rngs)
        self.mlp_norm = RMSNorm(config)
        self.mlp = MLP(config, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, 'P N T D'],
        turn: tuple[jax.Array, jax.Array],
        prefix: KeyValues | None,
        prefix_mask: Bool[Array, 'P S'] | None,
        cache: KeyValues | None,
        index: Int[Array, ''] | None,
    ) -> tuple[Float[Array, 'P N T D'], KeyValues]:
        mixed, own = self.attention(
            self.attention_norm(x), turn, prefix, prefix_mask, cache, index
        )
        x = shard(x + mixed, 'batch', None, None, None)
        x = x + self.mlp(self.mlp_norm(x))
        return shard(x, 'batch', None, None, None), own


class Embed(nnx.Module):
    """The token table."""

    def __init__(self, config: Qwen2Config, *, rngs: nnx.Rngs):
        shape = (config.vocab_size, config.embed_dim)
        initializer = jax.nn.initializers.normal(0.02)
        table = initializer(rngs.params(), shape, jnp.dtype(config.param_dtype))
        self.embedding = nnx.Param(table)


class Qwen2(nnx.Module):
    """The decoder: tokens to hidden states; the head is applied by the caller."""

    def __init__(self, config: Qwen2Config, *, rngs: nnx.Rngs):
        self.config = config
        self.embed = Embed(config, rngs=rngs)
        self.layers = nnx.List(
            [Block(config, rngs=rngs) for _ in range(config.num_layers)]
        )
        self.final_norm = RMSNorm(config)
        if config.tie_embeddings:
            self.head = None
        else:
            features = (config.embed_dim,), (config.vocab_size,)
            self.head = Linear(*features, config, rngs=rngs)

    def __call__(
        self,
        tokens: Int[Array, 'P N T'],
        positions: Int[Array, 'P N T'],
        *,
        prefix: Prefix | None = None,
        cache: Cache | None = None,
    ) -> tuple[Float[Array, 'P N T D'], tuple[KeyValues, ...]]:
        """Runs the layers.

        Args:
            tokens: right-padded sequences, or the T next tokens of a cache.
            positions: absolute position of each token, the prefix counted.
            prefix: keys and values of the prompts, one copy a problem.
            cache: keys and values of earlier tokens of these sequences.

        Returns:
            What :meth:`logits` takes, in the working dtype, and each layer's keys
            and values: the updated cache, or those of ``tokens``.
        """
        dtype = jnp.dtype(self.config.dtype)
        x = look_up(self.embed.embedding[...], tokens, dtype)
        x = shard(x, 'batch', None, None, None)
        turn = rotary(
            positions, head_dim=self.config.head_dim, theta=self.config.rope_theta
        )
        prefix_mask = None
        if prefix is not None:
            slots = jnp.arange(prefix.layers[0].values.shape[2])
            prefix_mask = slots < prefix.lengths[:, None]
        block = nnx.remat(Block.__call__) if self.config.remat else Block.__call__
        kept = []
        for i, layer in enumerate(self.layers):
            before = None if prefix is None else prefix.layers[i]
            earlier = None if cache is None else cache.layers[i]
            index = None if cache is None else cache.index
            x, own = block(layer, x, turn, before, prefix_mask, earlier, index)
            kept.append(own)
        return x, tuple(kept)

    def logits(self, hidden: Float[Array, '*B D']) -> Float[Array, '*B V']:
        """Next-token logits, float32 whatever the working dtype.

        The final norm is here, after the caller has picked the tokens it wants.
        """
        dtype = jnp.dtype(self.config.dtype)
        hidden = self.final_norm(hidden)
        if self.head is None:
            kernel = self.embed.embedding[...].T
        else:
            kernel = self.head.kernel[...]
        return jnp.matmul(
            hidden, kernel.astype(dtype), preferred_element_type=jnp.float32
        )
