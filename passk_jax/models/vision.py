"""The tower that reads pictures.

1. :func:`locate` gives each patch its picture, and its row and column there.
2. :class:`VisionTower` embeds the patches, runs its blocks and merges neighbouring
   patches into tokens. Its features are those tokens, and those that it makes of the
   outputs of its *taps*: the first layers of the decoder add these (DeepStack,
   arXiv:2406.04334). pictures.py places the features in a prompt.

Patches of one picture attend to each other and to nothing else. Pads are a picture of
their own.
"""

import functools

import jax
from flax import nnx
from jax import numpy as jnp
from jaxtyping import Array, Float, Int

from passk_jax.models.arch import Arch, Vision
from passk_jax.models.attention import MAX_LOGITS, attend_masked
from passk_jax.models.attention_kernels import key_values
from passk_jax.models.chunks import map_chunks
from passk_jax.models.layers import BETWEEN_LAYERS, INSIDE_LAYERS, Linear, shard_streams
from passk_jax.models.master_weights import project, spread
from passk_jax.models.parameters import Parameter, Table, kernel, nested, vector
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
    """Tells whether a parameter of a policy is one of its tower."""
    return name.startswith('vision.')


def locate(
    grids: Int[Array, 'P I 2'], *, num_patches: int, merge_size: int
) -> tuple[Int[Array, 'P X'], Int[Array, 'P X 2'], Int[Array, 'P X 2']]:
    """Locates each patch in its picture.

    The patches of a picture go square by square, each of ``merge_size ** 2`` patches.

    Args:
        grids: rows and columns of patches of each picture; 0: no picture.
        num_patches: X, patches and pads of a prompt.
        merge_size: side of a square.

    Returns:
        The picture of each patch, the largest number for pads; its row and column
        there; and the rows and columns of its picture. Those of pads have no meaning.
    """
    sizes = grids.prod(-1)
    ends = jnp.cumsum(sizes, axis=-1)[:, None]
    patches = jnp.arange(num_patches)
    pictures = (patches[:, None] >= ends).sum(-1)

    def pick(x: jax.Array) -> jax.Array:
        """Picks the values of each patch's picture; those of the last for a pad."""
        at = jnp.minimum(pictures, grids.shape[1] - 1)
        return jnp.take_along_axis(x, at.reshape(*at.shape, *(1,) * (x.ndim - 2)), 1)

    shapes = pick(grids)
    number = patches - pick(ends[:, 0] - sizes)
    square, inner = jnp.divmod(number, merge_size**2)
    square = jnp.divmod(square, jnp.maximum(1, shapes[..., 1] // merge_size))
    inner = jnp.divmod(inner, merge_size)
    places = [merge_size * a + b for a, b in zip(square, inner, strict=True)]
    return pictures, jnp.stack(places, axis=-1), shapes


class LayerNorm(nnx.Module):
    """``(x - mean(x)) / std(x) * scale + bias``, in float32."""

    def __init__(self, size: int, arch: Arch, *, stack: tuple[int, ...] = ()):
        dtype = jnp.dtype(arch.param_dtype)
        self.scale = nnx.Param(jnp.ones((*stack, size), dtype))
        self.bias = nnx.Param(jnp.zeros((*stack, size), dtype))

    @staticmethod
    def parameters(tensor: str) -> Table:
        """Lists the parameters; ``tensor`` is how the names of both begin."""
        return {
            'scale': vector(f'{tensor}.weight', None),
            'bias': vector(f'{tensor}.bias', None),
        }

    def __call__(self, x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        wide = wide - wide.mean(-1, keepdims=True)
        wide = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + _EPS)
        scale, bias = (
            spread(weight[...], wide.shape, wide.dtype)
            for weight in (self.scale, self.bias)
        )
        return (wide * scale + bias).astype(x.dtype)


def _gelu(x: jax.Array, *, approximate: bool) -> jax.Array:
    return jax.nn.gelu(x.astype(jnp.float32), approximate=approximate).astype(x.dtype)


class VisionBlock(nnx.Module):
    """Attention and an MLP, both with a norm before and a residual."""

    def __init__(self, arch: Arch, *, stack: tuple[int, ...], rngs: nnx.Rngs):
        vision, declared = arch.vision, self.parameters()
        assert vision is not None
        D, F, J = vision.embed_dim, vision.mlp_dim, vision.num_heads
        options = {'stack': stack, 'bias': True, 'rngs': rngs}

        def linear(name: str, before: tuple, after: tuple) -> Linear:
            return Linear(declared[f'{name}.kernel'], before, after, arch, **options)

        self.attention_norm = LayerNorm(D, arch, stack=stack)
        self.qkv = linear('qkv', (D,), (3, J, D // J))
        self.out = linear('out', (J, D // J), (D,))
        self.mlp_norm = LayerNorm(D, arch, stack=stack)
        self.up = linear('up', (D,), (F,))
        self.down = linear('down', (F,), (D,))
        self.scale = (D // J) ** -0.5

    @staticmethod
    def parameters() -> Table:
        """Lists the parameters; queries, keys and values are one tensor."""
        return {
            **nested('attention_norm', LayerNorm.parameters('norm1')),
            'qkv.kernel': kernel('attn.qkv.weight', 'embed', None, 'heads', None),
            'qkv.bias': vector('attn.qkv.bias', None, 'heads', None),
            'out.kernel': kernel('attn.proj.weight', 'heads', None, 'embed', inputs=2),
            'out.bias': vector('attn.proj.bias', None),
            **nested('mlp_norm', LayerNorm.parameters('norm2')),
            'up.kernel': kernel('mlp.linear_fc1.weight', 'embed', 'mlp'),
            'up.bias': vector('mlp.linear_fc1.bias', 'mlp'),
            'down.kernel': kernel('mlp.linear_fc2.weight', 'mlp', 'embed'),
            'down.bias': vector('mlp.linear_fc2.bias', None),
        }

    def __call__(
        self, x: Float[Array, 'P 1 X D'], turn: Turn, pictures: Int[Array, 'P X']
    ) -> Float[Array, 'P 1 X D']:
        """Runs the patches; ``pictures`` says which attend to each other."""
        (qkv,) = self.qkv(self.attention_norm(x))
        query, key, value = (qkv[:, :, :, i] for i in range(3))
        query, key = rotate(query, turn, scale=self.scale), rotate(key, turn)
        axes = ((*INSIDE_LAYERS[0][:2], None),)
        query, key, value = shard_streams((query, key, value), axes * 3, 'heads', None)
        (mixed,) = self.out(_attend(query, key, value, pictures))
        (x,) = shard_streams((x + mixed,), BETWEEN_LAYERS, None)
        (hidden,) = self.up(self.mlp_norm(x))
        hidden = shard_streams((hidden,), INSIDE_LAYERS, 'mlp')[0]
        (mixed,) = self.down(_gelu(hidden, approximate=True))
        return shard_streams((x + mixed,), BETWEEN_LAYERS, None)[0]


def _attend(
    query: Float[Array, 'P 1 X J H'],
    key: Float[Array, 'P 1 X J H'],
    value: Float[Array, 'P 1 X J H'],
    pictures: Int[Array, 'P X'],
    *,
    max_logits: int = MAX_LOGITS,
) -> Float[Array, 'P 1 X J H']:
    """Attends within each picture, to queries in chunks as ``attention.attend``."""
    P, _, X, J, _ = query.shape
    pair, pictures = key_values((key, value)), pictures[:, None]

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
    """Makes a token of the patches of a square.

    The norm is that of a patch, or of all patches of a square in ``after`` a tap.
    """

    def __init__(
        self,
        arch: Arch,
        *,
        of_square: bool,
        stack: tuple[int, ...] = (),
        rngs: nnx.Rngs,
    ):
        vision, declared = arch.vision, self.parameters()
        assert vision is not None
        self.width = vision.embed_dim * vision.merge_size**2
        self.of_square = of_square
        size = self.width if of_square else vision.embed_dim
        sizes = (self.width,), (self.width,), (arch.embed_dim,)
        options = {'stack': stack, 'bias': True, 'rngs': rngs}
        self.norm = LayerNorm(size, arch, stack=stack)
        self.up = Linear(declared['up.kernel'], *sizes[:2], arch, **options)
        self.down = Linear(declared['down.kernel'], *sizes[1:], arch, **options)

    @staticmethod
    def parameters() -> Table:
        """Lists the parameters."""
        return {
            **nested('norm', LayerNorm.parameters('norm')),
            'up.kernel': kernel('linear_fc1.weight', 'embed', 'mlp'),
            'up.bias': vector('linear_fc1.bias', 'mlp'),
            'down.kernel': kernel('linear_fc2.weight', 'mlp', 'embed'),
            'down.bias': vector('linear_fc2.bias', None),
        }

    def __call__(self, x: Float[Array, 'P 1 X D']) -> Float[Array, 'P M D']:
        """Merges the patches of each square, which are neighbours."""
        x = x if self.of_square else self.norm(x)
        x = x.reshape(*x.shape[:2], -1, self.width)
        x = self.norm(x) if self.of_square else x
        (hidden,) = self.up(x)
        # Not the approximation of the blocks.
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
        self.patch_bias = nnx.Param(jnp.zeros(vision.embed_dim, dtype))
        shape = vision.table_size**2, vision.embed_dim
        draw = jax.nn.initializers.normal(0.02)
        self.position_embedding = nnx.Param(draw(rngs.params(), shape, dtype))
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
        taps = nested(
            'taps', Merger.parameters(), tensors='deepstack_merger_list.{tap}.'
        )
        return {
            'patch_kernel': PATCH,
            'patch_bias': vector('patch_embed.proj.bias', None),
            'position_embedding': TABLE,
            **nested('blocks', VisionBlock.parameters(), tensors='blocks.{block}.'),
            **nested('merger', Merger.parameters(), tensors='merger.'),
            **(taps if vision.taps else {}),
        }

    def __call__(self, images: Images) -> Float[Array, 'P K M D']:
        """Computes the features of each token, in the working dtype.

        Returns:
            K features of each token: the one that the prompt reads in its place, then
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

        def run(x: jax.Array, params: nnx.State) -> tuple[jax.Array, None]:
            return nnx.merge(graphdef, params)(x, turn, pictures), None

        body = jax.checkpoint(run, prevent_cse=False) if self.remat else run
        # Apart, the gradients of a split are joined; slices would be added up.
        stops = [tap + 1 for tap in vision.taps if tap + 1 < vision.depth]
        leaves, tree = jax.tree.flatten(params)
        parts = zip(*(jnp.split(leaf, stops) for leaf in leaves), strict=True)
        outputs = []
        for part in parts:
            x, _ = jax.lax.scan(body, x, tree.unflatten(part))
            outputs.append(x)
        features = [self.merger(x)]
        if self.taps is not None:
            of_taps, params = nnx.split(self.taps)
            for i, output in enumerate(outputs[: len(vision.taps)]):
                of_tap = jax.tree.map(lambda leaf, i=i: leaf[i], params)
                features.append(nnx.merge(of_taps, of_tap)(output))
        return jnp.stack(features, axis=1)

    def _embed(
        self,
        patches: Float[Array, 'P X values'],
        places: Int[Array, 'P X 2'],
        shapes: Int[Array, 'P X 2'],
    ) -> Float[Array, 'P 1 X D']:
        """Embeds the patches and their places in the table, which spans a picture."""
        # All frames of a still picture are equal.
        weight = self.patch_kernel[...].sum(axis=1).reshape(-1, self.vision.embed_dim)
        x = (patches[:, None].astype(self.dtype),)
        (x,) = project(x, weight, 1, (None, 'embed'))
        x = x + spread(self.patch_bias[...], x.shape, x.dtype)
        size = self.vision.table_size
        steps = (size - 1) / jnp.maximum(shapes - 1, 1).astype(jnp.float32)
        apart = (places * steps)[..., None] - jnp.arange(size)
        shares = jnp.maximum(0, 1 - jnp.abs(apart))
        shares = shares[:, :, 0, :, None] * shares[:, :, 1, None]
        shares = (shares.reshape(*shares.shape[:2], -1)[:, None],)
        # The shares add up to 1; a TPU would round them to bfloat16.
        with jax.default_matmul_precision('float32'):
            (positions,) = project(shares, self.position_embedding[...], 1, TABLE.axes)
        x = x + positions.astype(x.dtype)
        return shard_streams((x,), BETWEEN_LAYERS, None)[0]

    def _turn(self, places: Int[Array, 'P X 2']) -> Turn:
        """Computes the rotation of each patch: pairs turn by its row, then column."""
        quarter = frequencies(
            _ROPE, head_dim=self.vision.embed_dim // self.vision.num_heads // 2
        )
        angles = places[..., None].astype(jnp.float32) * quarter
        angles = angles.reshape(*places.shape[:2], -1)[:, None, :, None]
        turn = jnp.stack([jnp.cos(angles), jnp.sin(angles)])
        cos, sin = jax.lax.optimization_barrier(turn)
        return cos, sin
