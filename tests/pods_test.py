"""However many processes and whichever mesh: the same run, and the same parameters."""

import json
import math
import subprocess
import sys

import pytest

from passk_jax import sharding
from tests import tiny
from tests.train_mesh_test import assert_close

pytestmark = pytest.mark.slow

STEPS = 3
DEVICES = 8
# The sizes of data, fsdp, rollout and tensor, and over how many processes.
PLACES = [
    ((8, 1, 1, 1), 1),
    ((2, 2, 1, 2), 1),
    ((1, 2, 2, 2), 1),
    ((8, 1, 1, 1), 2),
    ((2, 2, 1, 2), 2),
    ((1, 2, 2, 2), 4),
    ((8, 1, 1, 1), 4),
]


def run(processes, devices, *command):
    """Runs a command of Python on all processes; each must end well."""
    # Process 0 alone would find its programs there.
    cache = {'JAX_ENABLE_COMPILATION_CACHE': 'false'} if processes > 1 else {}
    port = tiny.free_port()
    started = [
        subprocess.Popen(
            [sys.executable, *command, f'--hosts=localhost:{port},{processes},{index}'],
            cwd=tiny.ROOT,
            env=tiny.environment(devices // processes) | cache,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(processes)
    ]
    for process in started:
        _, errors = process.communicate(timeout=900)
        assert process.returncode == 0, errors


def train(workdir, mesh, processes=1):
    sizes = zip(sharding.MESH_AXES, mesh, strict=True)
    changes = {f'mesh.{axis}': size for axis, size in sizes} | {
        'train.steps': STEPS,
        # A prompt for each device.
        'train.micro_batch_prompts': 8,
        'eval.batch_size': 8,
        'log.rollouts_every': 1,
    }
    settings = (f'--config.{key}={value}' for key, value in changes.items())
    command = ('-m', 'passk_jax.train', '--config=tests/tiny.py', *settings)
    run(processes, math.prod(mesh), *command, f'--workdir={workdir}')


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """The directory of the whole run on one device."""
    workdir = tmp_path_factory.mktemp('alone')
    train(workdir, (1, 1, 1, 1))
    return workdir


@pytest.mark.parametrize(('mesh', 'processes'), PLACES)
def test_tokens_and_metrics_are_those_of_one_device(alone, mesh, processes, tmp_path):
    train(tmp_path, mesh, processes)
    assert_close(alone, tmp_path)


# Reads a run's state, each process its shards, and saves it again from there.
_AGAIN = """
import json, pathlib, sys
from passk_jax import sharding, train
from passk_jax.config import stages_of
from passk_jax.runtime.hosts import join_hosts
from passk_jax.learning import state as states
from passk_jax.runs.checkpoints import Checkpoints
from passk_jax.setup.setup import make_setup
from tests import tiny

mesh, before, after, hosts = sys.argv[1:]
join_hosts(hosts.partition('=')[2])
sizes = zip(sharding.MESH_AXES, json.loads(mesh), strict=True)
config = tiny.make_config(**{f'mesh__{axis}': size for axis, size in sizes})
made = make_setup(config)
optimizer = train.stage_optimizer(stages_of(config)[0])
shapes = states.state_shapes(made.policy, optimizer, made.mesh)
arrays = {'params': shapes.params, 'opt_state': shapes.opt_state}
with Checkpoints(pathlib.Path(before, 'checkpoints'), keep=9) as checkpoints:
    saved = checkpoints.restore(**arrays)
arrays = {name: getattr(saved, name) for name in arrays}
with Checkpoints(pathlib.Path(after, 'checkpoints'), keep=1) as checkpoints:
    checkpoints.save(saved.step, meta=saved.meta, **arrays)
"""


def test_a_state_is_bitwise_the_same_after_other_processes_and_meshes(alone, tmp_path):
    before = alone
    for number, (mesh, processes) in enumerate(PLACES[1:]):
        after = tmp_path / str(number)
        run(processes, DEVICES, '-c', _AGAIN, json.dumps(mesh), before, after)
        before = after
        first, last = (tiny.saved_arrays(path, STEPS) for path in (alone, after))
        assert first.keys() == last.keys()
        for name, array in first.items():
            assert array.tobytes() == last[name].tobytes(), (name, mesh, processes)
