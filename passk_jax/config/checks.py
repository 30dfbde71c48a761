"""Checks of the configuration: names and types first, then values.

1. :func:`build` converts nested mappings to nested dataclasses. It rejects extra and
   missing keys, and values of another type or outside their field's range (ranges.py).
2. :func:`check` compares values that depend on each other, by dotted key.

Every failure is an ``InputError`` that names the dotted key, the value and the choices.
Other modules check the names of estimators, tasks and model families, and the ranges of
an estimator's parameters, against their tables. This module does not import JAX.
"""

import dataclasses
import difflib
import itertools
import sys
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from passk_jax.config.ranges import check_fields
from passk_jax.config.sampling_options import ONE_TOKEN
from passk_jax.errors import InputError
from passk_jax.files import NO_BUCKET, is_bucket


def build(cls: type, values: Any, path: str = '') -> Any:
    """Makes the dataclass ``cls`` from a mapping.

    Args:
        cls: a dataclass whose fields are dataclasses, ``bool``, ``int``, ``float``
            (which accepts an int), ``str``, ``Mapping[str, Any]`` or a tuple of one of
            them and an ellipsis (which accepts a list). See :func:`fields`.
        values: the mapping.
        path: the dotted key of the mapping in the whole configuration, for messages.

    Raises:
        InputError: an unknown or missing key, or a value of the wrong type or range.
    """
    return _section(cls, values, path, list(_paths(cls, f'{path}.' if path else '')))


def fields(cls: type) -> tuple[dict[str, Any], str | None]:
    """Returns a section's keys with their types, and the field for all other keys.

    The metadata ``other_keys`` marks that field; without one, other keys are errors.
    """
    kinds = typing.get_type_hints(cls)
    marked = [f.name for f in dataclasses.fields(cls) if f.metadata.get('other_keys')]
    other_keys_field = marked[0] if marked else None
    return {
        name: kind for name, kind in kinds.items() if name != other_keys_field
    }, other_keys_field


def flatten(values: Any, key: str = '') -> dict[str, Any]:
    """Flattens nested mappings to dotted keys; an empty section counts as a value."""
    if not isinstance(values, Mapping) or (key and not values):
        return {key: values}
    flat = {}
    for name, value in values.items():
        flat |= flatten(value, f'{key}.{name}' if key else name)
    return flat


def nearest(name: str, names: Collection[str]) -> list[str]:
    """Returns the ``names`` that resemble ``name``, or else end in the same word."""
    last = name.rpartition('.')[2]
    return (
        difflib.get_close_matches(name, names, cutoff=0.9)
        or difflib.get_close_matches(name, names, n=1, cutoff=0.75)
        or [option for option in names if option.rpartition('.')[2] == last]
    )


def unknown_key(key: str, known_keys: Collection[str]) -> str:
    """Makes the message for an unknown dotted key.

    It lists the nearest known keys, or else the keys of its section, or else all
    sections.
    """
    for above in (
        candidate for candidate in known_keys if key.startswith(f'{candidate}.')
    ):
        if not any(candidate.startswith(f'{above}.') for candidate in known_keys):
            return f'unknown key {key}; {above} has no keys here'
    if near := nearest(key, known_keys):
        return f'unknown key {key}; did you mean {" or ".join(near)}?'
    section = key.rpartition('.')[0]
    names = _names_in(f'{section}.' if section else '', known_keys)
    return f'unknown key {key}; have {names or _names_in("", known_keys)}'


def _names_in(prefix: str, known_keys: Collection[str]) -> list[str]:
    """Lists keys and sections just below a prefix, which is empty or ends in a dot."""
    below = (
        candidate.removeprefix(prefix)
        for candidate in known_keys
        if candidate.startswith(prefix)
    )
    return list(
        dict.fromkeys(prefix + candidate.partition('.')[0] for candidate in below)
    )


