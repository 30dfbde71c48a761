"""Two processes that share a mesh do what one does, in training and evaluation."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

from passk_jax import evaluate
from passk_jax.models import policy
from passk_jax.runs.checkpoints import restore_params
from tests import tiny

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = 2


CHANGES = {
    'mesh__data': -1,
    'mesh__fsdp': 1,
    'train__steps': STEPS,
    'eval__every': 0,
    'eval__final_split': '',
    'init__warm_start__steps': 5,
    # Long enough that rows move: both hosts must decide alike.
    'sampling__max_response_tokens': 40,
    'log__diagnostics_every': STEPS,
    # Whose memory is of all hosts' problems.
    'advantage__name': 'curverl',
    'train__follow_difficulty': 0.9,
}


def options_of(changes: dict[str, object]) -> list[str]:
    settings = (
        f'--config.{key.replace("__", ".")}={value}' for key, value in changes.items()
    )
    return ['--config=tests/tiny.py', *settings]


def start(
    workdir: pathlib.Path,
    program: str,
    *options: str,
    stdout: int = subprocess.DEVNULL,
    **environment: str,
) -> subprocess.Popen:
    """Starts a module, or a script of several lines."""
    what = ['-c', program] if '\n' in program else ['-m', f'passk_jax.{program}']
    command = [sys.executable, *what, f'--workdir={workdir}', *options]
    # One device a process; the fake ones of conftest.py are not inherited.
    environment |= {'JAX_PLATFORMS': 'cpu', 'JAX_NUM_CPU_DEVICES': '1'}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_pair(
    workdir: pathlib.Path, *command: str, stdout: int = subprocess.DEVNULL
) -> list[subprocess.Popen]:
    port = tiny.free_port()
    # Without the cache of programs: process 0 alone would find its own there.
    return [
        start(
            workdir,
            *command,
            f'--hosts=localhost:{port},2,{index}',
            stdout=stdout,
            JAX_ENABLE_COMPILATION_CACHE='false',
        )
        for index in range(2)
    ]


def finish(*processes: subprocess.Popen) -> None:
    for process in processes:
        _, errors = process.communicate(timeout=900)
        assert process.returncode == 0, errors


def lines(workdir: pathlib.Path, name: str = 'metrics') -> list[dict]:
    text = (workdir / f'{name}.jsonl').read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_two_processes_train_as_one_does(tmp_path):
    changes = CHANGES | {'train__dynamic_sampling_rounds': 1}
    pair = start_pair(tmp_path / 'two', 'train', *options_of(changes))
    assert tiny.run(tiny.make_config(**changes), tmp_path / 'one')
    finish(*pair)
    one, two = lines(tmp_path / 'one'), lines(tmp_path / 'two')
    assert [line['step'] for line in one] == [line['step'] for line in two]
    for a, b in zip(one, two, strict=True):
        # The same responses, token for token; sums in another order.
        assert a['response_length'] == b['response_length']
        for name in ('reward', 'trained_reward', 'sampling_draws'):
            assert a[name] == b[name], name
        assert a['loss'] == pytest.approx(b['loss'], abs=1e-5)
    # Dynamic sampling has replaced problems.
    assert any(line['trained_reward'] != line['reward'] for line in two)
    of_one, of_two = (tiny.saved_arrays(tmp_path / x, STEPS) for x in ('one', 'two'))
    for name in ('memory/history', 'memory/difficulty'):
        np.testing.assert_array_equal(of_one[name], of_two[name])
    assert of_one['memory/history'].sum(axis=1).tolist() == [0] * 8 + [8] * STEPS
    assert of_one['memory/difficulty'][:, 1].max() > 0
    pairs = (lines(tmp_path / name, 'diagnostics') for name in ('one', 'two'))
    for a, b in zip(*pairs, strict=True):
        assert a.keys() == b.keys()
        for name, value in a.items():
            assert value == pytest.approx(b[name], rel=1e-3, abs=1e-4), name


EXPERTS = {
    'model__family': 'qwen3_moe',
    'model__arch__num_experts': 4,
    'model__arch__experts_per_token': 2,
    'mesh__data': 1,
    'mesh__tensor': -1,
    'log__diagnostics_every': 0,
    'loss__router_aux_coef': 0.01,
    'model__replay_routing': True,
}


@pytest.mark.slow
def test_two_processes_share_the_experts_and_train_as_one_does(tmp_path):
    changes = CHANGES | EXPERTS
    pair = start_pair(tmp_path / 'two', 'train', *options_of(changes))
    assert tiny.run(tiny.make_config(**changes), tmp_path / 'one')
    finish(*pair)
    both = (lines(tmp_path / name) for name in ('one', 'two'))
    for a, b in zip(*both, strict=True):
        assert a['response_length'] == b['response_length']
        for name in ('reward', 'loss', 'expert_load_max', 'router_aux_loss'):
            assert a[name] == pytest.approx(b[name], abs=1e-5), name
        assert b['sampler_gap_max'] < 1e-4


DECODE = {
    'mesh__data': 1,
    'mesh__rollout': 2,
    'mesh__decode_tensor': 2,
    'model__arch__num_kv_heads': 2,
    'train__packing': 'rows',
    'eval__every': STEPS,
    'log__diagnostics_every': 0,
}


@pytest.mark.slow
def test_two_processes_share_the_weights_in_sampling_alone_and_train_as_one_does(
    tmp_path,
):
    pair = start_pair(tmp_path / 'two', 'train', *options_of(CHANGES | DECODE))
    alone = DECODE | {'mesh__rollout': 1, 'mesh__decode_tensor': 0}
    assert tiny.run(tiny.make_config(**CHANGES | alone), tmp_path / 'one')
    finish(*pair)
    one, two = lines(tmp_path / 'one'), lines(tmp_path / 'two')
    assert [line['split'] for line in one] == [line['split'] for line in two]
    for a, b in zip(one, two, strict=True):
        assert a['response_length'] == b['response_length']
        for name in {'reward', 'loss', 'pass_at_4'} & a.keys():
            assert a[name] == pytest.approx(b[name], abs=1e-5), name


# Process 1 judges nothing in time; each says what it trained on.
_LATE = """
import dataclasses, hashlib, sys
import jax, numpy as np
from passk_jax import cli, train
from passk_jax.report import run_log
from passk_jax.runtime import hosts
from passk_jax.tasks.maze.task import MazeTask

