"""The tower that reads pictures.

:class:`VisionTower` embeds the patches, runs its blocks and merges neighbouring patches
into tokens. Its features are the tokens of the last block, and the tokens of its *taps*
(some of the blocks), which the first layers of the decoder add (DeepStack,
arXiv:2406.04334). pictures.py places the features in a prompt.

Patches attend only to patches of their picture, or of their window in it. Pads count as
another picture (patches.py).
"""

import dataclasses
import functools
from typing import Any

import jax
from flax import nnx
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.models.arch import Arch, Vision
from passk_jax.models.attention import MAX_LOGITS, attend_masked
from passk_jax.models.attention_kernels import key_values
from passk_jax.models.chunks import map_chunks
from passk_jax.models.layers import (
    BETWEEN_LAYERS,
    IN_ATTENTION,
    INSIDE_LAYERS,
    Linear,
    RMSNorm,
    shard_streams,
    unstack,
)
from passk_jax.models.master_weights import Streams, project, spread
from passk_jax.models.parameters import Parameter, Table, kernel, nested, vector
from passk_jax.models.patches import locate, windows
from passk_jax.models.rope import Rope, Turn, frequencies, rotate
from passk_jax.sharding import local_size
from passk_jax.types import Images

_EPS = 1e-6
_ROPE = Rope(kind='default', theta=1e4)

TABLE = Parameter('pos_embed.weight', (None, 'embed'), dims=((0,), (1,)))
"""The table of learned positions."""
PATCH = Parameter(
    'patch_embed.proj.weight',
    (None, None, None, None, 'embed'),
    dims=((4,), (0,), (1,), (2,), (3,)),
)
"""The kernel of patches: colors, frames, and a patch's rows and columns."""


def is_of_tower(name: str) -> bool:
    """Returns whether a parameter of a policy belongs to its tower."""
    return name.startswith('vision.')


class LayerNorm(nnx.Module):
    """``(x - mean(x)) / std(x) * scale + bias``, in float32."""

    def __init__(self, size: int, arch: Arch, *, stack: tuple[int, ...] = ()):
        dtype = jnp.dtype(arch.param_dtype)
        self.scale = nnx.Param(jnp.ones((*stack, size), dtype))
        self.bias = nnx.Param(jnp.zeros((*stack, size), dtype))

    @staticmethod
    def parameters(tensor: str) -> Table:
        """Lists the parameters; ``tensor`` is the prefix of both names."""
        return {
            'scale': vector(f'{tensor}.weight', None),
            'bias': vector(f'{tensor}.bias', None),
        }

    def __call__(self, *xs: jax.Array) -> Streams:
        return tuple(map(self._norm, xs))

    def _norm(self, x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        wide = wide - wide.mean(-1, keepdims=True)
        wide = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + _EPS)
        scale, bias = (
            spread(weight[...], wide.shape, wide.dtype)
            for weight in (self.scale, self.bias)
        )
        return (wide * scale + bias).astype(x.dtype)


def _norm(size: int, arch: Arch, *, stack: tuple[int, ...] = ()) -> Any:
    if _has_gate(arch):
        return RMSNorm((size,), dataclasses.replace(arch, norm_eps=_EPS), stack=stack)
    return LayerNorm(size, arch, stack=stack)


def _norm_parameters(tensor: str, arch: Arch) -> Table:
    if _has_gate(arch):
        return {'scale': vector(f'{tensor}.weight', None)}
    return LayerNorm.parameters(tensor)


def _linear(name: str, tensor: str, inside: str, outside: str) -> Table:
    return {
        f'{name}.kernel': kernel(f'{tensor}.weight', inside, outside),
        f'{name}.bias': vector(f'{tensor}.bias', 'mlp' if outside == 'mlp' else None),
    }


def _has_gate(arch: Arch) -> bool:
    assert arch.vision is not None
    return arch.vision.block == 'swiglu'


def _gelu(x: jax.Array, *, approximate: bool) -> jax.Array:
    return jax.nn.gelu(x.astype(jnp.float32), approximate=approximate).astype(x.dtype)