def check(values: Mapping[str, Any]) -> None:
    """Raises InputError if values of a whole configuration contradict each other.

    Args:
        values: every value of an ``ExperimentConfig`` by dotted key.
    """
    for name, value in values.items():
        if is_bucket(value):
            raise InputError(f'{name}={value!r} {NO_BUCKET}')
    _check_batches(values)
    _check_model(values)
    _check_adapters(values)
    _check_tower(values)
    _check_init(values)
    _check_mesh(values)
    _check_packing(values)
    _check_diagnostics(values)
    _check_best(values)
    if values['eval.every'] and not values['eval.split']:
        raise InputError(
            f'eval.every={values["eval.every"]} needs a split in eval.split; '
            f'eval.every=0 turns evaluation during training off'
        )


def _check_batches(values: Mapping[str, Any]) -> None:
    for name, greedy in ONE_TOKEN.items():
        if (value := values[f'sampling.{name}']) == greedy:
            raise InputError(
                f'sampling.{name}={value} takes only the most probable token: greedy '
                f'rollouts are all equal'
            )
    batches = ('num_prompts', 'mini_batch_prompts', 'micro_batch_prompts')
    for larger, part in itertools.pairwise(batches):
        size, total = values[f'train.{part}'], values[f'train.{larger}']
        if total % size:
            raise InputError(f'train.{part}={size} must divide train.{larger}={total}')
    size, total = values['train.micro_batch_rollouts'], values['sampling.num_rollouts']
    if size and total % size:
        raise InputError(
            f'train.micro_batch_rollouts={size} must divide '
            f'sampling.num_rollouts={total}, or be 0 for all of them'
        )


def _check_diagnostics(values: Mapping[str, Any]) -> None:
    every, size = values['log.diagnostics_every'], values['train.micro_batch_prompts']
    if (bins := values['log.difficulty_bins']) and not every:
        raise InputError(
            f'log.difficulty_bins={bins} are of a diagnosis: set log.diagnostics_every '
            'too, or log.difficulty_bins=0'
        )
    if every and size == values['train.num_prompts']:
        raise InputError(
            f'log.diagnostics_every={every} compares gradients of micro-batches, but '
            f'train.micro_batch_prompts={size} makes one of the whole step; set a '
            f'smaller one, or log.diagnostics_every=0'
        )


def _check_best(values: Mapping[str, Any]) -> None:
    best, split = values['checkpoint.keep_best'], values['eval.split']
    name, slash, metric = best.partition('/')
    if best and not (values['eval.every'] and name == split and slash and metric):
        raise InputError(
            f'checkpoint.keep_best={best!r} must be a metric of the split that is '
            f'evaluated during training, for example {f"{split}/pass_at_1"!r}, and '
            f'eval.every={values["eval.every"]} must not be 0'
        )


def _check_model(values: Mapping[str, Any]) -> None:
    source, prefix = values['model.source'], 'model.arch.'
    arch = {k.removeprefix(prefix): values[k] for k in values if k.startswith(prefix)}
    if source:
        # An option that model.source overrules would mislead.
        if stated := {name: size for name, size in arch.items() if size}:
            raise InputError(
                f'model.arch states {stated}, but model.source={source!r} sets the '
                f'sizes; set them to 0 (and tie_embeddings to False)'
            )
        return
    # The family says whether it has experts, or reads pictures.
    optional = ('num_experts', 'experts_per_token', 'norm_topk_prob', 'tie_embeddings')
    arch = {
        name: size
        for name, size in arch.items()
        if name not in optional and not name.startswith('vision.')
    }
    if not values['model.family']:
        raise InputError("model.family='' needs a model.source, which sets the family")
    if values['model.tokenizer'] == 'source':
        raise InputError("model.tokenizer='source' needs a model.source")
    if wrong := {name: size for name, size in arch.items() if size <= 0}:
        raise InputError(
            f'model.arch states {wrong}; without a model.source every size must be '
            f'positive'
        )


