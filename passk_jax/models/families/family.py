"""What distinguishes one family of models from another.

There is one transformer (transformer.py). A family says which pieces its blocks have
and what the fields of its ``config.json`` mean. Each family is a file and a line of
table.py.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class VisionFamily:
    """How a nested ``config.json`` describes a family's vision tower.

    Attributes:
        text_type: ``model_type`` of ``text_config``.
        vision_types: values of ``model_type`` in ``vision_config``, that of
            transformers first.
        sizes: field of ``arch.Vision`` -> the field of ``vision_config`` that has it.
        fixed: fields of ``vision_config`` and the only value that is supported.
        pieces: fields of ``arch.Vision`` that choose the pieces of the tower.
        synonyms: other names of fields of ``vision_config`` -> the published name.
        inert: fields, in ``vision_config`` or beside it, that do not affect still
            pictures.
        interleaved: as in :class:`~passk_jax.models.rope.Rope`.
        flat: published files have the fields of the text beside ``vision_config``.
    """

    text_type: str
    vision_types: tuple[str, ...]
    sizes: Mapping[str, str]
    fixed: Mapping[str, Any]
    pieces: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    synonyms: Mapping[str, str] = dataclasses.field(default_factory=dict)
    inert: frozenset[str] = frozenset()
    interleaved: bool = True
    flat: bool = False


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of decoders.

    Attributes:
        model_type: the family's name in ``config.json``.
        architecture: the class of transformers, as ``config.json`` names it.
        pieces: fields of ``Arch`` that choose the pieces of a block.
        fixed: fields of ``config.json`` and the only value that is supported.
        window_fields: fields of ``config.json`` that say which layers have a window,
            or positions.
        ropes_by_kind: layers with a window have another rope than those without.
        feed_forward: the kind of every layer, one of ``feed_forward.FEED_FORWARDS``.
        sizes: field of ``Arch`` -> field of ``config.json``, where this family differs
            from hf/config.py.
        synonyms: other names of fields of ``config.json`` -> the published name.
        inert: fields of ``config.json`` that change no logit.
        derives_head_dim: transformers ignores ``head_dim`` and computes it from the
            width.
        vision: the tower that reads pictures; ``None``: there is none.
    """

    model_type: str
    architecture: str
    pieces: Mapping[str, Any]
    fixed: Mapping[str, Any]
    window_fields: frozenset[str] = frozenset()
    ropes_by_kind: bool = False
    feed_forward: str = 'swiglu'
    sizes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    synonyms: Mapping[str, str] = dataclasses.field(default_factory=dict)
    inert: frozenset[str] = frozenset()
    derives_head_dim: bool = False
    vision: VisionFamily | None = None


VISION_SIZES: Mapping[str, str] = {
    'depth': 'depth',
    'embed_dim': 'hidden_size',
    'num_heads': 'num_heads',
    'mlp_dim': 'intermediate_size',
    'patch_size': 'patch_size',
    'frames': 'temporal_patch_size',
    'merge_size': 'spatial_merge_size',
}
"""The part of ``VisionFamily.sizes`` that all towers share."""

QWEN_WINDOWS = frozenset(
    {'layer_types', 'max_window_layers', 'sliding_window', 'use_sliding_window'}
)
"""``window_fields`` of the Qwen families."""
