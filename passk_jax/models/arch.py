"""The architecture of a transformer, as every family states it."""

import dataclasses

from passk_jax.errors import InputError
from passk_jax.models.attention_kernels import IMPLEMENTATIONS
from passk_jax.models.rope import Rope

REMAT = ('none', 'full', 'attention')
"""What the backward pass recomputes of a layer: nothing, all, or all but attention."""


@dataclasses.dataclass(frozen=True)
class Arch:
    """The architecture.

    Attributes:
        vocab_size: V, rows of the token table.
        num_layers: L.
        embed_dim: D.
        num_heads: J, query heads; a multiple of ``num_kv_heads``.
        num_kv_heads: C, key/value heads.
        head_dim: H, even.
        mlp_dim: F.
        rope: rotary positions.
        norm_eps: added to the mean square in the norms.
        tie_embeddings: the token table is the head too.
        qkv_bias: queries, keys and values have a bias.
        qk_norm: queries and keys are normalised head by head.
        param_dtype: dtype of the master weights.
        dtype: dtype of activations and matrix products.
        remat: one of :data:`REMAT`.
        attention: one of ``attention_kernels.IMPLEMENTATIONS``.
    """

    vocab_size: int
    num_layers: int
    embed_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    mlp_dim: int
    rope: Rope
    norm_eps: float
    tie_embeddings: bool
    qkv_bias: bool
    qk_norm: bool
    param_dtype: str
    dtype: str
    remat: str
    attention: str

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type in (int, float) and not value > 0:
                raise InputError(f'{field.name}={value} must be positive')
        if self.num_heads % self.num_kv_heads:
            raise InputError(
                f'num_heads={self.num_heads} must be a multiple of '
                f'num_kv_heads={self.num_kv_heads}'
            )
        if self.head_dim % 2:
            raise InputError(
                f'head_dim={self.head_dim} must be even: rotary positions turn pairs'
            )
        if self.remat not in REMAT:
            raise InputError(f'remat={self.remat!r} is none of {REMAT}')
        if self.attention not in IMPLEMENTATIONS:
            raise InputError(
                f'attention={self.attention!r} is none of {IMPLEMENTATIONS}'
            )
