import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import pytest

from passk_jax.runs.digests import digest
from passk_jax.runs.known_evaluations import KnownEvaluations
from passk_jax.sweeps import directories
from passk_jax.sweeps.commands import Run
from passk_jax.sweeps.directories import Holder, Lock
from passk_jax.sweeps.opening import Job


def make_job(root: pathlib.Path, name: str = 'a_seed0', **changes) -> Job:
    """A job of four steps whose directory is there."""
    directory = root / name
    directory.mkdir(exist_ok=True)
    values = {'arm': 'a', 'seed': 0, 'arguments': (), 'previous': '', 'last': True}
    run = Run(name=name, directory=directory, **(values | changes))
    splits = ('validation', 'test')
    config = {'init': {}, 'eval': {}}
    return Job(run, 4, splits, *[f'w{run.seed}'] * 2, config=config, may_differ=())


def write_rows(job: Job, *rows: dict) -> None:
    """Appends lines of metrics."""
    with (job.run.directory / 'metrics.jsonl').open('a') as stream:
        stream.writelines(json.dumps(row) + '\n' for row in rows)


def finish(job: Job, **values: float) -> None:
    """Leaves what a run leaves: evaluations with these values at both ends."""
    for step in (0, job.steps):
        for split in job.splits:
            write_rows(job, {'step': step, 'stage': 0, 'split': split} | values)
    save(job, job.steps)


def save(job: Job, step: int) -> None:
    """Leaves a complete checkpoint, as far as its name and its commit go."""
    path = job.run.directory / 'checkpoints' / str(step)
    path.mkdir(parents=True)
    (path / 'commit.json').touch()


def test_a_run_is_done_when_its_directory_says_so(tmp_path):
    job = make_job(tmp_path)
    assert not directories.is_done(job)
    save(job, 4)
    ends = [(0, 'validation'), (0, 'test'), (4, 'validation'), (4, 'test')]
    for step, split in ends:
        assert not directories.is_done(job)
        write_rows(job, {'step': step, 'split': split})
    assert directories.is_done(job)
    (job.run.directory / 'checkpoints' / '4').rename(tmp_path / 'away')
    assert not directories.is_done(job)


def test_a_run_that_cannot_be_read_is_not_done(tmp_path):
    job = make_job(tmp_path)
    finish(job)
    assert directories.is_done(job)
    (job.run.directory / 'metrics.jsonl').unlink()
    (job.run.directory / 'metrics.jsonl').mkdir()
    assert not directories.is_done(job)


def test_an_unfinished_checkpoint_is_none(tmp_path):
    job = make_job(tmp_path)
    finish(job)
    (job.run.directory / 'checkpoints' / '4' / 'commit.json').unlink()
    assert not directories.is_done(job)


def test_steps_are_those_whose_metrics_are_whole(tmp_path):
    job = make_job(tmp_path)
    assert directories.steps_done(job) == 0
    long = {'x': 'y' * 70_000}
    write_rows(job, {'step': 0, 'split': 'train'} | long, {'step': 1, 'split': 'train'})
    write_rows(job, {'step': 2, 'split': 'validation'})
    with (job.run.directory / 'metrics.jsonl').open('a') as stream:
        stream.write('{"step": 2, "split": "tr')
    assert directories.last_row(job) == {'step': 1, 'split': 'train'}
    assert directories.steps_done(job) == 2


def test_evaluations_are_all_lines_but_those_of_training(tmp_path):
    job = make_job(tmp_path)
    write_rows(job, {'step': 0, 'split': 'train'}, {'step': 0, 'split': 'test'})
    assert directories.evaluations(job) == [{'step': 0, 'split': 'test'}]


def test_a_warm_start_is_copied_whole_or_not_at_all(tmp_path):
    maker, job = make_job(tmp_path, 'maker'), make_job(tmp_path)
    assert directories.needs_warm_start(job)
    source = maker.run.directory / 'warm_start'
    # Nobody copies an unfinished warm start.
    (source / '0').mkdir(parents=True)
    (source / '0' / 'x').write_text('policy')
    assert directories.needs_warm_start(maker)
    assert not directories.copy_warm_start(job, maker)
    (source / '0' / 'commit.json').write_text('{}')
    assert not directories.needs_warm_start(maker)
    # A copy, or a warm start, that was cut short.
    target = job.run.directory / 'warm_start'
    (target / '0').mkdir(parents=True)
    (target / '0' / 'old').write_text('')
    assert directories.needs_warm_start(job)
    assert directories.copy_warm_start(job, maker)
    assert [path.name for path in target.iterdir()] == ['0']
    assert {path.name for path in (target / '0').iterdir()} == {'x', 'commit.json'}
    assert not directories.needs_warm_start(job)


