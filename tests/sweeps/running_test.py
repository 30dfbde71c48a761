"""What tests/sweep_test.py does not see from outside."""

import io
import os
import pathlib
import signal
import sys
import time

import pytest

from passk_jax.errors import InputError
from passk_jax.runtime.cores import usable_cores
from passk_jax.sweeps import directories, progress, running
from passk_jax.sweeps.opening import Job
from tests.sweeps.directories_test import finish, make_job

CODE = 'import os, pathlib, sys; place = pathlib.Path(sys.argv[1]); '


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(running, 'POLL_SECONDS', 0.01)


def run(
    jobs: list[Job], code: str, monkeypatch, *, slots=None, other_jobs=()
) -> tuple[dict[str, str], str]:
    """Runs jobs, each of which is Python code; returns the states and what was said."""
    program = (sys.executable, '-S', '-c', CODE + code)
    monkeypatch.setattr(running, 'PROGRAM', program)
    # This process may not be allowed to use core 0.
    slots = slots or [usable_cores()[:1]]
    stream = io.StringIO()
    display = progress.Display(stream)
    runner = running.Runner(jobs, other_jobs=other_jobs, slots=slots, display=display)
    return runner.run(), stream.getvalue()


def job_of(root: pathlib.Path, name: str = 'a_seed0', **changes) -> Job:
    """A job whose program gets its directory."""
    return make_job(root, name, arguments=(str(root / name),), **changes)


@pytest.mark.parametrize(
    ('cores', 'num_jobs', 'slots'),
    [
        ((4, 7), None, [(4,), (7,)]),
        ((0, 1, 2), 2, [(0, 1), (2,)]),
        ((0, 1, 2), 1, [(0, 1, 2)]),
    ],
)
def test_cores_are_split_among_the_runs(cores, num_jobs, slots):
    assert running.split_cores(cores, num_jobs) == slots


@pytest.mark.parametrize('num_jobs', [0, -1, 3])
def test_a_run_has_a_core_of_its_own(num_jobs):
    with pytest.raises(InputError, match=rf'jobs={num_jobs} must lie in \[1, 2\]'):
        running.split_cores((0, 1), num_jobs)


@pytest.mark.skipif(not hasattr(os, 'sched_setaffinity'), reason='no such call here')
def test_a_run_is_pinned_and_the_sweep_is_not(tmp_path, monkeypatch):
    before = usable_cores()
    code = '(place / "cores").write_text(str(os.sched_getaffinity(0)))'
    run([job_of(tmp_path)], code, monkeypatch, slots=[before[-1:]])
    assert (tmp_path / 'a_seed0' / 'cores').read_text() == str({before[-1]})
    assert usable_cores() == before


@pytest.mark.parametrize(
    ('code', 'state', 'words'),
    [
        ('sys.exit(42)', 'stopped', 'a_seed0  stopped'),
        ('sys.exit("what it lacks")', 'failed', '    what it lacks'),
        ('os.kill(os.getpid(), 9)', 'failed', 'a_seed0 failed (SIGKILL)'),
        # It says that all is well, and its directory does not.
        ('sys.exit(0)', 'failed', 'a_seed0 failed (exit status 0)'),
    ],
)
def test_how_a_run_ended(code, state, words, tmp_path, monkeypatch):
    states, output = run([job_of(tmp_path)], code, monkeypatch)
    assert states == {'a_seed0': state}
    assert words in output


def test_a_run_that_is_done_is_not_started(tmp_path, monkeypatch):
    job = job_of(tmp_path)
    finish(job)
    states, output = run([job], 'sys.exit(3)', monkeypatch)
    assert states == {'a_seed0': 'done'}
    assert 'started' not in output


def test_a_stage_waits_for_the_one_before(tmp_path, monkeypatch):
    first = job_of(tmp_path)
    then = job_of(tmp_path, 'a_seed0_then', previous='a_seed0')
    states, _ = run([then], 'sys.exit(3)', monkeypatch, other_jobs=[first])
    assert states == {'a_seed0_then': 'waiting'}
    finish(first)
    states, _ = run([then], 'sys.exit(3)', monkeypatch, other_jobs=[first])
    assert states == {'a_seed0_then': 'failed'}


