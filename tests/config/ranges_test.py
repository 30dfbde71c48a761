"""Every number of the configuration has a range, and a value outside names its key."""

import dataclasses
import re
import typing

import pytest

from configs import maze_tiny
from passk_jax import config as config_lib
from passk_jax.config import checks
from passk_jax.config.ranges import check_fields, check_float32
from passk_jax.config.sampling_options import sampling_options

OPTIONS = sampling_options(temperature=0.5, top_p=0.9, top_k=7)


def test_every_number_has_a_range():
    """A new field without one fails here.

    Arch has floats with checks of their own, and a stage is made of a checked section.
    """
    exempt = config_lib.ArchConfig, config_lib.Stage
    sections = (
        value
        for value in vars(config_lib).values()
        if dataclasses.is_dataclass(value) and value not in exempt
    )
    missing = [
        f'{section.__name__}.{field.name}'
        for section in sections
        for field in dataclasses.fields(section)
        if field.type in (int, float) and 'holds' not in field.metadata
    ]
    assert not missing


def whole_numbers(section, path=''):
    """The dotted keys of the fields of type int."""
    for name, kind in typing.get_type_hints(section).items():
        if dataclasses.is_dataclass(kind):
            yield from whole_numbers(kind, f'{path}{name}.')
        elif kind is int:
            yield path + name


LARGE = {'seed': 2**32, 'sampling.max_cache_bytes': 10**18}


@pytest.mark.parametrize('key', [*whole_numbers(config_lib.ExperimentConfig)])
def test_a_whole_number_has_a_largest_value(key):
    """A new field without one fails here; a device could not hold or end such a run."""
    value = LARGE.get(key, 10**9)
    config = maze_tiny.get_config()
    config.update_from_flattened_dict({key: value})
    message = rf'^{key}={value} must (lie in [\[].*, \S+[\])]|be at most \S+)$'
    with pytest.raises(ValueError, match=message):
        checks.build(config_lib.ExperimentConfig, config.to_dict())


@pytest.mark.parametrize(
    ('name', 'value', 'words'),
    [
        ('temperature', -0.1, r'be 0 \(greedy\)'),
        ('temperature', float('nan'), r'be 0 \(greedy\)'),
        ('top_p', 1.1, r'lie in \[1e-6, 1\]'),
        ('top_k', -1, r'lie in \[0, 10000000\]'),
        ('min_p', 1.5, r'lie in \[0, 1\]'),
    ],
)
def test_a_value_out_of_range_names_where_it_stands(name, value, words):
    bad = dataclasses.replace(OPTIONS, **{name: value})
    with pytest.raises(ValueError, match=rf'^eval\.{name}={value} must {words}'):
        check_fields(bad, 'eval')
    with pytest.raises(ValueError, match=rf'^{name}={value} must'):
        check_fields(bad)


@pytest.mark.parametrize(
    ('value', 'rounded'),
    [
        (1e-39, '0'),
        (-1e-50, '0'),
        (1 + 1e-9, '1'),
        (1 - 1e-9, '1'),
        (-1e39, 'infinite'),
    ],
)
def test_a_value_that_float32_makes_0_or_1_or_infinite_is_refused(value, rounded):
    with pytest.raises(ValueError, match=rf'^a={re.escape(repr(value))} is {rounded} '):
        check_float32('a', value)


@pytest.mark.parametrize('value', [0.0, 1.0, -1.0, 0.1, 1e-37, 1 - 1e-7, 3e38])
def test_a_value_that_float32_only_rounds_is_accepted(value):
    check_float32('a', value)
