"""Turns a ConfigDict into the configuration, and the configuration to JSON and back.

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
from passk_jax.config.experiment import ExperimentConfig, to_dict
from passk_jax.config.stages import stages_of


def from_config_dict(config: ConfigDict) -> ExperimentConfig:
    """Turns a ConfigDict into the checked, frozen configuration.

    Raises ValueError, which names the dotted key, if a key or a value is wrong.
    """
    return _checked(checks.build(ExperimentConfig, config.to_dict()))


def from_json_dict(values: Mapping[str, Any]) -> ExperimentConfig:
    """Reads parsed output of :func:`to_json`; raises as :func:`from_config_dict`."""
    return _checked(checks.build(ExperimentConfig, _lists_to_tuples(values)))


def with_new_options(values: Any, section: type = ExperimentConfig) -> Any:
    """Adds the fields that are newer than a saved configuration, turned off.

    They are the fields that declare a value ``off``.
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
    """The configuration as JSON text, in the order of the fields."""
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
