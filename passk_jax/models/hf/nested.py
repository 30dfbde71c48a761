"""Reads and writes the ``config.json`` of a family whose models read pictures.

Its fields are in ``text_config`` and ``vision_config``, with a few beside these. Some
families have the text's fields beside ``vision_config``, instead or as well.
:func:`text_fields` converts them to the form of a text-only family, for config.py.
"""

import math
from collections.abc import Mapping
from typing import Any

from passk_jax.errors import InputError, prefixed
from passk_jax.models.arch import Arch, Vision
from passk_jax.models.families.family import Family, VisionFamily
from passk_jax.models.hf import inert_fields

_TEXT, _VISION = 'text_config', 'vision_config'
_IMAGE_TOKEN, _TIED = 'image_token_id', 'tie_word_embeddings'
# Fields beside the two sections. No prompt has tokens of videos, and the chat template
# writes those around a picture.
_AROUND = frozenset(
    {
        *('architectures', 'model_type', _TEXT, _VISION, _IMAGE_TOKEN, _TIED),
        *('video_token_id', 'vision_start_token_id', 'vision_end_token_id'),
    }
)
_OUT = 'out_hidden_size'
# Fields of Vision that are lists of blocks in the file.
_LISTS = {'taps', 'global_blocks'}
# transformers adds the rope, which the family implies.
_ROPE = {'rope_type': 'axial', 'rope_theta': 10000.0}


