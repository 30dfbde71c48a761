"""The config border: conversion, persistence, comparison, and the command line."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest
from absl import flags
from ml_collections import ConfigDict, config_flags

from configs import maze, maze_tiny
from passk_jax import config as config_lib
from passk_jax.cli import command


@pytest.fixture
def parse(monkeypatch):
    """What absl makes of a command's arguments: the config and what is left over."""

    def parse_arguments(*arguments: str) -> tuple[ConfigDict, list[str]]:
        argv = ['train', '--config=configs/maze_tiny.py', *arguments]
        # config_flags looks for overrides in sys.argv, whatever it is called with.
        monkeypatch.setattr(sys, 'argv', argv)
        values = flags.FlagValues()
        config_flags.DEFINE_config_file('config', flag_values=values)
        leftover = values(argv)
        return values.config, leftover

    return parse_arguments


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


def test_the_advantage_is_one_flat_section_in_the_order_of_the_table():
    """As it was when every parameter was a field, so that old runs read back."""
    text = config_lib.to_json(config_lib.from_config_dict(maze.get_config()))
    section = json.loads(text)['advantage']
    assert list(section.items()) == [
        ('name', 'pass_at_k'),
        ('k', 4),
        ('num_groups', 0),
        ('aggregation', 'sum'),
        ('easy_threshold', 0.6),
        ('switch_threshold', 0.5),
        ('high_entropy_fraction', 0.5),
    ]


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


def test_diff_names_what_differs(parse):
    a = config_lib.from_config_dict(maze_tiny.get_config())
    overridden, _ = parse(
        '--config.advantage.k=8', '--config.task.params.test_counts=(7,)'
    )
    b = config_lib.from_config_dict(overridden)
    assert config_lib.diff(a, a) == ()
    assert config_lib.diff(a, b) == ('advantage.k', 'task.params.test_counts')
    assert config_lib.diff(b, a) == config_lib.diff(a, b)


def test_diff_sees_a_parameter_that_only_one_has():
    a = config_lib.from_config_dict(maze_tiny.get_config())
    params = {k: v for k, v in a.task.params.items() if k != 'seed'}
    b = dataclasses.replace(a, task=dataclasses.replace(a.task, params=params))
    assert config_lib.diff(a, b) == ('task.params.seed',)


def test_one_key_is_overridden_and_its_section_stays(parse):
    default = config_lib.from_config_dict(maze_tiny.get_config())
    config = config_lib.from_config_dict(parse('--config.advantage.k=8')[0])
    assert config.advantage == dataclasses.replace(default.advantage, k=8)
    assert config_lib.diff(default, config) == ('advantage.k',)


def test_a_section_overridden_as_a_whole_must_be_complete():
    config = maze_tiny.get_config()
    config.advantage = {'k': 8}
    with pytest.raises(ValueError, match=r"missing keys \['advantage.name'"):
        config_lib.from_config_dict(config)


def test_a_typo_on_the_command_line_is_an_error(parse):
    with pytest.raises(AttributeError, match='num_rollouts'):
        parse('--config.sampling.num_rolouts=8')


def test_a_wrong_type_on_the_command_line_is_an_error(parse):
    with pytest.raises(flags.IllegalFlagValueError):
        parse('--config.advantage.k=four')


def test_nan_on_the_command_line_is_an_error(parse):
    config, _ = parse('--config.optimizer.learning_rate=nan')
    with pytest.raises(ValueError, match=r'optimizer.learning_rate=nan must be finite'):
        config_lib.from_config_dict(config)


def test_a_value_after_a_space_is_left_over_and_refused(parse):
    config, leftover = parse('--config.log.tensorboard', 'False')
    # What makes it a trap: the flag is on although the user wrote False.
    assert config.log.tensorboard is True
    with pytest.raises(ValueError, match=r"not understood: \['False'\]"):
        command.reject_leftover_arguments(leftover)


def test_no_leftover_is_no_error():
    command.reject_leftover_arguments(['train'])


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