def _check_adapters(values: Mapping[str, Any]) -> None:
    """Raises InputError if a run would train everything, or nothing, unexpectedly."""
    rank, frozen = values['model.lora.rank'], values['model.frozen']
    keys = [f'model.lora.{name}' for name in ('alpha', 'targets', 'source')]
    stated = {key: values[key] for key in keys if values[key]}
    if stated and not rank:
        raise InputError(
            f'{stated} are of adapters, but model.lora.rank=0 trains all parameters: '
            'set the rank too'
        )
    if rank and not (values['model.lora.alpha'] and values['model.lora.targets']):
        raise InputError(
            f'model.lora.rank={rank} without model.lora.alpha and model.lora.targets '
            "trains nothing: set, for example, alpha=32 and targets=('all-linear',)"
        )
    if rank and frozen:
        raise InputError(
            f'model.lora.rank={rank} freezes all parameters but the adapters already: '
            f'leave model.frozen={frozen} empty'
        )
    if rank and values['model.train_vision']:
        raise InputError(
            f'model.lora.rank={rank} freezes the tower too: leave model.train_vision '
            'False'
        )
    # A source may have a tower, which is frozen too; setup/model.py checks that.
    may_freeze = rank or frozen or values['model.source']
    if (dtype := values['model.frozen_dtype']) and not may_freeze:
        raise InputError(
            f'model.frozen_dtype={dtype!r} has no effect, because all parameters are '
            'trained: set model.lora or model.frozen, or leave it empty'
        )


def _check_tower(values: Mapping[str, Any]) -> None:
    """Raises InputError if the tower of a new policy would stay random."""
    is_new = values['init.kind'] in ('scratch', 'warm_start')
    trained = values['model.train_vision'] or values['model.lora.rank']
    if values['model.arch.vision.depth'] and is_new and not trained:
        raise InputError(
            f'model.train_vision=False leaves the tower of model.arch.vision as random '
            f'as init.kind={values["init.kind"]!r} makes it: set model.train_vision'
        )


def _check_init(values: Mapping[str, Any]) -> None:
    kind, checkpoint = values['init.kind'], values['init.checkpoint']
    if kind == 'hf' and not values['model.source']:
        raise InputError("init.kind='hf' needs a model.source")
    if (kind == 'checkpoint') != (checkpoint != ''):
        raise InputError(
            f'init.checkpoint={checkpoint!r} does not fit init.kind={kind!r}: '
            f"init.kind='checkpoint' needs one, and no other kind takes one"
        )


def _check_mesh(values: Mapping[str, Any]) -> None:
    axes = ('data', 'fsdp', 'rollout', 'tensor')
    mesh = {axis: values[f'mesh.{axis}'] for axis in axes}
    sizes = list(mesh.values())
    if sizes.count(-1) > 1 or any(size < 1 and size != -1 for size in sizes):
        raise InputError(
            f'mesh {mesh} must be positive sizes, of which one may be -1 (all '
            f'remaining devices)'
        )


def _check_packing(values: Mapping[str, Any]) -> None:
    """Checks what needs no device; the setup checks the rest."""
    sizes = values['train.pack_sizes']
    if sizes and values['train.packing'] == 'rows':
        raise InputError(
            f"train.pack_sizes={sizes} needs train.packing='prompts': with 'rows' a "
            'pass has one size'
        )
    if sizes == 1:
        raise InputError(
            'train.pack_sizes=1 would pack nothing, because one of the sizes is a row '
            'per response; set 0 for no packing, or at least 2'
        )
    if sizes:
        num_rollouts = values['sampling.num_rollouts']
        num_rollouts = values['train.micro_batch_rollouts'] or num_rollouts
        shares = values['mesh.rollout']
        check_several_rollouts(sizes, num_rollouts=num_rollouts, shares=shares)


