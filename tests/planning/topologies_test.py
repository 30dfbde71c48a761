import os
import subprocess
import sys

import jax
import pytest

from passk_jax.planning import topologies

_DEVICES = """
import sys
from passk_jax.planning import topologies
devices = topologies.connect(topologies.parse(sys.argv[1]))
print(len(devices), devices[0].platform)
"""


def connected(name: str) -> list[str]:
    """Number and platform of a topology's devices, in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'}
    done = subprocess.run(
        [sys.executable, '-c', _DEVICES, name],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ('name', 'platform', 'chip', 'shape'),
    [
        ('v5p:4x4x8', 'tpu', 'v5p', (4, 4, 8)),
        ('v5e:16x16', 'tpu', 'v5e', (16, 16)),
        ('tpu7x:2x2x1', 'tpu', 'tpu7x', (2, 2, 1)),
        ('2xv5p:4x4x4', 'tpu', 'v5p', (4, 4, 4)),
        ('cpu:8', 'cpu', 'cpu', (8,)),
        ('gpu:h100x16', 'gpu', 'h100', (16,)),
    ],
)
def test_a_name_says_platform_chip_and_shape(name, platform, chip, shape):
    have = topologies.parse(name)
    assert (have.platform, have.chip.name, have.shape) == (platform, chip, shape)


def test_chips_are_counted_over_all_dimensions():
    assert topologies.parse('v5p:4x4x8').num_chips == 128


def test_slices_have_chips_and_chips_have_devices():
    several = topologies.parse('3xtpu7x:2x2x1')
    assert (several.slices, several.num_chips, several.num_devices) == (3, 12, 24)
    one = topologies.parse('v5e:2x2')
    assert (one.slices, one.num_chips, one.num_devices) == (1, 4, 4)


@pytest.mark.parametrize(
    'name',
    [
        *('', 'v5p', 'v5p:', 'v5p:4x4', 'v5e:4x4x4', 'v5p:0x4x4', 'v5p:4x4x4 '),
        *('0xv5p:4x4x4', 'xv5p:4x4x4', '2v5p:4x4x4', '2xcpu:8', '2xgpu:h100x8'),
        *('v9:2x2', 'cpu:', 'cpu:0', 'cpu:2x2'),
        *('gpu:8', 'gpu:h100', 'gpu:h999x8', 'h100x8'),
    ],
)
def test_another_name_is_refused_with_the_choices(name):
    with pytest.raises(ValueError, match=r'v5p:XxYxZ.*cpu:COUNT.*h100') as error:
        topologies.parse(name)
    assert repr(name) in str(error.value)


def test_devices_that_are_there_already_are_used():
    devices = topologies.connect(topologies.parse('cpu:4'))
    assert devices == jax.devices()[:4]


def test_more_devices_than_a_started_process_has_are_refused():
    jax.devices()
    with pytest.raises(ValueError, match=r'cpu:64 asks for 64 .* started with 8'):
        topologies.connect(topologies.parse('cpu:64'))


@pytest.mark.parametrize('name', ['cpu:3', 'gpu:h100x24'])
def test_a_new_process_has_as_many_devices_as_are_asked_for(name):
    count = topologies.parse(name).num_chips
    assert connected(name) == [str(count), 'cpu']


def test_an_absent_tpu_compiler_is_named(monkeypatch):
    monkeypatch.setattr(topologies.importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(ValueError, match=r'v5e:2x2: the TPU compiler is not installed'):
        topologies.connect(topologies.parse('v5e:2x2'))


@pytest.mark.parametrize(
    'name',
    [
        *('v5e:1x1', 'v5e:4x8', 'v5p:2x2x1', 'v4:2x2x1'),
        *('tpu7x:2x2x1', '2xv5e:2x2', '2xtpu7x:2x2x1'),
    ],
)
def test_there_are_as_many_devices_as_the_name_says(name):
    pytest.importorskip('libtpu')
    count = topologies.parse(name).num_devices
    assert connected(name) == [str(count), 'tpu']


def test_a_shape_that_no_tpu_has_is_refused_in_words():
    pytest.importorskip('libtpu')
    with pytest.raises(subprocess.CalledProcessError) as error:
        connected('v5e:3x3')
    assert 'InputError: the TPU compiler refuses v5e:3x3' in error.value.stderr
