"""The architecture of a transformer: its sizes and its repeated layers."""

import dataclasses
from typing import Any

from passk_jax.config import ModelConfig
from passk_jax.errors import InputError
from passk_jax.models import grouped_products
from passk_jax.models.attention_kernels import IMPLEMENTATIONS
from passk_jax.models.families.table import FAMILIES, family_of
from passk_jax.models.lora import Lora
from passk_jax.models.rope import Rope

NORMS = ('before', 'after', 'both')
"""Places of norms: before attention and the feed-forward part, after them, or both."""
NORM_SCALES = ('cast', 'wide', 'one_plus')
"""How a norm scales: in the working dtype; in float32; in float32, by 1 + scale."""
VISION_BLOCKS = ('gelu', 'swiglu')
"""Blocks of a tower: LayerNorm and an MLP with GELU; RMSNorm and SwiGLU."""
REMAT = ('none', 'gate_up', 'qkv', 'attention', 'full')
"""Parts of a layer that the backward pass recomputes, from none to all of it."""


@dataclasses.dataclass(frozen=True)
class Layer:
    """The settings of a layer; layers may differ in these.

    Attributes:
        rope: rotary positions; ``None``: no rotation.
        window: how many tokens a query sees, including itself; 0: no limit.
        feed_forward: a kind of ``feed_forward.FEED_FORWARDS``.
    """

    rope: Rope | None
    window: int = 0
    feed_forward: str = 'swiglu'

    def __post_init__(self):
        if self.window < 0:
            raise InputError(f'window={self.window} must be 0 or positive')


