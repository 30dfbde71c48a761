"""The config border: conversion and persistence."""

import copy
import dataclasses
import functools
import json
import os
import subprocess
import sys

import pytest

from configs import maze, maze_tiny
from passk_jax import config as config_lib
from passk_jax.advantages import all_parameters

# Section, field, and what a run did that is older than the field.
NEW_OPTIONS = (
    ('sampling', 'min_p', 0.0),
    ('eval', 'min_p', 0.0),
    ('eval', 'kept_responses', 0),
    ('log', 'diagnostics_every', 0),
    ('log', 'difficulty_bins', 0),
    ('train', 'epochs', 1),
    ('checkpoint', 'keep_every', 0),
    ('checkpoint', 'keep_best', ''),
    ('optimizer', 'name', 'adamw'),
    ('optimizer', 'schedule', 'constant'),
    ('init.warm_start.optimizer', 'name', 'adamw'),
    ('init.warm_start.optimizer', 'schedule', 'constant'),
)


def test_from_config_dict_gives_frozen_dataclasses():
    config = config_lib.from_config_dict(maze_tiny.get_config())
    assert config.sampling.num_rollouts == 16
    assert config.task.params['train_sizes'] == (5,)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 1


@pytest.mark.parametrize('experiment', [maze, maze_tiny])
def test_json_reads_back_equal(experiment):
    config = config_lib.from_config_dict(experiment.get_config())
    text = config_lib.to_json(config)
    assert config_lib.from_json_dict(json.loads(text)) == config


# The keys of old run directories, with what they did: these must not change. A new
# parameter needs no line here.
OLD_ADVANTAGE = {
    'name': 'pass_at_k',
    'k': 4,
    'match_weight_at': 0.0,
    'num_groups': 0,
    'aggregation': 'sum',
    'easy_threshold': 0.6,
    'switch_threshold': 0.5,
    'high_entropy_fraction': 0.5,
    'pass_weights': [0.5, 0.5],
    'set_value': 'mean_distinct',
    'order': 4,
    'beta': 2.0,
    'gamma': 0.5,
    'weight': 0.1,
    'rank_penalty': 0.25,
    'smoothing_correct': 0.05,
    'smoothing_wrong': 0.05,
    'window': 10,
}


def test_the_advantage_is_one_flat_section_that_keeps_its_old_keys():
    """As it was when every parameter was a field, so that old runs read back."""
    text = config_lib.to_json(config_lib.from_config_dict(maze.get_config()))
    section = json.loads(text)['advantage']
    assert OLD_ADVANTAGE.items() <= section.items()
    names = ['name', 'k', 'match_weight_at', *(p.name for p in all_parameters())]
    assert [*section] == [*dict.fromkeys(names)]


def test_a_run_older_than_a_parameter_of_an_estimator_reads_back():
    new = config_lib.from_config_dict(maze.get_config())
    values = json.loads(config_lib.to_json(new))
    for name in values['advantage'].keys() - {'name', 'k', 'match_weight_at'}:
        old = copy.deepcopy(values)
        del old['advantage'][name]
        restored = config_lib.from_json_dict(config_lib.with_new_options(old))
        assert restored.advantage.parameters.items() <= new.advantage.parameters.items()


def test_a_config_older_than_a_field_has_the_field_turned_off():
    new = config_lib.to_dict(config_lib.from_config_dict(maze.get_config()))
    assert config_lib.with_new_options(new) == new
    old, expected = copy.deepcopy(new), copy.deepcopy(new)
    assert old.pop('stages') == {}
    del old['verifier']
    expected['verifier'] = {'max_unparsed_golds': 1.0}
    for section, field, off in NEW_OPTIONS:
        del functools.reduce(dict.__getitem__, section.split('.'), old)[field]
        functools.reduce(dict.__getitem__, section.split('.'), expected)[field] = off
    assert config_lib.with_new_options(old) == expected
    assert config_lib.with_new_options([]) == []


def test_json_that_lost_a_key_is_refused():
    values = config_lib.to_dict(config_lib.from_config_dict(maze.get_config()))
    del values['sampling']['top_p']
    with pytest.raises(ValueError, match=r"missing keys \['sampling.top_p'\]"):
        config_lib.from_json_dict(values)


def test_an_int_serves_as_a_float_and_becomes_one():
    values = config_lib.to_dict(config_lib.from_config_dict(maze.get_config()))
    values['sampling']['temperature'] = 1
    temperature = config_lib.from_json_dict(values).sampling.temperature
    assert type(temperature) is float


def test_a_section_overridden_as_a_whole_must_be_complete():
    config = maze_tiny.get_config()
    config.advantage = {'k': 8}
    with pytest.raises(ValueError, match=r"missing keys \['advantage.name'"):
        config_lib.from_config_dict(config)


def test_nan_is_an_error():
    config = maze_tiny.get_config()
    config.optimizer.learning_rate = float('nan')
    with pytest.raises(ValueError, match=r'optimizer.learning_rate=nan must be finite'):
        config_lib.from_config_dict(config)


def test_configs_and_checks_start_no_backend():
    code = (
        'from configs import maze, maze_tiny; '
        'from passk_jax import config; '
        'config.from_config_dict(maze.get_config()); '
        'config.from_config_dict(maze_tiny.get_config()); '
    )

    def run(code: str) -> int:
        # Any start of a backend fails: there is no such platform.
        environment = os.environ | {'JAX_PLATFORMS': 'no_such_platform'}
        command = [sys.executable, '-c', code]
        return subprocess.run(command, env=environment, capture_output=True).returncode

    assert run(code) == 0
    assert run(code + 'import jax; jax.devices()') != 0
