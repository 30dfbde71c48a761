"""SIGTERM of one of two processes: both save the same step, and go on from it."""

import pathlib
import signal
import time

import pytest

from passk_jax.runs.preemption import EXIT_PREEMPTED
from tests import tiny
from tests.multihost_test import finish, options_of, start_pair

LAST = 18
EVERY = 9
CHANGES = {
    'mesh__data': -1,
    'mesh__fsdp': 1,
    'train__steps': LAST,
    'init__warm_start__steps': 20,
    'task__params__validation_sizes': (4,),
    'task__params__validation_counts': (32,),
    'eval__every': EVERY,
    'eval__batch_size': 2,
    'eval__final_split': '',
    'log__rollouts_every': 5,
    # Only a stop saves between the first step and the last.
    'checkpoint__every': LAST,
    'checkpoint__keep': 3,
}

# Each question whether to stop takes a while, because JAX looks for SIGTERM once a
# second; so a stage is still going on when the answer is yes.
_SLOW = """
import pathlib, sys, time
import jax
from passk_jax import cli, train
from passk_jax.runs.preemption import PreemptionGuard

ask, evaluate_due = PreemptionGuard.interrupted, train.evaluate_due
workdir = pathlib.Path(sys.argv[1].partition('=')[2])

def say(words):
    with (workdir / f'said-{jax.process_index()}').open('a') as stream:
        print(words, file=stream)

def slowly(self):
    say('asks')
    time.sleep(0.2)
    return ask(self)

def announced(setup, params, splits, log, step, *, stop):
    say(f'comes to {step}')
    return evaluate_due(setup, params, splits, log, step, stop=stop)

PreemptionGuard.interrupted, train.evaluate_due = slowly, announced
cli.run(train.main)
"""


def stop(workdir: pathlib.Path, victim: int, moment: str) -> list[str]:
    """Starts both and signals one when it says ``moment``; what both have said."""
    files = [workdir / f'said-{index}' for index in range(2)]
    for file in files:
        file.unlink(missing_ok=True)
    pair = start_pair(workdir, _SLOW, *options_of(CHANGES))
    try:
        while moment not in lines(files[victim]):
            assert [process.poll() for process in pair] == [None] * 2
            time.sleep(0.01)
        pair[victim].send_signal(signal.SIGTERM)
        outputs = [process.communicate(timeout=300)[1] for process in pair]
    finally:
        for process in pair:
            process.kill()
    assert [p.returncode for p in pair] == [EXIT_PREEMPTED] * 2, outputs
    one, two = map(lines, files)
    assert one == two
    return one


def lines(file: pathlib.Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def saved_steps(workdir: pathlib.Path) -> list[int]:
    return sorted(int(p.name) for p in (workdir / 'checkpoints').glob('[0-9]*'))


@pytest.mark.slow
def test_both_of_two_stop_at_one_question_in_every_stage(tmp_path):
    uninterrupted, stopped = tmp_path / 'whole', tmp_path / 'stopped'
    finish(*start_pair(uninterrupted, 'train', *options_of(CHANGES)))

    messages = stop(stopped, 1, 'asks')
    assert set(messages) == {'asks'}
    assert len(messages) < CHANGES['init__warm_start__steps']
    assert saved_steps(stopped) == []
    assert not (stopped / 'warm_start' / '0').exists()

    messages = stop(stopped, 0, 'comes to 2')
    steps = [row['step'] for row in tiny.metrics(stopped, 'train')]
    assert steps == [*range(len(steps))]
    assert 2 < len(steps) < EVERY
    assert messages[-2:] == [f'comes to {len(steps) - 1}', 'asks']
    assert saved_steps(stopped) == [0, len(steps)]

    messages = stop(stopped, 1, f'comes to {EVERY}')
    # More than the question of the step itself, and not those of every batch.
    later = messages[messages.index(f'comes to {EVERY}') + 1 :]
    assert 0 < len(later) < 16
    assert set(later) == {'asks'}
    assert saved_steps(stopped) == [0, len(steps), EVERY]
    evaluations = [row['step'] for row in tiny.metrics(stopped, 'validation')]
    assert set(evaluations) == {0}

    finish(*start_pair(stopped, 'train', *options_of(CHANGES)))
    tiny.assert_same_run(stopped, uninterrupted, last=LAST)
