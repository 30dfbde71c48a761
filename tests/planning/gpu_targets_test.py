"""Descriptions of GPUs, and what XLA's compiler makes of them where it is installed."""

import subprocess
import sys

import pytest

from passk_jax.planning import gpu_targets, topologies
from passk_jax.planning.chips import GPUS

COMPILED = """
import jax
from jax import numpy as jnp
from passk_jax.planning import topologies
(device,) = topologies.connect(topologies.parse('gpu:{name}x1'))
one = jax.sharding.SingleDeviceSharding(device)
x = jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16, sharding=one)
compiled = jax.jit(lambda x: x @ x).lower(x).compile()
print(compiled.memory_analysis().argument_size_in_bytes)
"""


@pytest.mark.parametrize('name', GPUS)
def test_each_gpu_has_its_own_description(name):
    text = gpu_targets.describe(GPUS[name])
    assert f'device_description_str: "{name}"' in text
    assert f'memory_bandwidth: {GPUS[name].memory_bandwidth:.0f}' in text
    assert text.count('{') == text.count('}')


def test_only_one_gpu_is_compiled_for_and_only_where_its_compiler_is(monkeypatch):
    one, eight = (topologies.parse(f'gpu:h100x{count}') for count in (1, 8))
    monkeypatch.setattr(gpu_targets, 'has_compiler', lambda: True)
    assert one.has_compiler
    assert not eight.has_compiler
    monkeypatch.setattr(gpu_targets, 'has_compiler', lambda: False)
    assert not one.has_compiler


@pytest.mark.parametrize('name', GPUS)
@pytest.mark.skipif(not gpu_targets.has_compiler(), reason='the extra gpu is absent')
def test_the_compiler_takes_the_description(name):
    code = COMPILED.format(name=name)
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.stdout.split() == [str(2 * 4096**2)], done.stderr
