"""The only way from a ConfigDict to the configuration, and its way to a file and back.

``configs/*.py`` return an ``ml_collections.ConfigDict``; :func:`from_config_dict` turns
it into :class:`ExperimentConfig`. A forgotten, misspelt or mistyped key fails here,
before a device is used. So does a value that :mod:`passk_jax.config.checks` rejects.
Nothing else in the package sees a ConfigDict.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from passk_jax.config import checks
from passk_jax.config.experiment import ExperimentConfig


def from_config_dict(config: ConfigDict) -> ExperimentConfig:
    """Turns a ConfigDict into the checked, frozen configuration.

    Raises ValueError, which names the dotted key, if a key or a value is wrong.
    """
    return _checked(checks.build(ExperimentConfig, config.to_dict()))


def from_json_dict(values: Mapping[str, Any]) -> ExperimentConfig:
    """Reads parsed output of :func:`to_json`; raises as :func:`from_config_dict`."""
    return _checked(checks.build(ExperimentConfig, _lists_to_tuples(values)))


def with_new_options(values: Any) -> Any:
    """Adds the options that a saved configuration lacks, turned off.

    They are the fields that declare what is ``off``.
    """
    if not values or not isinstance(values, Mapping):
        return values
    values = _off(ExperimentConfig) | dict(values)
    for name, kind in checks.fields(ExperimentConfig)[0].items():
        if dataclasses.is_dataclass(kind) and isinstance(values.get(name), Mapping):
            values[name] = _off(kind) | values[name]
    return values


def _off(section: type) -> dict[str, Any]:
    declared = {field.name: field.metadata for field in dataclasses.fields(section)}
    return {name: row['off'] for name, row in declared.items() if 'off' in row}


def to_dict(config: ExperimentConfig) -> dict[str, Any]:
    """The configuration as nested dicts, which :func:`from_json_dict` reads."""
    values = dataclasses.asdict(config)
    values['advantage'] |= values['advantage'].pop('parameters')
    return values


def to_json(config: ExperimentConfig) -> str:
    """The configuration as JSON text, in the order of the fields."""
    return json.dumps(to_dict(config), indent=2) + '\n'


def _checked(config: ExperimentConfig) -> ExperimentConfig:
    checks.check(checks.flatten(to_dict(config)))
    return config


def _lists_to_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _lists_to_tuples(v) for k, v in value.items()}
    if isinstance(value, list):
        return tuple(_lists_to_tuples(v) for v in value)
    return value