def check_several_rollouts(pack_sizes: int, *, num_rollouts: int, shares: int) -> None:
    """Raises InputError if a device has one response per prompt: nothing to pack.

    Args:
        pack_sizes: ``train.pack_sizes``, not 0.
        num_rollouts: rollouts of a prompt in a pass.
        shares: devices along the mesh's rollout axis; -1 if unknown. If they do not
            divide the rollouts, each device has all of them.
    """
    if num_rollouts in (1, shares):
        raise InputError(
            f'train.pack_sizes={pack_sizes} would pack nothing: with mesh.rollout='
            f'{shares} and sampling.num_rollouts (or train.micro_batch_rollouts) = '
            f'{num_rollouts} a device has one response to each prompt in a pass; set '
            f'train.pack_sizes=0'
        )


def _section(cls: type, values: Any, path: str, known_keys: list[str]) -> Any:
    """Implements :func:`build`; ``known_keys`` are all dotted keys, for messages."""
    kinds, other_keys_field = fields(cls)
    if not isinstance(values, Mapping):
        raise InputError(
            f'{path}={values!r} must be a section with the keys {list(kinds)}'
        )
    dotted = {name: f'{path}.{name}' if path else name for name in [*kinds, *values]}
    unknown = [name for name in values if name not in kinds]
    if unknown and not other_keys_field:
        messages = [unknown_key(dotted[name], known_keys) for name in unknown]
        raise InputError('; '.join(messages))
    if missing := [dotted[name] for name in kinds if name not in values]:
        raise InputError(
            f'missing keys {missing}; to override a whole section, give all its keys'
        )
    field_values = {
        k: _value(kinds[k], values[k], dotted[k], known_keys) for k in kinds
    }
    if other_keys_field:
        field_values[other_keys_field] = {
            k: _parameter(values[k], dotted[k]) for k in unknown
        }
    section = cls(**field_values)
    check_fields(section, path)
    return section


def _value(kind: Any, value: Any, path: str, known_keys: list[str]) -> Any:
    """Checks a value against its field's type; a bool does not count as an int."""
    if dataclasses.is_dataclass(kind):
        return _section(kind, value, path, known_keys)
    if kind == Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise InputError(f'{path}={value!r} must be a section')
        return {k: _parameter(v, f'{path}.{k}') for k, v in value.items()}
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, tuple | list):
            raise InputError(f'{path}={value!r} must be a tuple')
        item, items = typing.get_args(kind)[0], enumerate(value)
        return tuple(_value(item, v, f'{path}[{i}]', known_keys) for i, v in items)
    if typing.get_origin(kind) is typing.Literal:
        # The field's range checks the choices.
        kind = str
    accepted = (int, float) if kind is float else kind
    if not isinstance(value, accepted) or (isinstance(value, bool) != (kind is bool)):
        raise InputError(
            f'{path}={value!r} must be of type {kind.__name__}, '
            f'not {type(value).__name__}'
        )
    if kind is float:
        _reject_non_finite(value, path)
    elif kind is int and not -(2**63) <= value < 2**63:
        raise InputError(f'{path}={value!r} must fit in 64 bits')
    return kind(value)


def _parameter(value: Any, path: str) -> Any:
    """Checks a parameter of a task or an estimator, whose type is declared nowhere."""
    if isinstance(value, Mapping):
        return {k: _parameter(v, f'{path}.{k}') for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(_parameter(v, f'{path}[{i}]') for i, v in enumerate(value))
    if not isinstance(value, bool | int | float | str):
        raise InputError(
            f'{path}={value!r} must be a bool, int, float, str, or a tuple of them '
            f'(a list or None could not be overridden), not {type(value).__name__}'
        )
    if isinstance(value, float):
        _reject_non_finite(value, path)
    return value


def _reject_non_finite(value: float, path: str) -> None:
    # One comparison covers NaN, both infinities and ints that are too large for floats.
    if not abs(value) <= sys.float_info.max:
        raise InputError(f'{path}={value!r} must be finite')


def _paths(cls: type, prefix: str) -> Iterator[str]:
    """Yields every dotted key, also those of sections."""
    for name, kind in fields(cls)[0].items():
        yield prefix + name
        if dataclasses.is_dataclass(kind):
            yield from _paths(kind, f'{prefix}{name}.')
