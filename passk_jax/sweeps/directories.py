"""What the directory of a run says: whether it is done, how far it is, who runs it.

Until a run is done there is no other record. So whatever was killed, the next sweep
finds the truth.
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

from passk_jax.files import parse_json, read_json
from passk_jax.report.run_data import Row, read_lines
from passk_jax.runs import first_evaluations
from passk_jax.runs.checkpoints import saved_steps
from passk_jax.runs.commits import is_committed
from passk_jax.runs.directory import has_begun
from passk_jax.sweeps.evaluated import lacking
from passk_jax.sweeps.opening import Job

_TAIL_BYTES = 1 << 16


def evaluations(job: Job) -> list[Row]:
    """The lines of metrics of every evaluation, in order."""
    if job.kept_rows:
        return list(job.kept_rows)
    rows = read_lines(job.run.directory / 'metrics.jsonl')
    return [row for row in rows if row.get('split') != 'train']


def is_done(job: Job) -> bool:
    """Whether the run has its last checkpoint and all evaluations of its ends.

    It is also done if the results have its evaluations. A run that cannot be read is
    not done, and says why when it is started.
    """
    if job.kept_rows:
        return True
    try:
        if job.steps not in saved_steps(job.run.directory / 'checkpoints'):
            return False
        return not lacking(job, evaluations(job))
    except OSError:
        return False


def last_row(job: Job) -> Row:
    """The newest line of metrics of a training step; ``{}`` if there is none."""
    path = job.run.directory / 'metrics.jsonl'
    with contextlib.suppress(OSError), path.open('rb') as stream:
        stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        for line in reversed(stream.read().split(b'\n')):
            # The first and the last line may be cut off.
            with contextlib.suppress(ValueError):
                row = parse_json(line)
                if isinstance(row, dict) and row.get('split') == 'train':
                    return row
    return {}


def steps_done(job: Job) -> int:
    """Training steps whose metrics are written."""
    if job.kept_rows:
        return job.steps
    return last_row(job).get('step', -1) + 1


def log_path(job: Job) -> pathlib.Path:
    """The file of what all commands of the run printed."""
    directory = job.run.directory
    return directory.with_name(f'{directory.name}.log')


def _kept_warm_start(job: Job) -> pathlib.Path:
    return job.run.directory / 'warm_start' / '0'


def needs_warm_start(job: Job) -> bool:
    """Whether the run would begin with making a warm start."""
    # Before its commit it may be half there, as its run writes it or was killed.
    exists = is_committed(_kept_warm_start(job)) or has_begun(job.run.directory)
    return bool(job.warm_start) and not exists


def copy_warm_start(job: Job, other: Job) -> bool:
    """Copies the warm start of another run; False if it has none (yet).

    The evaluations before step 0 come with it, if the other run has them and evaluates
    in the same way. The caller has the lock of ``job``.

    Raises:
        OSError: it cannot be copied; nothing of it is left.
    """
    source, target = _kept_warm_start(other), _kept_warm_start(job)
    if not is_committed(source):
        return False
    # Under a name that the run would remove if this copy were cut short.
    saving = target.with_name(f'{target.name}.saving')
    shutil.rmtree(saving, ignore_errors=True)
    try:
        shutil.copytree(source, saving)
    except OSError:
        shutil.rmtree(saving, ignore_errors=True)
        raise
    # Half of one that this run was making when it was killed.
    shutil.rmtree(target, ignore_errors=True)
    saving.rename(target)
    if job.config['eval'] == other.config['eval']:
        with contextlib.suppress(OSError, ValueError):
            for split in job.splits:
                first_evaluations.copy(other.run.directory, job.run.directory, split)
    return True


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who has the lock of a run.

    Attributes:
        host: the machine's name; ``''``: not known.
        cores: the cores that the run has there.
    """

    host: str
    cores: tuple[int, ...]

    @property
    def here(self) -> tuple[int, ...]:
        """The cores that it has on this machine."""
        return self.cores if self.host == socket.gethostname() else ()


class Lock:
    """The right to run a run, which its process inherits.

    It is a lock on an open file, and the kernel releases it when the last process that
    has this file open is gone. So a run that outlives its sweep keeps it.

    Args:
        job: the run; the directory of all runs exists.
    """

    def __init__(self, job: Job):
        directory = job.run.directory
        self._path = directory.with_name(f'.{directory.name}.lock')
        self.descriptor = -1

    def acquire(self) -> bool:
        """Takes the lock; False if another process has it."""
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
        """Releases the lock, unless a process that inherited it is still there."""
        os.close(self.descriptor)
        self.descriptor = -1

    def note(self, cores: tuple[int, ...]) -> None:
        """Tells other sweeps which cores the run has; the caller has the lock."""
        holder = Holder(socket.gethostname(), cores)
        text = json.dumps(dataclasses.asdict(holder)) + '\n'
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, text.encode(), 0)

    def holder(self) -> Holder | None:
        """Who has the lock; ``None``: nobody."""
        if self.acquire():
            self.release()
            return None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record: dict[str, Any] = read_json(self._path)
            return Holder(record['host'], tuple(record['cores']))
        return Holder('', ())


def tail(path: pathlib.Path, *, lines: int) -> Iterator[str]:
    """The last lines of a text file that are not empty; none if it is absent."""
    with contextlib.suppress(OSError), path.open('rb') as stream:
        stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors='replace')
        yield from [line for line in text.splitlines() if line.strip()][-lines:]
