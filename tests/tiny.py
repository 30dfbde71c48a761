"""A whole run in seconds: the experiment that the tests of the loop share.

All tests use the same shapes, so that they find each other's programs in the
compilation cache (see conftest.py). It is also a config file:

    python -m passk_jax.train --config=tests/tiny.py --workdir=...
"""

import contextlib
import functools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import numpy as np
from ml_collections import ConfigDict

from configs import maze_tiny
from passk_jax import config as config_lib
from passk_jax import sharding
from passk_jax.config import ExperimentConfig
from passk_jax.setup import setup as setup_lib

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Files that have the same bytes whenever and wherever a run was interrupted.
SAME_BYTES = (
    'metrics.jsonl',
    'diagnostics.jsonl',
    'digests.jsonl',
    'rollouts/*',
    'evaluation/*',
    'tokenizer/*',
)


def get_config() -> ConfigDict:
    """Returns configs/maze_tiny.py with all parts of a run, as small as possible."""
    config = maze_tiny.get_config()
    config.model.attention = 'auto'
    config.train.pack_sizes = 0
    config.name, config.stage = 'tiny', 0
    arch = config.model.arch
    arch.num_layers, arch.embed_dim, arch.mlp_dim = 1, 16, 32
    arch.num_heads, arch.num_kv_heads, arch.head_dim = 2, 1, 8
    config.init.warm_start.steps = 40
    config.init.warm_start.batch_size = 16
    config.init.warm_start.optimizer.learning_rate = 2e-2
    params = config.task.params
    # Easy mazes, so that there is a reward, and two sizes to break results down by.
    params.min_path, params.max_path = 1, 3
    params.train_sizes, params.train_counts = (3,), (48,)
    params.validation_sizes, params.validation_counts = (3, 4), (2, 4)
    params.test_sizes, params.test_counts = (3,), (5,)
    config.data.dir = str(ROOT / '.pytest_cache' / 'data')
    config.sampling.num_rollouts = 4
    config.sampling.max_response_tokens = 5
    config.advantage.k = 2
    config.train.steps = 5
    config.train.num_prompts = 8
    config.train.mini_batch_prompts = 8
    config.train.micro_batch_prompts = 4
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
    """Returns the tiny experiment with ``section__key=value`` set."""
    config = get_config()
    flat = {name.replace('__', '.'): value for name, value in overrides.items()}
    config.update_from_flattened_dict(flat)
    return config_lib.from_config_dict(config)


# Only the loop, from random parameters, without evaluations and dumps of rollouts.
ONLY_STEPS = {
    'init__kind': 'scratch',
    'eval__every': 0,
    'eval__final_split': '',
    'log__rollouts_every': 0,
}


@contextlib.contextmanager
def devices(count: int) -> Iterator[None]:
    """Makes meshes of the first ``count`` devices; one device compiles far quicker."""
    make_mesh = functools.partial(sharding.make_mesh, devices=jax.devices()[:count])
    with mock.patch('passk_jax.setup.setup.sharding.make_mesh', make_mesh):
        yield


def make_setup(config: ExperimentConfig) -> setup_lib.Setup:
    """Makes the fixed parts of a run on one device."""
    with devices(1):
        return setup_lib.make_setup(config)


def run(
    config: ExperimentConfig,
    workdir: pathlib.Path,
    *,
    num_devices: int = 1,
    accept_loss: bool = False,
) -> bool:
    """Does what the command does after it has read its flags, except drawing."""
    # Imported here, because the command imports this file, and defines flags only once.
    from passk_jax.runs.checkpoints import from_intact
    from passk_jax.runs.directory import has_begun
    from passk_jax.runs.sources import remember_sources
    from passk_jax.setup.checks import open_workdir
    from passk_jax.train import train

    with (
        devices(num_devices),
        mock.patch('passk_jax.report.run_log.Reporter'),
        open_workdir(config, workdir, accept_loss=accept_loss) as path,
    ):
        remember_sources(path, config.model, begun=has_begun(path))
        return from_intact(lambda: train(config, path), path / 'checkpoints')