def test_the_cores_of_a_run_that_another_sweep_runs_are_left_to_it(
    tmp_path, monkeypatch
):
    jobs = [job_of(tmp_path, name) for name in ('a_seed0', 'b_seed0')]
    # The second makes no warm start, so that it need not wait.
    finished = directories._warm_start_path(jobs[1])
    finished.mkdir(parents=True)
    (finished / 'commit.json').touch()
    lock = directories.Lock(jobs[0])
    assert lock.acquire()
    lock.note(usable_cores()[:1])
    pause, slept = time.sleep, []

    def sleep(seconds):
        pause(0.2 if len(slept) < 3 else seconds)
        slept.append((tmp_path / 'b_seed0' / 'began').exists())
        if len(slept) == 3:
            lock.release()

    monkeypatch.setattr(running.time, 'sleep', sleep)
    code = '(place / "began").touch(); sys.exit(42)'
    states, _ = run(jobs, code, monkeypatch)
    assert slept[:3] == [False] * 3
    assert list(states.values()) == ['stopped', 'stopped']


def test_a_run_that_starts_as_the_sweep_is_told_to_stop_is_told_too(
    tmp_path, monkeypatch
):
    popen = running.subprocess.Popen

    def start(*args, **kwargs):
        process = popen(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr(running.subprocess, 'Popen', start)
    code = 'import time; time.sleep(60)'
    states, output = run([job_of(tmp_path)], code, monkeypatch)
    assert states == {'a_seed0': 'stopped'}
    assert 'a_seed0 ended before it could save' in output


def test_what_a_signal_leaves_waiting_is_stopped(tmp_path, monkeypatch):
    jobs = [job_of(tmp_path, name) for name in ('a_seed0', 'b_seed0')]
    elsewhere = [directories.Lock(job) for job in jobs]
    assert all(lock.acquire() for lock in elsewhere)
    monkeypatch.setattr(
        running.time, 'sleep', lambda _: os.kill(os.getpid(), signal.SIGTERM)
    )
    states, output = run(jobs, 'sys.exit(3)', monkeypatch)
    for lock in elsewhere:
        lock.release()
    assert states == {'a_seed0': 'stopped', 'b_seed0': 'stopped'}
    assert 'started' not in output


def test_where_the_maker_of_a_warm_start_fails_another_makes_it(tmp_path, monkeypatch):
    jobs = [job_of(tmp_path, name) for name in ('a_seed0', 'b_seed0', 'c_seed0')]
    code = (
        'there = (place / "warm_start").exists(); '
        '(place.parent / "order").open("a").write(f"{place.name} {there}\\n"); '
        'place.name[0] == "a" and sys.exit(3); '
        'made = place / "warm_start" / "0"; made.mkdir(parents=True, exist_ok=True); '
        '(made / "commit.json").touch(); sys.exit(42)'
    )
    states, _ = run(jobs, code, monkeypatch)
    assert list(states.values()) == ['failed', 'stopped', 'stopped']
    order = (tmp_path / 'order').read_text().splitlines()
    assert order == ['a_seed0 False', 'b_seed0 False', 'c_seed0 True']


def test_an_error_of_the_sweep_stops_its_runs(tmp_path, monkeypatch):
    def fail(path, lines):
        raise OSError('disk')

    monkeypatch.setattr(directories, 'tail', fail)
    slow = 'place.name[0] == "a" and sys.exit(3); import time; time.sleep(60)'
    jobs = [job_of(tmp_path, name) for name in ('b_seed0', 'a_seed0')]
    # The second makes no warm start, so that it need not wait.
    finished = directories._warm_start_path(jobs[1])
    finished.mkdir(parents=True)
    (finished / 'commit.json').touch()
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(OSError, match='disk'):
        run(jobs, slow, monkeypatch, slots=[usable_cores()[:1]] * 2)
    assert signal.getsignal(signal.SIGTERM) is handler
    for job in jobs:
        assert directories.Lock(job).holder() is None


def test_a_warm_start_that_cannot_be_copied_is_made_again(tmp_path, monkeypatch):
    jobs = [job_of(tmp_path, name) for name in ('a_seed0', 'b_seed0')]
    source = directories._warm_start_path(jobs[0])
    source.mkdir(parents=True)
    (source / 'commit.json').touch()
    (source / 'gone').symlink_to(tmp_path / 'nowhere')
    states, output = run(jobs, 'sys.exit(42)', monkeypatch)
    assert list(states.values()) == ['stopped', 'stopped']
    assert 'b_seed0: the warm start of a_seed0 cannot be copied: ' in output
    assert not list((tmp_path / 'b_seed0').rglob('0'))