verify, step = MazeTask.verify, run_log.RunLog.step

def late(self, problems, responses):
    verdicts = verify(self, problems, responses)
    failed = np.full(verdicts.correct.shape, jax.process_index() == 1)
    correct = verdicts.correct & ~failed
    rewards = correct.astype(np.float32)
    return dataclasses.replace(
        verdicts, rewards=rewards, correct=correct, failures={'timeouts': failed}
    )

def watched(self, number, draws, figures, *args):
    seen = hosts.fetch((draws.first.advantages, figures))
    leaves = [np.asarray(each).tobytes() for each in jax.tree.leaves(seen)]
    verdicts = draws.first.responses.verdicts
    leaves += [verdicts.correct.tobytes(), repr(verdicts.parsed).encode()]
    print('trained', number, hashlib.sha256(b''.join(leaves)).hexdigest())
    step(self, number, draws, figures, *args)

MazeTask.verify, run_log.RunLog.step = late, watched
cli.run(train.main)
"""


@pytest.mark.slow
def test_a_verifier_that_fails_on_one_host_keeps_no_other_from_training(tmp_path):
    short = {'log__diagnostics_every': 0, 'sampling__max_response_tokens': 5}
    changes = CHANGES | tiny.ONLY_STEPS | short
    pair = start_pair(tmp_path, _LATE, *options_of(changes), stdout=subprocess.PIPE)
    outputs = [process.communicate(timeout=900) for process in pair]
    assert [process.returncode for process in pair] == [0, 0], outputs
    trained = [
        [line for line in out.splitlines() if line.startswith('trained')]
        for out, _ in outputs
    ]
    assert len(trained[0]) == STEPS
    assert trained[0] == trained[1]
    assert [line['verifier_timeouts'] for line in lines(tmp_path)] == [0.5] * STEPS


# Reads what one process saved, changes a number, and saves it on a mesh of both.
_AGAIN = """
import pathlib, sys
import jax
from passk_jax.setup import setup
from passk_jax.runtime.hosts import join_hosts
from passk_jax.models import policy
from passk_jax.runs.checkpoints import Checkpoints, restore_params
from tests import tiny

workdir, hosts = (pathlib.Path(x.partition('=')[2]) for x in sys.argv[1:])
join_hosts(str(hosts))
made = setup.make_setup(tiny.make_config(mesh__fsdp=2))
shapes = policy.param_shapes(made.policy, made.mesh)
params, _ = restore_params(workdir / 'run', shapes)
assert any(not x.is_fully_addressable for x in jax.tree.leaves(params))
with Checkpoints(workdir / 'again' / 'checkpoints', keep=1) as checkpoints:
    checkpoints.save(6, params=params, opt_state={}, meta={})
    params = jax.tree.map(lambda x: x + 1, params)
    checkpoints.save(7, params=params, opt_state={}, meta={})
"""


@pytest.mark.slow
def test_two_processes_read_what_one_wrote_and_one_what_two_wrote(
    finished_run, tmp_path
):
    (tmp_path / 'run').symlink_to(finished_run)
    finish(*start_pair(tmp_path, _AGAIN))
    setup = tiny.make_setup(tiny.make_config())
    shapes = policy.param_shapes(setup.policy, setup.mesh)
    one, _ = restore_params(finished_run, shapes)
    two, step = restore_params(tmp_path / 'again', shapes)
    assert step == 7
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        assert np.asarray(left + 1).tobytes() == np.asarray(right).tobytes()


@pytest.mark.slow
def test_two_processes_evaluate_as_one_does(finished_run, tmp_path):
    one, two = tmp_path / 'one', tmp_path / 'two'
    for workdir in (one, two):
        shutil.copytree(finished_run, workdir)
    pair = start_pair(two, 'evaluate', '--mesh=-1,1,1,1')
    with tiny.devices(1):
        evaluate.main(workdir=str(one))
    finish(*pair)
    name = pathlib.Path('evaluation', 'by_command', 'test_step_00000005.jsonl')
    rows = [
        [json.loads(line) for line in (workdir / name).read_text().splitlines()]
        for workdir in (one, two)
    ]
    for a, b in zip(*rows, strict=True):
        assert a.pop('entropy') == pytest.approx(b.pop('entropy'), abs=1e-5)
        assert a == b
