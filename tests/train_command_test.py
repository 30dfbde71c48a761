"""``python -m passk_jax.train`` as a person, a scheduler and a power cut meet it.

What needs no process of its own is called in this one, which has the programs.
"""

import json
import pathlib
import random
import signal
import subprocess
import time
from typing import Any

import pytest

from passk_jax import train
from passk_jax.config import ExperimentConfig
from passk_jax.runs.checkpoints import Checkpoints
from tests import tiny

LAST = 40
CHANGES = {
    'advantage.k': 3,
    'train.steps': LAST,
    'eval.every': 20,
    'checkpoint.every': 4,
    'log.rollouts_every': 5,
}
ARGUMENTS = (
    '--config=tests/tiny.py',
    *(f'--config.{key}={json.dumps(value)}' for key, value in CHANGES.items()),
)


def start(workdir: pathlib.Path) -> subprocess.Popen:
    return tiny.start('train', *ARGUMENTS, f'--workdir={workdir}')


def make_config(**overrides: Any) -> ExperimentConfig:
    """What the command makes of its arguments."""
    changes = {key.replace('.', '__'): value for key, value in CHANGES.items()}
    return tiny.make_config(**changes | overrides)


def finish(process: subprocess.Popen) -> int:
    """Waits for it; what it said is in the message if it failed."""
    _, err = process.communicate(timeout=300)
    assert process.returncode in (0, 42), err
    return process.returncode


def wait_for(process: subprocess.Popen, workdir: pathlib.Path, *, lines: int) -> None:
    """Waits until so many lines of metrics are written."""
    path = workdir / 'metrics.jsonl'
    while not path.exists() or path.read_bytes().count(b'\n') < lines:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)


def stop(process: subprocess.Popen, number: signal.Signals) -> None:
    process.send_signal(number)
    process.communicate(timeout=120)


@pytest.fixture(scope='module')
def uninterrupted(finished_run, tmp_path_factory) -> pathlib.Path:
    """In this process, by the function that the command calls.

    Alone with TensorBoard, which takes a process seconds to import.
    """
    workdir = tiny.warm_copy(finished_run, tmp_path_factory.mktemp('uninterrupted'))
    assert tiny.run(make_config(log__tensorboard=True), workdir)
    return workdir


@pytest.fixture(scope='module')
def interrupted(tmp_path_factory) -> pathlib.Path:
    """Killed in its loop, told to stop, then left to end.

    It ends in this process, by what the command calls with its flags.
    """
    workdir = tmp_path_factory.mktemp('interrupted')
    process = start(workdir)
    wait_for(process, workdir, lines=random.randint(3, 9))
    stop(process, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL

    process = start(workdir)
    wait_for(process, workdir, lines=13)
    stop(process, signal.SIGTERM)
    assert process.returncode == 42
    # It said so after the step that it was in, and not at the next multiple of 4.
    stopped_at = Checkpoints(workdir / 'checkpoints', keep=2).latest_step()
    steps = [row['step'] for row in tiny.metrics(workdir, 'train')]
    assert steps == list(range(stopped_at))
    assert 8 <= stopped_at < LAST

    with tiny.devices(1):
        assert train.main(config=make_config(), workdir=str(workdir)) == 0
    return workdir


def test_killed_and_stopped_it_ends_where_the_uninterrupted_run_ends(
    uninterrupted, interrupted
):
    tiny.assert_same_run(interrupted, uninterrupted, last=LAST)


def test_no_line_is_lost_and_none_is_there_twice(interrupted):
    steps = [row['step'] for row in tiny.metrics(interrupted, 'train')]
    assert steps == list(range(LAST))
    evaluated = [row['step'] for row in tiny.metrics(interrupted, 'validation')]
    assert evaluated == [0, 20, 40]
    assert [row['step'] for row in tiny.metrics(interrupted, 'test')] == [0, LAST]


def test_an_override_turns_one_knob(interrupted):
    config = json.loads((interrupted / 'config.json').read_text())
    assert config['advantage']['k'] == 3
    assert config['advantage']['name'] == 'pass_at_k'
    assert 'pass_at_3' in tiny.metrics(interrupted, 'train')[0]


def test_the_directory_holds_what_a_person_looks_for(uninterrupted, interrupted):
    assert (interrupted / 'report.html').read_text().startswith('<!')
    assert (interrupted / 'curves.png').read_bytes().startswith(b'\x89PNG')
    assert list((uninterrupted / 'tensorboard').iterdir())
    assert Checkpoints(interrupted / 'checkpoints', keep=2).steps() == (36, 40)
    dumps = sorted(path.name for path in (interrupted / 'rollouts').iterdir())
    assert dumps == [f'step_{step:08d}.jsonl' for step in range(0, LAST, 5)]


def test_the_command_evaluates_a_run_as_the_run_did(uninterrupted):
    process = tiny.start('evaluate', f'--workdir={uninterrupted}', '--split=validation')
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    name = f'validation_step_{LAST:08d}'
    evaluation = uninterrupted / 'evaluation'
    by_command = evaluation / 'by_command' / f'{name}.jsonl'
    assert by_command.read_bytes() == (evaluation / f'{name}.jsonl').read_bytes()
    values = json.loads(by_command.with_suffix('.json').read_text())['metrics']
    row = tiny.metrics(uninterrupted, 'validation')[-1]
    assert values == tiny.measured(row)
    assert f'pass_at_1                    {row["pass_at_1"]:.4f}' in out


@pytest.mark.slow
def test_killed_ten_times_at_random_it_ends_the_same(uninterrupted, tmp_path):
    for _ in range(10):
        process = start(tmp_path)
        time.sleep(random.uniform(3, 15))
        stop(process, random.choice([signal.SIGKILL, signal.SIGTERM]))
    while finish(start(tmp_path)):
        pass
    tiny.assert_same_run(tmp_path, uninterrupted, last=LAST)
