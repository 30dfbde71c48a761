"""The config border: conversion and persistence."""

import dataclasses
import json
import subprocess
import sys

import pytest

from configs import maze, maze_tiny
from passk_jax import config as config_lib


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


def test_configs_and_checks_import_no_jax():
    code = (
        'import sys; from configs import maze, maze_tiny; '
        'from passk_jax import config; '
        'config.from_config_dict(maze.get_config()); '
        'config.from_config_dict(maze_tiny.get_config()); '
        "sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, '-c', code], check=True)
