"""A whole run in seconds: the configuration that the tests of the loop share.

One set of shapes for all of them, so that what one has compiled the others find in the
compilation cache (see conftest.py). It is also a config file:

    python -m passk_jax.train --config=tests/tiny.py --workdir=...
"""

import functools
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from configs import maze_tiny
from passk_jax import config as config_lib
from passk_jax import sharding
from passk_jax.config import ExperimentConfig
from passk_jax.run_directory import prepare_workdir

ROOT = pathlib.Path(__file__).resolve().parents[1]

# What must be the same bytes whenever and wherever a run was interrupted.
SAME_BYTES = ('metrics.jsonl', 'rollouts/*', 'evaluation/*', 'tokenizer/*')


def get_config() -> ConfigDict:
    """configs/maze_tiny.py, with as little of everything as still is everything."""
    config = maze_tiny.get_config()
    config.name = 'tiny'
    arch = config.model.arch
    arch.num_layers, arch.embed_dim, arch.mlp_dim = 1, 16, 32
    arch.num_heads, arch.num_kv_heads, arch.head_dim = 2, 1, 8
    config.init.warm_start.steps = 40
    config.init.warm_start.batch_size = 16
    config.init.warm_start.learning_rate = 2e-2
    params = config.task.params
    # Easy ones, so that there is a reward; two sizes, to break results down by.
    params.min_path, params.max_path = 1, 3
    params.train_sizes, params.train_counts = (3,), (48,)
    params.validation_sizes, params.validation_counts = (3, 4), (2, 4)
    params.test_sizes, params.test_counts = (3,), (5,)
    config.data.dir = str(ROOT / '.pytest_cache' / 'data')
    config.sampling.num_rollouts = 4
    config.sampling.max_response_tokens = 5
    config.advantage.k = 2
    config.train.steps = 5
    config.train.num_prompts = 4
    config.train.mini_batch_prompts = 4
    config.train.micro_batch_prompts = 2
    config.optimizer.learning_rate = 1e-2
    config.eval.every = 2
    config.eval.num_responses = 4
    config.eval.batch_size = 4
    config.eval.bootstrap_samples = 20
    config.checkpoint.every = 2
    config.log.rollouts_every = 2
    config.log.tensorboard = False
    return config


def make_config(**overrides: Any) -> ExperimentConfig:
    """The tiny experiment with ``section__key=value`` set."""
    config = get_config()
    flat = {name.replace('__', '.'): value for name, value in overrides.items()}
    config.update_from_flattened_dict(flat)
    return config_lib.from_config_dict(config)


@pytest.fixture
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs on the first of the fake devices alone, which compiles far quicker."""
    use_devices(monkeypatch, 1)


def use_devices(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Lets meshes be made of the first ``count`` devices."""
    make_mesh = functools.partial(sharding.make_mesh, devices=jax.devices()[:count])
    monkeypatch.setattr('passk_jax.setup.sharding.make_mesh', make_mesh)


def run(config: ExperimentConfig, workdir: pathlib.Path) -> bool:
    """What the command does after it has read its flags."""
    # Here: the command itself imports this file, and defines its flags only once.
    from passk_jax.train import train

    text = config_lib.to_json(config)
    with prepare_workdir(workdir, text, may_differ=('mesh.',)) as path:
        return train(config, path)


def environment(num_devices: int = 1) -> dict[str, str]:
    """Of a command: quick compiles, and what was compiled before is found again."""
    flags = f'--xla_force_host_platform_device_count={num_devices}'
    return os.environ | {
        'JAX_PLATFORMS': 'cpu',
        'XLA_FLAGS': f'--xla_backend_optimization_level=1 {flags}',
        'JAX_COMPILATION_CACHE_DIR': str(ROOT / '.pytest_cache' / 'xla'),
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
        'JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES': '0',
    }


def command(
    module: str, *arguments: str, num_devices: int = 1, **kwargs: Any
) -> subprocess.Popen:
    """Starts ``python -m passk_jax.<module>`` in the root of the repository."""
    return subprocess.Popen(
        [sys.executable, '-m', f'passk_jax.{module}', *arguments],
        cwd=ROOT,
        env=environment(num_devices),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def finish(process: subprocess.Popen, *, timeout: float = 300) -> tuple[int, str, str]:
    """Waits for a command: exit status, standard output, standard error."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def contents(workdir: pathlib.Path) -> dict[str, bytes]:
    """The files of a run that must not depend on how it came about."""
    paths = [path for pattern in SAME_BYTES for path in workdir.glob(pattern)]
    return {str(p.relative_to(workdir)): p.read_bytes() for p in paths if p.is_file()}


def lines(workdir: pathlib.Path, *, split: str | None = None) -> list[dict[str, Any]]:
    """The metric lines, of one split if given."""
    path = workdir / 'metrics.jsonl'
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in rows if split in (None, row['split'])]


def saved_arrays(workdir: pathlib.Path, step: int) -> dict[str, np.ndarray]:
    """Every array of a checkpoint, parameters and optimizer, read without a target."""
    import orbax.checkpoint as ocp

    path = workdir / 'checkpoints' / str(step)
    arrays = {}
    for item in ('params', 'opt_state'):
        tree = ocp.StandardCheckpointer().restore(path / item)
        arrays |= {f'{item}/{name}': np.asarray(x) for name, x in tree.items()}
    return arrays