def stop_before(step: int) -> Any:
    """Makes training stop before this step, as at SIGTERM."""
    return _stop_if(lambda now: now == step)


def stop_once_before_every_step() -> Any:
    """Makes training stop before each step that it reaches for the first time."""
    stopped_before = set()

    def stops(step: int) -> bool:
        is_new = step not in stopped_before
        stopped_before.add(step)
        return is_new

    return _stop_if(stops)


def _stop_if(stops: Callable[[int], bool]) -> Any:
    from passk_jax import train

    evaluate_due = train.evaluate_due

    def evaluate_or_stop(verbs, params, splits, log, step, *, stop):
        return not stops(step) and evaluate_due(
            verbs, params, splits, log, step, stop=stop
        )

    return mock.patch.object(train, 'evaluate_due', evaluate_or_stop)


def warm_copy(finished: pathlib.Path, workdir: pathlib.Path) -> pathlib.Path:
    """Makes a new run directory with the warm start of a finished run."""
    shutil.copytree(finished / 'warm_start', workdir / 'warm_start')
    return workdir


def environment(num_devices: int = 1) -> dict[str, str]:
    """Returns a command's environment: conftest.py's, with ``num_devices`` devices."""
    flags = f'--xla_force_host_platform_device_count={num_devices}'
    return os.environ | {'XLA_FLAGS': f'{os.environ["XLA_FLAGS"]} {flags}'}


def free_port() -> int:
    """Finds a port of this machine that is free."""
    with socket.socket() as probe:
        probe.bind(('localhost', 0))
        return probe.getsockname()[1]


def start(module: str, *arguments: str) -> subprocess.Popen:
    """Starts ``python -m passk_jax.<module>`` in the root of the repository."""
    return subprocess.Popen(
        [sys.executable, '-m', f'passk_jax.{module}', *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def contents(workdir: pathlib.Path) -> dict[str, bytes]:
    """Reads the files of a run that must not depend on interruptions."""
    paths = [path for pattern in SAME_BYTES for path in workdir.glob(pattern)]
    return {str(p.relative_to(workdir)): p.read_bytes() for p in paths if p.is_file()}


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def metrics(workdir: pathlib.Path, split: str) -> list[dict[str, Any]]:
    """Reads the metric lines of one split, which may be ``'train'``."""
    return [r for r in read_lines(workdir / 'metrics.jsonl') if r['split'] == split]


def measured(line: dict[str, Any]) -> dict[str, Any]:
    """Returns an evaluation's line without its place in the run and its flips."""
    of_the_run = ('step', 'stage', 'split', 'flips_solved', 'flips_unsolved')
    return {name: value for name, value in line.items() if name not in of_the_run}


def saved_arrays(workdir: pathlib.Path, step: int) -> dict[str, np.ndarray]:
    """Reads all arrays of a checkpoint to one device; names begin with the item."""
    import orbax.checkpoint as ocp

    path = workdir / 'checkpoints' / str(step)
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    arrays = {}
    for item in ('params', 'opt_state', 'memory'):
        # Most estimators have no memory.
        if item != 'memory' or (path / item).exists():
            checkpointer = ocp.StandardCheckpointer()
            target = {
                name: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=here)
                for name, array in checkpointer.metadata(
                    path / item
                ).item_metadata.items()
            }
            tree = checkpointer.restore(path / item, target)
            arrays |= {f'{item}/{name}': np.asarray(x) for name, x in tree.items()}
    return arrays


def assert_same_run(a: pathlib.Path, b: pathlib.Path, *, last: int) -> None:
    """Asserts that two finished runs are equal: files by byte, arrays by bit."""
    first, second = contents(a), contents(b)
    assert 'metrics.jsonl' in first
    assert first.keys() == second.keys()
    different = [name for name in first if first[name] != second[name]]
    assert not different
    arrays, other_arrays = saved_arrays(a, last), saved_arrays(b, last)
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        assert array.tobytes() == other_arrays[name].tobytes(), name
