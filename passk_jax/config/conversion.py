"""Converts a ConfigDict to the configuration, and the configuration to and from JSON.

``configs/*.py`` return an ``ml_collections.ConfigDict``; :func:`from_config_dict`
converts it to :class:`ExperimentConfig`. It rejects a forgotten, misspelt or mistyped
key, or a value that fails :mod:`passk_jax.config.checks`, before a device is used.
Outside of this package and the commands, nothing uses a ConfigDict.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from passk_jax.config import checks
from passk_jax.config.experiment import ExperimentConfig, to_dict
from passk_jax.config.stages import stages_of


def from_config_dict(config: ConfigDict) -> ExperimentConfig:
    """Converts a ConfigDict to the checked, frozen configuration.

    Raises InputError with the dotted key if a key or a value is wrong.
    """
    return _checked(checks.build(ExperimentConfig, config.to_dict()))


def from_json_dict(values: Mapping[str, Any]) -> ExperimentConfig:
    """Converts parsed :func:`to_json` output; raises like :func:`from_config_dict`."""
    return _checked(checks.build(ExperimentConfig, _lists_to_tuples(values)))


def with_new_options(values: Any, section: type = ExperimentConfig) -> Any:
    """Adds fields that are newer than a saved configuration, with the value ``off``.

    Only fields that declare such a value are added.
    """
    if not values or not isinstance(values, Mapping):
        return values
    off = {
        field.name: field.metadata['off']
        for field in dataclasses.fields(section)
        if 'off' in field.metadata
    }
    parts = {
        name: with_new_options(values[name], kind)
        for name, kind in checks.fields(section)[0].items()
        if name in values and dataclasses.is_dataclass(kind)
    }
    return {**off, **values, **parts}


def to_json(config: ExperimentConfig) -> str:
    """Formats the configuration as JSON, in the order of the fields."""
    return json.dumps(to_dict(config), indent=2) + '\n'


def _checked(config: ExperimentConfig) -> ExperimentConfig:
    checks.check(checks.flatten(to_dict(config)))
    stages_of(config)
    return config


def _lists_to_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _lists_to_tuples(v) for k, v in value.items()}
    if isinstance(value, list):
        return tuple(_lists_to_tuples(v) for v in value)
    return value
