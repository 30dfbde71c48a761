"""Converts between the fields of a ``config.json`` and our repeated layers.

1. :func:`read_layers` reads the window and the rope of each layer;
2. :func:`addressed` computes the longest sequence that all layers address;
3. :func:`layer_fields` writes the windows and which layers have positions;
4. :func:`position_fields` writes the ropes.
"""

from collections.abc import Mapping
from typing import Any

import transformers

from passk_jax.errors import InputError
from passk_jax.models.arch import Arch, Layer
from passk_jax.models.families.family import Family
from passk_jax.models.hf import rope as hf_rope
from passk_jax.models.rope import Rope

KINDS = ('full_attention', 'sliding_attention')
"""Kinds in ``layer_types``: without a window, and with one."""
THETAS = dict(zip(KINDS, ('rope_theta', 'rope_local_base_freq'), strict=True))
"""Field with the base of each kind's rope; Olmo 3 has only the first."""


def read_layers(
    config: 'transformers.PreTrainedConfig', family: Family
) -> tuple[Layer, ...]:
    """Returns the shortest pattern that the layers repeat."""
    ropes = read_ropes(config, family)
    layers = tuple(
        Layer(
            ropes[KINDS[window > 0]] if turns else None,
            window=window,
            feed_forward=family.feed_forward,
        )
        for window, turns in zip(
            _windows(config), _turning(config, family), strict=True
        )
    )
    L = len(layers)
    return next(
        layers[:n]
        for n in range(1, L + 1)
        if L % n == 0 and layers[:n] * (L // n) == layers
    )


def _turning(config: 'transformers.PreTrainedConfig', family: Family) -> list[int]:
    """Returns for each layer 1 if it has rotary positions, else 0."""
    name, num_layers = 'no_rope_layers', config.num_hidden_layers
    if name not in family.window_fields:
        return [1] * num_layers
    # In spite of the name, 1 stands for a layer with rope.
    turning = getattr(config, name)
    if len(turning) < num_layers or not {*turning} <= {0, 1}:
        raise InputError(
            f'{name}={turning} must have 0 or 1 for each of {num_layers} layers'
        )
    return turning[:num_layers]


def _windows(config: 'transformers.PreTrainedConfig') -> tuple[int, ...]:
    """Returns the attention window of each layer; 0: none."""
    window = getattr(config, 'sliding_window', None)
    kinds = getattr(config, 'layer_types', None)
    if kinds is None:
        kinds = [KINDS[window is not None]] * config.num_hidden_layers
    if len(kinds) != config.num_hidden_layers or not set(kinds) <= set(KINDS):
        raise InputError(
            f'layer_types={kinds!r} must give each of {config.num_hidden_layers} '
            f'layers one of {KINDS}'
        )
    if KINDS[True] not in kinds:
        return (0,) * len(kinds)
    if not (isinstance(window, int) and window > 0):
        raise InputError(f'layer_types={kinds!r} with sliding_window={window!r}')
    return tuple(window if kind == KINDS[True] else 0 for kind in kinds)


def states_windows(fields: Mapping[str, Any]) -> bool:
    """Returns whether a file says that some layers have a window.

    Raises:
        InputError: ``layer_types`` is no list of names.
    """
    kinds = fields.get('layer_types')
    is_list = isinstance(kinds, list | tuple)
    if kinds is not None and not (is_list and all(isinstance(x, str) for x in kinds)):
        raise InputError(f'layer_types={kinds!r} must be a list of names, or null')
    return bool({*(kinds or ())} - {KINDS[False]} or fields.get('sliding_window'))


def layer_fields(arch: Arch, family: Family) -> dict[str, Any]:
    """Makes the fields that say which layers have a window, or positions."""
    windows = [layer.window for layer in arch.all_layers]
    window = max(windows)
    fields: dict[str, Any] = {
        'use_sliding_window': window > 0,
        'sliding_window': window or None,
        'no_rope_layers': [int(layer.rope is not None) for layer in arch.all_layers],
    }
    # Without the list, a family with two ropes would use its default pattern.
    if window or family.ropes_by_kind:
        fields['layer_types'] = [KINDS[size > 0] for size in windows]
    return {key: x for key, x in fields.items() if key in family.window_fields}


def addressed(config: 'transformers.PreTrainedConfig', family: Family) -> int:
    """Computes the longest sequence in tokens that all layers address."""
    limit = config.max_position_embeddings
    if family.ropes_by_kind:
        # Stretching the rope of some layers does not help the others.
        return limit
    (rope,) = set(read_ropes(config, family).values())
    return hf_rope.addressed(rope, max_positions=limit)


def position_fields(arch: Arch, family: Family, *, num_tokens: int) -> dict[str, Any]:
    """Makes the fields of the ropes of a model that addresses ``num_tokens``.

    Raises:
        InputError: no layer has a rope.
    """
    ropes = {layer.window > 0: layer.rope for layer in arch.layers if layer.rope}
    if not ropes:
        raise InputError(f'no layer of {arch} has a rope; config.json gives them one')
    local = ropes.get(True)
    rope = ropes.get(False) or ropes[True]
    if not family.ropes_by_kind:
        num_tokens = hf_rope.stated_positions(rope, num_tokens=num_tokens)
    fields: dict[str, Any] = {
        'max_position_embeddings': num_tokens,
        'rope_theta': rope.theta,
    }
    if scaling := hf_rope.rope_scaling(rope):
        fields['rope_scaling'] = scaling
    name = THETAS[KINDS[True]]
    if name in family.window_fields and local and not hf_rope.rope_scaling(local):
        fields[name] = local.theta
    elif family.ropes_by_kind and name not in family.window_fields and local:
        published = transformers.AutoConfig.for_model(family.model_type)
        theta = published.rope_parameters[KINDS[True]]['rope_theta']
        if {rope.theta, local.theta} != {theta}:
            # The older spelling has only one base.
            by_kind = dict(zip(KINDS, map(_parameters, (rope, local)), strict=True))
            return {'max_position_embeddings': num_tokens, 'rope_parameters': by_kind}
    return fields


def _parameters(rope: Rope) -> dict[str, Any]:
    """Makes the fields of a rope, in the spelling of transformers 5."""
    scaling = hf_rope.rope_scaling(rope) or {'rope_type': rope.kind}
    return {**scaling, 'rope_theta': rope.theta}


def read_ropes(
    config: 'transformers.PreTrainedConfig', family: Family
) -> dict[str, Rope]:
    """Reads the rope of each kind of layer, without and with a window.

    ``config`` has transformers' newest spelling.
    """
    stated = config.rope_parameters
    options = {
        'max_positions': config.max_position_embeddings,
        'interleaved': family.vision is None or family.vision.interleaved,
    }
    if not family.ropes_by_kind:
        return dict.fromkeys(KINDS, hf_rope.read_rope(stated, **options))
    return {kind: hf_rope.read_rope(stated[kind], **options) for kind in KINDS}


def check_rope_is_declared_once(fields: Mapping[str, Any], family: Family) -> None:
    """Rejects spellings that contradict each other: transformers reads only one."""
    old, new = fields.get('rope_scaling'), fields.get('rope_parameters')
    for name, value in (('rope_scaling', old), ('rope_parameters', new)):
        if value is not None and not isinstance(value, Mapping):
            raise InputError(f'{name}={value!r} must be an object or null')
    if old and new:
        raise InputError('both rope_scaling and rope_parameters are given')
    rope = old or new or {}
    pairs = [('rope_theta', rope)]
    if family.ropes_by_kind:
        if (new or {}).keys() - {*KINDS}:
            raise InputError(
                f'rope_parameters={new!r} must have a rope for each of {KINDS}, and no '
                'other field, which transformers would ignore'
            )
        pairs += [(name, rope.get(kind) or {}) for kind, name in THETAS.items()]
        for _, inside in pairs[1:]:
            if not isinstance(inside, Mapping):
                raise InputError(f'{inside!r} in rope={rope!r} must be an object')
    for name, inside in pairs:
        inner, outer = inside.get('rope_theta'), fields.get(name)
        if inner is not None and outer is not None and inner != outer:
            raise InputError(f'{name} is {outer} and, in the rope, {inner}')
    # The outer field matters only if ropes of this kind have it too.
    name, kind = hf_rope.ORIGINAL, rope.get('rope_type') or rope.get('type')
    inner, outer = rope.get(name), fields.get(name)
    if outer is not None and hf_rope.reads(kind, name) and inner != outer:
        raise InputError(f'{name} is {outer} and, in the rope, {inner}')


def check_base_of_windows(
    fields: Mapping[str, Any], config: 'transformers.PreTrainedConfig', family: Family
) -> None:
    """Rejects a base that transformers gives only to layers without a window.

    Olmo 3's ``rope_theta`` is the base of all layers, and its layers with a window
    would get transformers' default instead.
    """
    kinds = getattr(config, 'layer_types', None) or KINDS
    by_kind = family.ropes_by_kind and KINDS[True] in kinds
    if not by_kind or THETAS[KINDS[True]] in family.window_fields:
        return
    stated = fields.get('rope_parameters') or {}
    far, near = (stated.get(kind) or {} for kind in KINDS)
    theta = fields.get('rope_theta', far.get('rope_theta'))
    default = config.rope_parameters[KINDS[True]]['rope_theta']
    if near.get('rope_theta') is None and theta not in (None, default):
        raise InputError(
            f'rope_theta={theta!r} would be the base only of layers without a window; '
            f'state that of {KINDS[True]!r} in rope_parameters (transformers takes '
            f'{default!r})'
        )