def text_fields(fields: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Returns the fields of the text; all fields in a text-only family.

    Raises:
        InputError: a field is absent, unknown or not of this family.
    """
    if family.vision is None:
        return dict(fields)
    parts, around, text = family.vision, _AROUND | family.vision.inert, fields
    if _TEXT in fields or not parts.flat:
        text, only = _section(fields, _TEXT), parts.text_type
        if (kind := text.get('model_type', only)) != only:
            raise InputError(
                f'{_TEXT}: model_type={kind!r}; only {only!r} is supported'
            )
        repeated = _repeated(fields, text, family) if parts.flat else frozenset()
        _check_names(fields, around | repeated)
    # transformers reads the inner field of the tied head only for flat families.
    inner = parts.flat and text.get(_TIED)
    outer = {'model_type': family.model_type, _TIED: bool(fields.get(_TIED) or inner)}
    if 'architectures' in fields:
        outer['architectures'] = fields['architectures']
    if parts.flat:
        text = {name: x for name, x in text.items() if name not in around}
    return {**text, **outer}


def _repeated(
    fields: Mapping[str, Any], text: Mapping[str, Any], family: Family
) -> frozenset[str]:
    """Names the fields of the text that are also beside its section.

    Raises:
        InputError: a field has two values.
    """
    repeated = frozenset(fields.keys() & text.keys() - _AROUND)
    # transformers removes unused windows from the inner fields.
    for name in sorted(repeated - family.window_fields - inert_fields.FIELDS):
        if fields[name] != text[name]:
            raise InputError(
                f'{name} is {fields[name]!r} and, in {_TEXT}, {text[name]!r}'
            )
    return repeated


def vision(fields: Mapping[str, Any], family: Family) -> Vision | None:
    """Reads the sizes of the tower; ``None`` in a text-only family.

    Raises:
        InputError: a field is absent, unknown, or one that the tower does not honor.
    """
    if family.vision is None:
        return None
    stated, parts = _section(fields, _VISION), family.vision
    with prefixed(_VISION):
        stated = renamed(stated, parts.synonyms)
        _check_vision(stated, parts)
        width = fields.get(_TEXT, fields).get('hidden_size')
        if stated[_OUT] != width:
            raise InputError(
                f'{_OUT}={stated[_OUT]!r} is not the hidden_size={width!r} of the text'
            )
        sizes = {ours: stated[name] for ours, name in parts.sizes.items()}
        if (positions := sizes.get('table_size')) is not None:
            sizes['table_size'] = math.isqrt(abs(positions))
            if sizes['table_size'] ** 2 != positions:
                name = parts.sizes['table_size']
                raise InputError(f'{name}={positions} is no square')
        for name in _LISTS & sizes.keys():
            sizes[name] = tuple(sizes[name])
        # In Vision, 0 means none.
        for ours in {'table_size', 'window_size'} & sizes.keys():
            if sizes[ours] < 1:
                raise InputError(f'{parts.sizes[ours]}={sizes[ours]} must be positive')
        token = fields.get(_IMAGE_TOKEN)
        if type(token) is not int or token < 0:
            raise InputError(f'{_IMAGE_TOKEN}={token!r} must be the id of a token')
        return Vision(image_token=token, **sizes, **parts.pieces)


def nest(fields: Mapping[str, Any], arch: Arch, family: Family) -> dict[str, Any]:
    """Nests the fields that config.py made: the inverse of the two readers."""
    tower, parts = arch.vision, family.vision
    if tower is None or parts is None:
        return dict(fields)
    sizes = {ours: getattr(tower, ours) for ours in parts.sizes}
    sizes |= {name: list(sizes[name]) for name in _LISTS & sizes.keys()}
    if 'table_size' in sizes:
        sizes['table_size'] **= 2
    around = ('architectures', _TIED, 'torch_dtype')
    return {
        'model_type': family.model_type,
        **{name: fields[name] for name in around},
        _IMAGE_TOKEN: tower.image_token,
        _TEXT: {
            **{name: x for name, x in fields.items() if name != 'architectures'},
            'model_type': parts.text_type,
        },
        _VISION: {
            'model_type': parts.vision_types[0],
            **parts.fixed,
            **{parts.sizes[ours]: x for ours, x in sizes.items()},
            _OUT: arch.embed_dim,
        },
    }


def renamed(fields: Mapping[str, Any], synonyms: Mapping[str, str]) -> dict[str, Any]:
    """Renames fields to their published names.

    Raises:
        InputError: two names of a field have two values.
    """
    fields = dict(fields)
    for name, published in synonyms.items():
        if name in fields:
            value = fields.pop(name)
            if fields.setdefault(published, value) != value:
                raise InputError(
                    f'{name}={value!r} and {published}={fields[published]!r} are two '
                    'names of one field'
                )
    return fields


def _section(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = fields.get(name)
    if not isinstance(section, Mapping):
        raise InputError(f'{name}={section!r} must be an object')
    return section


def _check_names(fields: Mapping[str, Any], valid: frozenset[str]) -> None:
    unknown = fields.keys() - valid - inert_fields.FIELDS - inert_fields.VALUES.keys()
    if unknown:
        listing = ', '.join(f'{key}={fields[key]!r}' for key in sorted(unknown))
        raise InputError(f'fields that passk_jax does not know: {listing}')
    for key, only in inert_fields.VALUES.items():
        if fields.get(key, only) != only:
            raise InputError(f'{key}={fields[key]!r}; only {only!r} is supported')


def _check_vision(stated: Mapping[str, Any], parts: VisionFamily) -> None:
    """Checks that every size is stated and that the tower honors all fields."""
    required = [*parts.sizes.values(), _OUT]
    names = {'model_type', 'rope_parameters', *required, *parts.fixed}
    _check_names(stated, parts.inert | names)
    kind = stated.get('model_type', parts.vision_types[0])
    if kind not in parts.vision_types:
        raise InputError(f'model_type={kind!r} is none of {list(parts.vision_types)}')
    if absent := [name for name in required if stated.get(name) is None]:
        raise InputError(f'every size must be stated; {absent} are not')
    for key, only in {**parts.fixed, 'rope_parameters': _ROPE}.items():
        value = stated.get(key)
        if value is not None and value != only:
            raise InputError(f'{key}={value!r}; only {only!r} is supported')
    lists = {parts.sizes[ours] for ours in _LISTS & parts.sizes.keys()}
    for name in required:
        is_list = name in lists
        numbers = stated[name] if is_list else [stated[name]]
        if not isinstance(numbers, list) or any(type(x) is not int for x in numbers):
            kind = 'a list of whole numbers' if is_list else 'a whole number'
            raise InputError(f'{name}={stated[name]!r} must be {kind}')
