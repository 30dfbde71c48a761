"""Reads and writes the ``config.json`` of a family whose models read pictures.

Its fields lie in ``text_config`` and ``vision_config``, with a few around them.
config.py handles those of the text, which :func:`text_fields` brings into the form of a
family that reads only text.
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
# Fields around the two sections. Tokens of videos stand in no prompt, and the template
# writes those around a picture.
_AROUND = frozenset(
    {
        *('architectures', 'model_type', _TEXT, _VISION, _IMAGE_TOKEN, _TIED),
        *('video_token_id', 'vision_start_token_id', 'vision_end_token_id'),
    }
)
_POSITIONS, _OUT = 'num_position_embeddings', 'out_hidden_size'
# transformers adds the rope, which the family implies.
_ROPE = {'rope_type': 'axial', 'rope_theta': 10000.0}


def text_fields(fields: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Returns the fields of the text; all of them in a family that reads only text.

    Raises:
        InputError: a field is absent, unknown or not of this family.
    """
    if family.vision is None:
        return dict(fields)
    _check_names(fields, _AROUND)
    text = _section(fields, _TEXT)
    only = family.vision.text_type
    if (kind := text.get('model_type', only)) != only:
        raise InputError(f'{_TEXT}: model_type={kind!r}; only {only!r} is supported')
    outer = {'model_type': family.model_type, _TIED: bool(fields.get(_TIED))}
    if 'architectures' in fields:
        outer['architectures'] = fields['architectures']
    # transformers reads only the outer field of the tied head.
    return {**text, **outer}


def vision(fields: Mapping[str, Any], family: Family) -> Vision | None:
    """Reads the sizes of the tower; ``None`` in a family that reads only text.

    Raises:
        InputError: a field is absent, unknown, or one that the tower does not honor.
    """
    if family.vision is None:
        return None
    stated, parts = _section(fields, _VISION), family.vision
    with prefixed(_VISION):
        _check_vision(stated, parts)
        width = fields[_TEXT].get('hidden_size')
        if stated[_OUT] != width:
            raise InputError(
                f'{_OUT}={stated[_OUT]!r} is not the hidden_size={width!r} of the text'
            )
        side = math.isqrt(abs(stated[_POSITIONS]))
        if side**2 != stated[_POSITIONS]:
            raise InputError(f'{_POSITIONS}={stated[_POSITIONS]} is no square')
        sizes = {ours: stated[name] for ours, name in parts.sizes.items()}
        sizes['taps'] = tuple(sizes['taps'])
        token = fields.get(_IMAGE_TOKEN)
        if type(token) is not int or token < 0:
            raise InputError(f'{_IMAGE_TOKEN}={token!r} must be the id of a token')
        return Vision(table_size=side, image_token=token, **sizes)


def nest(fields: Mapping[str, Any], arch: Arch, family: Family) -> dict[str, Any]:
    """Makes the nested fields of fields that config.py made; undoes both readers."""
    tower, parts = arch.vision, family.vision
    if tower is None or parts is None:
        return dict(fields)
    sizes = {name: getattr(tower, ours) for ours, name in parts.sizes.items()}
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
            **sizes,
            'deepstack_visual_indexes': list(tower.taps),
            _POSITIONS: tower.table_size**2,
            _OUT: arch.embed_dim,
        },
    }


def _section(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = fields.get(name)
    if not isinstance(section, Mapping):
        raise InputError(f'{name}={section!r} must be an object')
    return section


def _check_names(fields: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = fields.keys() - known - inert_fields.FIELDS - inert_fields.VALUES.keys()
    if unknown:
        listing = ', '.join(f'{key}={fields[key]!r}' for key in sorted(unknown))
        raise InputError(f'fields that passk_jax does not know: {listing}')
    for key, only in inert_fields.VALUES.items():
        if fields.get(key, only) != only:
            raise InputError(f'{key}={fields[key]!r}; only {only!r} is supported')


def _check_vision(stated: Mapping[str, Any], parts: VisionFamily) -> None:
    """Checks that every size is stated and that the tower honors all fields."""
    required = [*parts.sizes.values(), _POSITIONS, _OUT]
    names = {'model_type', 'rope_parameters', *required, *parts.fixed}
    _check_names(stated, frozenset(names))
    kind = stated.get('model_type', parts.vision_types[0])
    if kind not in parts.vision_types:
        raise InputError(f'model_type={kind!r} is none of {list(parts.vision_types)}')
    if absent := [name for name in required if stated.get(name) is None]:
        raise InputError(f'every size must be stated; {absent} are not')
    for key, only in {**parts.fixed, 'rope_parameters': _ROPE}.items():
        value = stated.get(key)
        if value is not None and value != only:
            raise InputError(f'{key}={value!r}; only {only!r} is supported')
    for name in required:
        is_list = name == parts.sizes['taps']
        numbers = stated[name] if is_list else [stated[name]]
        if not isinstance(numbers, list) or any(type(x) is not int for x in numbers):
            kind = 'a list of whole numbers' if is_list else 'a whole number'
            raise InputError(f'{name}={stated[name]!r} must be {kind}')
