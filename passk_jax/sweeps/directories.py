"""Reads a run's state from its directory: its progress, and which process runs it.

Until a run is done, its directory is the only record of its state. So a sweep can
continue after any process was killed.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import socket
from collections.abc import Iterator
from typing import Any

from passk_jax.files import atomic_write_bytes, parse_json, read_json
from passk_jax.report.run_data import Row, read_lines
from passk_jax.runs import known_evaluations
from passk_jax.runs.checkpoints import saved_steps
from passk_jax.runs.commits import COMMIT, is_committed
from passk_jax.runs.directory import has_begun
from passk_jax.sweeps.evaluated import lacking
from passk_jax.sweeps.opening import Job

_TAIL_BYTES = 1 << 16


def evaluations(job: Job) -> list[Row]:
    """Returns the metrics of every evaluation, in order."""
    if job.saved_rows:
        return list(job.saved_rows)
    rows = read_lines(job.run.directory / 'metrics.jsonl')
    return [row for row in rows if row.get('split') != 'train']


def processor_of(job: Job) -> Row:
    """Returns the column ``processor`` of a run's rows; ``{}`` if it is unknown."""
    with contextlib.suppress(OSError, ValueError):
        recorded = read_json(job.run.directory / 'git.json')
        if isinstance(recorded, dict) and recorded.get('processor'):
            return {'processor': recorded['processor']}
    return {}


def is_done(job: Job) -> bool:
    """Returns whether a run is done.

    It is done if its directory has the last checkpoint and all evaluations before the
    first step and after the last, or if the kept results have its evaluations. An
    unreadable run is not done; starting it reports the error.
    """
    if job.saved_rows:
        return True
    try:
        steps = saved_steps(job.run.directory / 'checkpoints')
        return job.steps in steps and not lacking(job, evaluations(job))
    except OSError:
        return False


def last_row(job: Job) -> Row:
    """Returns the metrics of the newest training step; ``{}`` if there is none."""
    path = job.run.directory / 'metrics.jsonl'
    with contextlib.suppress(OSError), path.open('rb') as stream:
        stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        for line in reversed(stream.read().split(b'\n')):
            # The first and the last line may be incomplete.
            with contextlib.suppress(ValueError):
                row = parse_json(line)
                if isinstance(row, dict) and row.get('split') == 'train':
                    return row
    return {}


def steps_done(job: Job) -> int:
    """Returns the number of training steps whose metrics are written."""
    if job.saved_rows:
        return job.steps
    return last_row(job).get('step', -1) + 1


def log_path(job: Job) -> pathlib.Path:
    """Returns the path of the run's log, the output of all its commands."""
    directory = job.run.directory
    return directory.with_name(f'{directory.name}.log')


def _warm_start_path(job: Job) -> pathlib.Path:
    return job.run.directory / 'warm_start' / '0'


def needs_warm_start(job: Job) -> bool:
    """Returns whether the run would begin by making a warm start."""
    # Without a commit the warm start is incomplete: being written, or interrupted.
    exists = is_committed(_warm_start_path(job)) or has_begun(job.run.directory)
    return bool(job.warm_start) and not exists


def copy_warm_start(job: Job, other: Job) -> bool:
    """Copies the warm start of another run; returns False if it has none yet.

    Also copies the evaluations before step 0, if the other run has them and both runs
    evaluate the same policy in the same way. The caller holds the lock of ``job``.

    Raises:
        OSError: copying failed; the partial copy is removed.
    """
    source, target = _warm_start_path(other), _warm_start_path(job)
    if not is_committed(source):
        return False
    # Remove an incomplete warm start that this run left when it was killed.
    shutil.rmtree(target, ignore_errors=True)
    try:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(COMMIT))
        # Its commit makes a copy complete, so it comes last.
        atomic_write_bytes(target / COMMIT, (source / COMMIT).read_bytes())
    except OSError:
        shutil.rmtree(target, ignore_errors=True)
        raise
    same_policy = job.first_policy == other.first_policy
    if same_policy and job.config['eval'] == other.config['eval']:
        with contextlib.suppress(OSError, ValueError):
            for split in job.splits:
                known_evaluations.copy_first(
                    other.run.directory, job.run.directory, split
                )
    return True


@dataclasses.dataclass(frozen=True)
class Holder:
    """The holder of a run's lock.

    Attributes:
        host: the machine's name; ``''``: unknown.
        cores: the cores that the run uses there.
    """

    host: str
    cores: tuple[int, ...]

    @property
    def here(self) -> tuple[int, ...]:
        """The cores that the run uses on this machine."""
        return self.cores if self.host == socket.gethostname() else ()


class Lock:
    """A lock on a run, which the run's process inherits.

    The kernel releases the lock when the last process that has the lock file open
    exits. So a run that outlives its sweep stays locked.

    Args:
        job: the run; its parent directory exists.
    """

    def __init__(self, job: Job):
        directory = job.run.directory
        self._path = directory.with_name(f'.{directory.name}.lock')
        self.descriptor = -1

    def acquire(self) -> bool:
        """Takes the lock; returns False if another process holds it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self.descriptor = descriptor
        return True

    def release(self) -> None:
        """Releases the lock, unless a process that inherited it still runs."""
        os.close(self.descriptor)
        self.descriptor = -1

    def note(self, cores: tuple[int, ...]) -> None:
        """Records the run's cores for other sweeps; the caller holds the lock."""
        holder = Holder(socket.gethostname(), cores)
        text = json.dumps(dataclasses.asdict(holder)) + '\n'
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, text.encode(), 0)

    def holder(self) -> Holder | None:
        """Returns the holder of the lock; ``None``: nobody."""
        if self.acquire():
            self.release()
            return None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record: dict[str, Any] = read_json(self._path)
            return Holder(record['host'], tuple(record['cores']))
        return Holder('', ())


def tail(path: pathlib.Path, *, lines: int) -> Iterator[str]:
    """Yields the last non-empty lines of a text file; none if the file is absent."""
    with contextlib.suppress(OSError), path.open('rb') as stream:
        stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors='replace')
        yield from [line for line in text.splitlines() if line.strip()][-lines:]
