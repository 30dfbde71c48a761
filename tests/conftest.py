"""Eight fake CPU devices, quick compiles, and where the shared data may lie."""

import os
import pathlib

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ['XLA_FLAGS'] = (
    os.environ.get('XLA_FLAGS', '') + ' --xla_backend_optimization_level=1'
).strip()

import jax
import pytest

jax.config.update('jax_num_cpu_devices', 8)

_SHARED = pathlib.Path(__file__).resolve().parents[2] / 'shared'


@pytest.fixture
def shared_dir() -> pathlib.Path:
    """The folder of real problems and official verdicts beside the checkout."""
    if not _SHARED.is_dir():
        pytest.skip(f'no shared data beside the checkout: {_SHARED} is absent')
    return _SHARED