def test_the_evaluations_before_step_0_come_with_a_warm_start(tmp_path):
    maker, job = make_job(tmp_path, 'maker'), make_job(tmp_path)
    source = maker.run.directory / 'warm_start' / '0'
    source.mkdir(parents=True)
    (source / 'commit.json').write_text('{}')
    write_rows(maker, {'step': 0, 'stage': 0, 'split': 'validation', 'pass_at_1': 0.5})
    records = maker.run.directory / 'evaluation'
    records.mkdir()
    name = 'validation_step_00000000.jsonl'
    (records / name).write_text('{"c": 1}\n')
    sha256 = digest(records / name)
    line = {'step': 0, 'file': f'evaluation/{name}', 'sha256': sha256}
    (maker.run.directory / 'digests.jsonl').write_text(json.dumps(line) + '\n')
    # The test split is not evaluated yet.
    assert directories.copy_warm_start(job, maker)
    evaluations = KnownEvaluations(job.run.directory, 0)
    assert evaluations.get(0, 'validation') == ({'pass_at_1': 0.5}, [{'c': 1}])
    assert evaluations.get(0, 'test') is None
    # One that evaluates otherwise makes its own.
    other = make_job(tmp_path, 'b_seed0')
    other = dataclasses.replace(other, config={'init': {}, 'eval': {'top_p': 0.9}})
    assert directories.copy_warm_start(other, maker)
    assert KnownEvaluations(other.run.directory, 0).get(0, 'validation') is None
    # So does one whose adapters change the policy.
    changed = dataclasses.replace(make_job(tmp_path, 'c_seed0'), first_policy='rounded')
    assert directories.copy_warm_start(changed, maker)
    assert KnownEvaluations(changed.run.directory, 0).get(0, 'validation') is None


def test_a_run_that_has_begun_makes_no_warm_start(tmp_path):
    job = make_job(tmp_path)
    write_rows(job, {'step': 0, 'split': 'test'})
    assert not directories.needs_warm_start(job)


def test_a_lock_is_that_of_one(tmp_path):
    job = make_job(tmp_path)
    lock, other = Lock(job), Lock(job)
    assert other.holder() is None
    assert lock.acquire()
    lock.note((2, 3))
    assert not other.acquire()
    assert other.holder().here == (2, 3)
    lock.release()
    assert other.acquire()
    other.release()


def test_cores_of_another_machine_are_not_ours():
    assert Holder('elsewhere.example', (0,)).here == ()


def test_a_process_that_inherits_the_lock_keeps_it(tmp_path):
    """Until it ends, however it ends."""
    lock, other = Lock(make_job(tmp_path)), Lock(make_job(tmp_path))
    assert lock.acquire()
    process = subprocess.Popen(
        [sys.executable, '-S', '-c', 'import sys; sys.stdin.read()'],
        stdin=subprocess.PIPE,
        pass_fds=(lock.descriptor,),
    )
    lock.release()
    assert not other.acquire()
    # The lock file names no cores, so none are reserved.
    assert other.holder() == Holder('', ())
    process.kill()
    process.communicate()
    assert other.acquire()
    other.release()


def test_a_lock_that_cannot_be_taken_is_an_error(tmp_path):
    lock = Lock(make_job(tmp_path))
    (tmp_path / '.a_seed0.lock').mkdir()
    with pytest.raises(OSError, match='directory'):
        lock.acquire()


def test_the_end_of_a_log(tmp_path):
    path = tmp_path / 'log'
    assert not [*directories.tail(path, lines=2)]
    path.write_bytes(b'one\ntwo\n\n\xff three\n\n')
    assert [*directories.tail(path, lines=2)] == ['two', '� three']
    assert os.stat(path).st_size < directories._TAIL_BYTES