class VisionBlock(nnx.Module):
    """Attention and an MLP, each after a norm and with a residual."""

    def __init__(self, arch: Arch, *, stack: tuple[int, ...], rngs: nnx.Rngs):
        vision, declared = arch.vision, self.parameters(arch)
        assert vision is not None
        D, F, J = vision.embed_dim, vision.mlp_dim, vision.num_heads
        options = {'stack': stack, 'bias': True, 'rngs': rngs}

        def linear(name: str, before: tuple, after: tuple) -> Linear:
            return Linear(declared[f'{name}.kernel'], before, after, arch, **options)

        self.attention_norm = _norm(D, arch, stack=stack)
        self.qkv = linear('qkv', (D,), (3, J, D // J))
        self.out = linear('out', (J, D // J), (D,))
        self.mlp_norm = _norm(D, arch, stack=stack)
        self.gate = linear('gate', (D,), (F,)) if _has_gate(arch) else None
        self.up = linear('up', (D,), (F,))
        self.down = linear('down', (F,), (D,))
        self.scale = (D // J) ** -0.5

    @staticmethod
    def parameters(arch: Arch) -> Table:
        """Lists the parameters; queries, keys and values are one tensor."""
        up, down, gate = 'linear_fc1', 'linear_fc2', {}
        if _has_gate(arch):
            up, down = 'up_proj', 'down_proj'
            gate = _linear('gate', 'mlp.gate_proj', 'embed', 'mlp')
        return {
            **nested('attention_norm', _norm_parameters('norm1', arch)),
            'qkv.kernel': kernel('attn.qkv.weight', 'embed', None, 'heads', None),
            'qkv.bias': vector('attn.qkv.bias', None, 'heads', None),
            'out.kernel': kernel('attn.proj.weight', 'heads', None, 'embed', inputs=2),
            'out.bias': vector('attn.proj.bias', None),
            **nested('mlp_norm', _norm_parameters('norm2', arch)),
            **gate,
            **_linear('up', f'mlp.{up}', 'embed', 'mlp'),
            **_linear('down', f'mlp.{down}', 'mlp', 'embed'),
        }

    def __call__(
        self, x: Float[Array, 'P 1 X D'], turn: Turn, pictures: Int[Array, 'P X']
    ) -> Float[Array, 'P 1 X D']:
        """Runs the patches; those of equal ``pictures`` attend to each other."""
        qkv = self.qkv(*self.attention_norm(x))
        (qkv,) = shard_streams(qkv, INSIDE_LAYERS, None, 'heads', None)
        query, key, value = (qkv[:, :, :, i] for i in range(3))
        query, key = rotate(query, turn, scale=self.scale), rotate(key, turn)
        axes = IN_ATTENTION[:1]
        query, key, value = shard_streams((query, key, value), axes * 3, 'heads', None)
        mixed = (_attend(query, key, value, pictures),)
        (mixed,) = self.out(*shard_streams(mixed, axes, 'heads', None))
        (x,) = shard_streams((x + mixed,), BETWEEN_LAYERS, None)
        normed = self.mlp_norm(x)
        (hidden,) = shard_streams(self.up(*normed), INSIDE_LAYERS, 'mlp')
        if self.gate is None:
            hidden = _gelu(hidden, approximate=True)
        else:
            (gate,) = shard_streams(self.gate(*normed), INSIDE_LAYERS, 'mlp')
            hidden = jax.nn.silu(gate) * hidden
        (mixed,) = self.down(hidden)
        return shard_streams((x + mixed,), BETWEEN_LAYERS, None)[0]


def _attend(
    query: Float[Array, 'P 1 X J H'],
    key: Float[Array, 'P 1 X J H'],
    value: Float[Array, 'P 1 X J H'],
    pictures: Int[Array, 'P X'],
    *,
    max_logits: int = MAX_LOGITS,
) -> Float[Array, 'P 1 X J H']:
    """Attends within each picture, with chunks of queries as ``attention.attend``."""
    P, _, X, J, _ = query.shape
    pair = key_values((key, value))
    (pictures,) = shard_streams((pictures[:, None],), IN_ATTENTION)

    def part(args: tuple[jax.Array, ...]) -> jax.Array:
        query, of_queries = args
        seen = of_queries[..., None] == pictures[:, :, None]
        return attend_masked(query, pair, seen, None, None)

    rows = local_size('batch', P) * local_size('heads', J)
    width = max(1, max_logits // (rows * X))
    if width < X:
        part = jax.checkpoint(part)
    return map_chunks(part, (query, pictures), max_width=width)


class Merger(nnx.Module):
    """Merges the patches of a square to a token.

    The norm is over a patch, or over all patches of the square if ``of_square``.
    """

    def __init__(
        self,
        arch: Arch,
        *,
        of_square: bool,
        stack: tuple[int, ...] = (),
        rngs: nnx.Rngs,
    ):
        vision, declared = arch.vision, self.parameters(arch)
        assert vision is not None
        self.width = vision.embed_dim * vision.merge_size**2
        self.of_square = of_square
        size = self.width if of_square else vision.embed_dim
        sizes = (self.width,), (self.width,), (arch.embed_dim,)
        options = {'stack': stack, 'bias': True, 'rngs': rngs}
        self.norm = _norm(size, arch, stack=stack)
        self.up = Linear(declared['up.kernel'], *sizes[:2], arch, **options)
        self.down = Linear(declared['down.kernel'], *sizes[1:], arch, **options)

    @staticmethod
    def parameters(arch: Arch) -> Table:
        """Lists the parameters."""
        norm, up, down = 'norm', 'linear_fc1', 'linear_fc2'
        if _has_gate(arch):
            norm, up, down = 'ln_q', 'mlp.0', 'mlp.2'
        return {
            **nested('norm', _norm_parameters(norm, arch)),
            **_linear('up', up, 'embed', 'mlp'),
            **_linear('down', down, 'mlp', 'embed'),
        }

    def __call__(self, x: Float[Array, 'P 1 X D']) -> Float[Array, 'P M D']:
        """Merges the patches of each square, which are neighbours."""
        xs = (x,) if self.of_square else self.norm(x)
        xs = tuple(x.reshape(*x.shape[:2], -1, self.width) for x in xs)
        hidden = self.up(*(self.norm(*xs) if self.of_square else xs))
        (hidden,) = shard_streams(hidden, INSIDE_LAYERS, 'mlp')
        # Exact, unlike the approximation in the blocks.
        (merged,) = self.down(_gelu(hidden, approximate=False))
        return merged[:, 0]


class VisionTower(nnx.Module):
    """Reads the pictures of prompts."""

    def __init__(self, arch: Arch, *, rngs: nnx.Rngs):
        vision = arch.vision
        assert vision is not None
        self.vision: Vision = vision
        dtype, side = jnp.dtype(arch.param_dtype), vision.patch_size
        draw = jax.nn.initializers.lecun_normal(in_axis=(0, 1, 2, 3), out_axis=4)
        shape = (3, vision.frames, side, side, vision.embed_dim)
        self.patch_kernel = nnx.Param(draw(rngs.params(), shape, dtype))
        size, shape = vision.table_size, (vision.table_size**2, vision.embed_dim)
        zeros = jnp.zeros(vision.embed_dim, dtype)
        self.patch_bias = nnx.Param(zeros) if size else None
        draw = functools.partial(jax.nn.initializers.normal(0.02), shape=shape)
        table = nnx.Param(draw(rngs.params(), dtype=dtype)) if size else None
        self.position_embedding = table
        self.blocks = VisionBlock(arch, stack=(vision.depth,), rngs=rngs)
        self.merger = Merger(arch, of_square=False, rngs=rngs)
        stack = (len(vision.taps),)
        taps = functools.partial(Merger, arch, of_square=True, stack=stack, rngs=rngs)
        self.taps = taps() if vision.taps else None
        self.dtype, self.remat = jnp.dtype(arch.dtype), arch.remat != 'none'

    @staticmethod
    def parameters(arch: Arch) -> Table:
        """Lists the tower's parameters."""
        vision = arch.vision
        assert vision is not None
        bias = vector('patch_embed.proj.bias', None)
        table = {'patch_bias': bias, 'position_embedding': TABLE}
        merger, block = Merger.parameters(arch), VisionBlock.parameters(arch)
        taps = nested('taps', merger, tensors='deepstack_merger_list.{tap}.')
        return {
            'patch_kernel': PATCH,
            **(table if vision.table_size else {}),
            **nested('blocks', block, tensors='blocks.{block}.'),
            **nested('merger', merger, tensors='merger.'),
            **(taps if vision.taps else {}),
        }

    def __call__(self, images: Images) -> Float[Array, 'P K M D']:
        """Computes the features of each token, in the working dtype.

        Returns:
            K features of each token: first the one that replaces it in the prompt, then
            one for each tap.
        """
        vision = self.vision
        pictures, places, shapes = locate(
            images.grids,
            num_patches=images.patches.shape[1],
            merge_size=vision.merge_size,
        )
        x = self._embed(images.patches, places, shapes)
        turn = self._turn(places)
        graphdef, params = nnx.split(self.blocks)
        is_global = within = None
        if side := vision.window_patches:
            within = windows(pictures, places, shapes, side=side)
            blocks = jnp.array(vision.global_blocks, int)
            is_global = jnp.isin(jnp.arange(vision.depth), blocks)

        def run(x: jax.Array, of_block: Any) -> tuple[jax.Array, None]:
            params, is_global = of_block
            groups = pictures
            if within is not None:
                groups = jnp.where(is_global, pictures, within)
            return nnx.merge(graphdef, params)(x, turn, groups), None

        body = jax.checkpoint(run, prevent_cse=False) if self.remat else run
        # The gradient of a split is a concatenation; slices would be added up.
        stops = [tap + 1 for tap in vision.taps if tap + 1 < vision.depth]
        leaves, tree = jax.tree.flatten((params, is_global))
        parts = zip(*(jnp.split(leaf, stops) for leaf in leaves), strict=True)
        outputs = []
        for part in parts:
            x, _ = jax.lax.scan(body, x, tree.unflatten(part))
            outputs.append(x)
        features = [self.merger(x)]
        if self.taps is not None:
            of_taps, params = nnx.split(self.taps)
            # The last output may be after the last tap.
            for of_tap, output in zip(unstack(params), outputs, strict=False):
                features.append(nnx.merge(of_taps, of_tap)(output))
        return jnp.stack(features, axis=1)

    def _embed(
        self,
        patches: Float[Array, 'P X values'],
        places: Int[Array, 'P X 2'],
        shapes: Int[Array, 'P X 2'],
    ) -> Float[Array, 'P 1 X D']:
        """Embeds patches and their places in a position table that spans a picture."""
        # All frames of a still picture are equal; a bfloat16 sum would be rounded.
        weight = self.patch_kernel[...].astype(jnp.float32).sum(axis=1)
        weight = weight.reshape(-1, self.vision.embed_dim)
        x = (patches[:, None].astype(self.dtype),)
        (x,) = project(x, weight, 1, (None, 'embed'))
        if self.patch_bias is None or self.position_embedding is None:
            return shard_streams((x,), BETWEEN_LAYERS, None)[0]
        x = x + spread(self.patch_bias[...], x.shape, x.dtype)
        size = self.vision.table_size
        steps = (size - 1) / jnp.maximum(shapes - 1, 1).astype(jnp.float32)
        apart = (places * steps)[..., None] - jnp.arange(size)
        shares = jnp.maximum(0, 1 - jnp.abs(apart))
        shares = shares[:, :, 0, :, None] * shares[:, :, 1, None]
        shares = (shares.reshape(*shares.shape[:2], -1)[:, None],)
        # The shares are float32, so no platform rounds them.
        (positions,) = project(shares, self.position_embedding[...], 1, TABLE.axes)
        x = x + positions.astype(x.dtype)
        return shard_streams((x,), BETWEEN_LAYERS, None)[0]

    def _turn(self, places: Int[Array, 'P X 2']) -> Turn:
        """Computes each patch's rotation, by its row and its column."""
        quarter = frequencies(
            _ROPE, head_dim=self.vision.embed_dim // self.vision.num_heads // 2
        )
        angles = places[..., None].astype(jnp.float32) * quarter
        angles = angles.reshape(*places.shape[:2], -1)[:, None, :, None]
        turn = jnp.stack([jnp.cos(angles), jnp.sin(angles)])
        cos, sin = jax.lax.optimization_barrier(turn)
        return cos, sin
