"""Converts between the rope of a ``config.json`` and our :class:`Rope`.

1. :func:`read_rope` reads the fields in transformers' newest spelling, and rejects a
   kind or field that the network would not honor;
2. :func:`rope_scaling` writes them as before transformers 5, which all versions and
   vLLM read;
3. :func:`addressed` and :func:`stated_positions` convert between the longest sequence
   and ``max_position_embeddings``, whose meaning depends on the kind.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from absl import logging

from passk_jax.errors import InputError
from passk_jax.models.rope import KINDS, Rope

# Fields that Rope also has, all but ORIGINAL under the same name.
ORIGINAL = 'original_max_position_embeddings'
_LLAMA3 = ('factor', ORIGINAL, 'low_freq_factor', 'high_freq_factor')
_YARN = ('factor', ORIGINAL, 'beta_fast', 'beta_slow', 'truncate', 'attention_factor')

_SECTIONS, _INTERLEAVED = 'mrope_section', 'mrope_interleaved'

# Kind of rope -> its fields besides rope_theta, as transformers checks them.
_FIELDS = {
    'default': (),
    'linear': ('factor',),
    'llama3': _LLAMA3,
    'yarn': (*_YARN, 'mscale', 'mscale_all_dim'),
}
assert tuple(_FIELDS) == KINDS


def reads(kind: Any, name: str) -> bool:
    """Returns whether ropes of this kind have the field."""
    return any(
        name in fields for rope_kind, fields in _FIELDS.items() if rope_kind == kind
    )


def read_rope(
    stated: Mapping[str, Any], *, max_positions: int, interleaved: bool = True
) -> Rope:
    """Makes the rope from the ``rope_parameters`` of transformers.

    Args:
        stated: the fields, with the defaults that transformers adds.
        max_positions: ``max_position_embeddings``, which yarn may use.
        interleaved: as in :class:`Rope`, if the family has sections.

    Raises:
        InputError: an unsupported kind, a field that its kind does not use, or an
            impossible value.
    """
    fields = dict(stated)
    # Absent if layer types have different ropes.
    kind = fields.pop('rope_type', None)
    # transformers keeps the old spelling next to the new one.
    old = fields.pop('type', kind)
    if old == 'mrope' and _SECTIONS in fields:
        # 'mrope' names the default rope with sections.
        old = kind
    if kind not in KINDS or old != kind:
        raise InputError(f'rope {stated!r}; only rope types {KINDS} are supported')
    theta = fields.pop('rope_theta', None)
    _drop_inert(fields, kind)
    parts = _sections(fields, interleaved)
    if unknown := fields.keys() - set(_FIELDS[kind]):
        raise InputError(
            f'rope {stated!r} has {sorted(unknown)}, which {kind!r} does not use; it '
            f'uses {_FIELDS[kind]}'
        )
    try:
        if kind == 'yarn':
            rope = _yarn(fields, theta, max_positions)
            return dataclasses.replace(rope, **parts)
        return Rope(
            kind=kind,
            theta=float(theta),
            factor=float(fields.get('factor', 1.0)),
            original_max_positions=fields.get('original_max_position_embeddings', 0),
            low_freq_factor=float(fields.get('low_freq_factor', 1.0)),
            high_freq_factor=float(fields.get('high_freq_factor', 1.0)),
            **parts,
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f'rope {stated!r}: {error}') from error


def rope_scaling(rope: Rope) -> dict[str, Any] | None:
    """Makes the fields of ``rope_scaling``; ``None`` for the default rope."""
    if rope.kind == 'default' and not rope.sections:
        return None
    fields: dict[str, Any] = {'rope_type': rope.kind}
    if rope.sections:
        fields[_SECTIONS] = list(rope.sections)
        if rope.interleaved:
            fields[_INTERLEAVED] = True
    for name in _FIELDS[rope.kind]:
        if not name.startswith('mscale'):
            ours = 'original_max_positions' if name == ORIGINAL else name
            fields[name] = getattr(rope, ours)
    return fields


def addressed(rope: Rope, *, max_positions: int) -> int:
    """Computes the longest sequence in tokens from ``max_position_embeddings``.

    With linear scaling the model addresses ``factor`` times the field. With llama3 and
    yarn the field is the stretched length, but old yarn files have the original one. So
    yarn takes the larger of the field and the stretched original.
    """
    if rope.kind == 'linear':
        return math.floor(max_positions * rope.factor)
    if rope.kind == 'yarn':
        stretched = math.floor(rope.original_max_positions * rope.factor)
        return max(max_positions, stretched)
    return max_positions


def stated_positions(rope: Rope, *, num_tokens: int) -> int:
    """Returns ``max_position_embeddings`` of a model that addresses ``num_tokens``."""
    return math.ceil(num_tokens / rope.factor) if rope.kind == 'linear' else num_tokens


def _drop_inert(fields: dict[str, Any], kind: str) -> None:
    """Removes fields whose value changes nothing."""
    # Every rope here rotates the whole head.
    if fields.get('partial_rotary_factor') == 1:
        del fields['partial_rotary_factor']
    # transformers ignores this field (it reads attention_factor), but vLLM reads it.
    # R1-0528-Qwen3-8B has .878, so vLLM scales by 1 and transformers by 1.139.
    if kind == 'yarn' and 'attn_factor' in fields:
        logging.warning(
            'the rope has attn_factor=%s, which is ignored, as by transformers; vLLM '
            'multiplies by it',
            fields.pop('attn_factor'),
        )


def _sections(fields: dict[str, Any], interleaved: bool) -> dict[str, Any]:
    """Removes and returns the settings of positions with three parts, if any."""
    sections = fields.pop(_SECTIONS, ())
    if not sections:
        return {}
    if fields.pop(_INTERLEAVED, False) is not interleaved:
        raise InputError(
            f'{_SECTIONS} is supported only with {_INTERLEAVED}='
            f'{str(interleaved).lower()}'
        )
    is_list = isinstance(sections, (list, tuple))
    if not is_list or any(type(x) is not int for x in sections):
        raise InputError(f'{_SECTIONS}={sections!r} must be whole numbers')
    return {'sections': tuple(sections), 'interleaved': interleaved}


def _yarn(fields: Mapping[str, Any], theta: float, max_positions: int) -> Rope:
    """Makes a yarn rope with transformers' defaults (``_compute_yarn_parameters``)."""
    original = fields['original_max_position_embeddings']
    factor = fields['factor']
    if factor is None:
        factor = max_positions / original
    attention_factor = fields.get('attention_factor')
    if attention_factor is None:
        above, below = fields.get('mscale'), fields.get('mscale_all_dim')
        if above and below:
            attention_factor = _mscale(factor, above) / _mscale(factor, below)
        else:
            attention_factor = _mscale(factor, 1.0)
    return Rope(
        kind='yarn',
        theta=float(theta),
        factor=float(factor),
        original_max_positions=original,
        # In transformers 0 and null mean the default, but a null truncate is false.
        beta_fast=float(fields.get('beta_fast') or 32),
        beta_slow=float(fields.get('beta_slow') or 1),
        truncate=bool(fields.get('truncate', True)),
        attention_factor=float(attention_factor),
    )


def _mscale(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