@dataclasses.dataclass(frozen=True)
class Vision:
    """The sizes of the tower that reads pictures (vision.py).

    Attributes:
        depth: number of blocks.
        embed_dim: width of the blocks.
        num_heads: heads of a block.
        mlp_dim: width of a block's MLP.
        patch_size: side of a patch, in pixels.
        frames: how often a patch repeats a still picture.
        merge_size: side of the square of patches that becomes one token, in patches.
        image_token: id of the tokens that the features of a picture replace.
        table_size: rows, and columns, of the table of positions; 0: no table, and no
            bias of the patch embedding.
        taps: blocks whose outputs the first layers of the decoder also read, ascending.
        block: one of :data:`VISION_BLOCKS`.
        window_size: side of the windows within which patches attend to each other, in
            pixels; 0: patches attend to their whole picture.
        global_blocks: blocks that ignore the windows, ascending.
        short_names: a checkpoint calls the tower and the decoder ``visual`` and
            ``model``, not ``model.visual`` and ``model.language_model``.
    """

    depth: int
    embed_dim: int
    num_heads: int
    mlp_dim: int
    patch_size: int
    frames: int
    merge_size: int
    image_token: int
    table_size: int = 0
    taps: tuple[int, ...] = ()
    block: str = 'gelu'
    window_size: int = 0
    global_blocks: tuple[int, ...] = ()
    short_names: bool = False

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value, optional = getattr(self, field.name), field.default == 0
            if field.type is int and not (value > 0 or (optional and not value)):
                raise InputError(f'{field.name}={value} of vision must be positive')
        if self.block not in VISION_BLOCKS:
            raise InputError(f'block={self.block!r} of vision: none of {VISION_BLOCKS}')
        if self.window_size and not self.window_patches:
            raise InputError(
                f'window_size={self.window_size} of vision is below the pixels of a '
                f'token, {self.merge_size * self.patch_size}'
            )
        if self.embed_dim % (4 * self.num_heads):
            raise InputError(
                f'embed_dim={self.embed_dim} of vision must be a multiple of 4 '
                f'num_heads={self.num_heads}: rows and columns each turn pairs'
            )
        for name in ('taps', 'global_blocks'):
            blocks = getattr(self, name)
            in_order = tuple(sorted(set(blocks))) == blocks
            if not in_order or not set(blocks) <= set(range(self.depth)):
                raise InputError(
                    f'{name}={blocks} of vision must ascend, from 0 to below '
                    f'depth={self.depth}'
                )

    @property
    def patch_values(self) -> int:
        """Number of values of a patch: three colors of each pixel."""
        return 3 * self.patch_size**2

    @property
    def window_patches(self) -> int:
        """Side of a window in patches, a multiple of ``merge_size``; 0: no windows."""
        return self.window_size // self.merge_size // self.patch_size * self.merge_size


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
        mlp_dim: F, of the MLP or of each expert.
        layers: the pattern that repeats through the stack. All layers have one kind of
            feed-forward part, so that the parameters of all L can be stacked.
        norm_eps: added to the mean square in the norms.
        tie_embeddings: the token table is also the head.
        qkv_bias: queries, keys and values have a bias.
        qk_norm: queries and keys are normalized, head by head, before their rotation.
        qk_norm_over_heads: that norm is over all heads of a token together.
        norms: one of :data:`NORMS`.
        norm_scale: one of :data:`NORM_SCALES`.
        scale_embedding: the embedding of a token is multiplied by ``sqrt(D)``.
        query_scalar: attention logits are divided by its square root; 0 stands for
            ``head_dim``.
        param_dtype: dtype of the master weights.
        dtype: dtype of activations and matrix products.
        remat: one of :data:`REMAT`.
        attention: one of ``attention_kernels.IMPLEMENTATIONS``.
        num_experts: E, experts per layer; 0: each layer has one MLP.
        experts_per_token: k, how many experts run each token.
        norm_topk_prob: the weights of a token's k experts add up to 1.
        experts: one of ``grouped_products.IMPLEMENTATIONS``.
        keep_router_probs: a layer's statistics include the router's probabilities.
        fused_experts: a checkpoint has the experts of a layer as one tensor.
        lora: adapters of the layers' matrices; ``None``: none.
        vision: the tower that reads pictures; ``None``: the model reads only text.
    """

    vocab_size: int
    num_layers: int
    embed_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    mlp_dim: int
    layers: tuple[Layer, ...]
    norm_eps: float
    tie_embeddings: bool
    qkv_bias: bool
    qk_norm: bool
    param_dtype: str
    dtype: str
    remat: str
    attention: str
    qk_norm_over_heads: bool = False
    norms: str = 'before'
    norm_scale: str = 'cast'
    scale_embedding: bool = False
    query_scalar: int = 0
    num_experts: int = 0
    experts_per_token: int = 0
    norm_topk_prob: bool = False
    experts: str = 'blocks'
    keep_router_probs: bool = False
    fused_experts: bool = False
    lora: Lora | None = None
    vision: Vision | None = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            optional = field.default == 0
            if field.type in (int, float) and not (
                value > 0 or (optional and not value)
            ):
                raise InputError(f'{field.name}={value} must be positive')
        if self.num_heads % self.num_kv_heads:
            raise InputError(
                f'num_heads={self.num_heads} must be a multiple of '
                f'num_kv_heads={self.num_kv_heads}'
            )
        if self.head_dim % 2:
            raise InputError(
                f'head_dim={self.head_dim} must be even: a rotation turns pairs'
            )
        if not self.layers or self.num_layers % len(self.layers):
            raise InputError(
                f'a pattern of {len(self.layers)} layers must repeat a whole number '
                f'of times in num_layers={self.num_layers}'
            )
        kinds = sorted({layer.feed_forward for layer in self.layers})
        if len(kinds) > 1:
            raise InputError(
                f'layers have the feed-forward parts {kinds}; the stacked parameters '
                'of one network can have one kind'
            )
        choices = {
            'norms': NORMS,
            'norm_scale': NORM_SCALES,
            'remat': REMAT,
            'attention': IMPLEMENTATIONS,
        }
        for name, valid in choices.items():
            if (value := getattr(self, name)) not in valid:
                raise InputError(f'{name}={value!r} is none of {valid}')
        self._check_experts(kinds[0])
        self._check_vision()

    def _check_experts(self, kind: str) -> None:
        num_experts, experts_per_token = self.num_experts, self.experts_per_token
        counts = f'{num_experts=}, {experts_per_token=}'
        if kind != 'moe' and (num_experts or experts_per_token):
            raise InputError(f'{counts} must be 0: this family has no experts')
        if kind == 'moe' and not 1 <= experts_per_token <= num_experts:
            raise InputError(
                f'{counts}: a token of this family runs 1 to num_experts experts'
            )
        if self.fused_experts and self.embed_dim in (self.mlp_dim, 2 * self.mlp_dim):
            raise InputError(
                f'embed_dim={self.embed_dim} is mlp_dim={self.mlp_dim} of the experts '
                'or twice as much, so that files do not say which of two layouts their '
                'experts have'
            )
        if self.experts not in grouped_products.IMPLEMENTATIONS:
            raise InputError(
                f'experts={self.experts!r} is none of '
                f'{list(grouped_products.IMPLEMENTATIONS)}'
            )

    def _check_vision(self) -> None:
        pairs = self.head_dim // 2 if self.vision else 0
        for layer in self.layers:
            sections = layer.rope.sections if layer.rope else ()
            if sum(sections) != pairs:
                raise InputError(
                    f'{sections=} of the rope add up to {sum(sections)} pairs, not '
                    f'{pairs}: half of the head dimension if the model reads pictures'
                )
        if self.vision and self.vision.image_token >= self.vocab_size:
            raise InputError(
                f'image_token={self.vision.image_token} of vision is not below '
                f'vocab_size={self.vocab_size}'
            )

    @property
    def base(self) -> 'Arch':
        """The same architecture without adapters."""
        return dataclasses.replace(self, lora=None)

    @property
    def all_layers(self) -> tuple[Layer, ...]:
        """Lists all layers, the first one first."""
        return self.layers * (self.num_layers // len(self.layers))


def arch_from_scratch(
    config: ModelConfig, *, vocab_size: int, attention: str, image_token: int = 1
) -> Arch:
    """Makes the architecture of a fresh policy, with the config's sizes and family.

    Args:
        config: the sizes and the family.
        vocab_size, attention: as in :class:`Arch`.
        image_token: as in :class:`Vision`; unused without a tower.

    Raises:
        InputError: an unknown family, or sizes that do not match.
    """
    family = family_of(config.family)
    sizes: dict[str, Any] = dataclasses.asdict(config.arch)
    del sizes['vision']
    tower = dataclasses.asdict(config.arch.vision)
    if any(tower.values()) != bool(family.vision):
        readers = sorted(name for name, x in FAMILIES.items() if x.vision)
        raise InputError(
            f'vision={tower} are the sizes of a tower that reads pictures: families '
            f'{readers} need them, others have none, and model.family is '
            f'{config.family!r}'
        )
    if fixed := {k: x for k, x in family.pieces.items() if sizes.get(k, x) != x}:
        raise InputError(f'{fixed} in every model of model.family={config.family!r}')
    sizes = {k: x for k, x in sizes.items() if k not in family.pieces}
    vision = None
    if family.vision:
        if family.vision.pieces:
            raise InputError(
                f'a tower of model.family={config.family!r} cannot be made from '
                'scratch: take qwen3_vl or qwen3_vl_moe, or set model.source'
            )
        vision = Vision(**tower, frames=2, image_token=image_token)
        if len(vision.taps) >= (num_layers := config.arch.num_layers):
            raise InputError(
                f'taps={vision.taps} of vision: a layer reads the features of each, '
                f'and those after the last of {num_layers=} reach no response'
            )
    # As in Qwen3-VL: 24, 20 and 20 of 64 pairs.
    side = config.arch.head_dim // 2 * 20 // 64
    sections = (config.arch.head_dim // 2 - 2 * side, side, side) if vision else ()
    rope = Rope(kind='default', theta=sizes.pop('rope_theta'), sections=sections)
    return Arch(
        vocab_size=vocab_size,
        layers=(Layer(rope, feed_forward=family.feed_forward),),
        param_dtype=config.param_dtype,
        dtype=config.compute_dtype,
        remat=config.remat,
        attention=attention,
        vision=vision,
        **family.pieces,
        **sizes,
    )
