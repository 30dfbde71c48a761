"""Runs the runs of a sweep, several at a time, each on its own cores.

A run starts if it is not done, no other process runs it, and its previous stage is
done. Of the runs that share a warm start, one makes it and the others copy it. A failed
run is retried only by the next sweep; the other runs go on.
"""

import contextlib
import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence

from passk_jax.errors import InputError
from passk_jax.runs.preemption import EXIT_PREEMPTED
from passk_jax.runtime.cores import Cores
from passk_jax.sweeps import directories, progress
from passk_jax.sweeps.commands import MODULE
from passk_jax.sweeps.directories import Lock
from passk_jax.sweeps.opening import Job

PROGRAM = (sys.executable, '-m', MODULE)
"""The program of a run; the run's arguments follow."""

POLL_SECONDS = 0.25
"""Seconds between two looks at the runs."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOG_LINES = 10


def split_cores(cores: Cores, num_jobs: int | None) -> list[Cores]:
    """Divides cores among ``num_jobs`` runs; ``None``: one run for each core.

    Raises:
        InputError: ``num_jobs`` is less than 1 or more than the cores.

    >>> split_cores((0, 1, 2, 3, 4), 2)
    [(0, 1, 2), (3, 4)]
    """
    num_jobs = len(cores) if num_jobs is None else num_jobs
    if not 1 <= num_jobs <= len(cores):
        raise InputError(f'jobs={num_jobs} must lie in [1, {len(cores)}], the cores')
    ends = [-(-len(cores) * i // num_jobs) for i in range(num_jobs + 1)]
    return [cores[a:b] for a, b in itertools.pairwise(ends)]


@dataclasses.dataclass(frozen=True)
class _Child:
    process: subprocess.Popen
    lock: Lock
    cores: Cores


class Runner:
    """A runner of jobs, whose results are in the run directories.

    Args:
        jobs: the runs in the order to start them, each stage after its previous one.
        other_jobs: runs that are not started, but whose last policies and warm starts
            ``jobs`` may use.
        slots: the cores of each run; as many runs go side by side.
        display: shows the progress.
        when_done: called with each run when it is done.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        other_jobs: Sequence[Job] = (),
        slots: Sequence[Cores],
        display: progress.Display,
        when_done: Callable[[Job], None] = lambda job: None,
    ):
        self._jobs, self._jobs_by_name = jobs, {j.name: j for j in (*jobs, *other_jobs)}
        self._slots, self._display, self._when_done = slots, display, when_done
        self._pace = progress.Pace()
        self._children: dict[str, _Child] = {}
        self._state = {job.name: 'waiting' for job in jobs}
        # Runs of other sweeps, or ones that an earlier sweep left running.
        self._elsewhere: dict[str, directories.Holder] = {}
        self._stop_requested = False

    def run(self) -> dict[str, str]:
        """Runs until no run is running and none can be started.

        Returns:
            Name -> ``'done'``, ``'failed'``, ``'stopped'`` (by a signal) or
            ``'waiting'`` (not started, because its previous stage is not done).
        """
        for job in self._jobs:
            job.run.directory.parent.mkdir(parents=True, exist_ok=True)
        with self._ending_with_children():
            while True:
                self._reap()
                self._elsewhere.clear()
                if not self._stop_requested:
                    self._start_what_can()
                self._display.show(self._lines)
                if not self._children and not self._elsewhere:
                    return self._ended()
                time.sleep(POLL_SECONDS)

    def _ended(self) -> dict[str, str]:
        """Returns the states, in which what a signal left waiting is stopped."""
        unstarted = 'stopped' if self._stop_requested else 'waiting'
        return {
            name: unstarted if state == 'waiting' else state
            for name, state in self._state.items()
        }

    @contextlib.contextmanager
    def _ending_with_children(self) -> Iterator[None]:
        """Passes signals on to the runs; after an error, waits for them to save."""
        before = {
            number: signal.getsignal(number)
            for number in _SIGNALS
            # A signal that nohup, for example, ignores stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        for number in before:
            signal.signal(number, self._stop)
        try:
            yield
        finally:
            if self._children:
                self._pass_on(signal.SIGTERM)
            for child in self._children.values():
                child.process.wait()
                child.lock.release()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: types.FrameType | None) -> None:
        self._stop_requested = True
        # A terminal signals the runs too; they count signals within a second as one.
        self._pass_on(signal.SIGTERM)

    def _pass_on(self, number: signal.Signals) -> None:
        for child in self._children.values():
            child.process.send_signal(number)

    def _reap(self) -> None:
        """Records progress, and the runs that have ended."""
        for job in self._jobs:
            child = self._children.get(job.name)
            if child is None:
                continue
            if child.process.poll() is None:
                self._pace.see(job.name, directories.steps_done(job))
                continue
            del self._children[job.name]
            child.lock.release()
            self._pace.forget(job.name)
            code = child.process.returncode
            if code == 0 and directories.is_done(job):
                self._set(job, 'done')
            elif code == EXIT_PREEMPTED:
                self._set(job, 'stopped')
            elif self._stop_requested and -code in _SIGNALS:
                self._set(job, 'stopped')
                self._display.say(f'{job.name} ended before it could save')
            else:
                self._set(job, 'failed')
                self._tell_why(job, code)

    def _set(self, job: Job, state: str) -> None:
        self._state[job.name] = state
        if state == 'done':
            self._when_done(job)
        ended = sum(s in ('done', 'failed', 'stopped') for s in self._state.values())
        text = progress.line(job, state, width=0)
        self._display.say(f'[{ended}/{len(self._jobs)}] {text}')

    def _tell_why(self, job: Job, code: int) -> None:
        how = signal.Signals(-code).name if code < 0 else f'exit status {code}'
        path = directories.log_path(job)
        log_tail = directories.tail(path, lines=_LOG_LINES)
        self._display.say(f'{job.name} failed ({how}); the end of {path}:')
        for text in log_tail:
            self._display.say(f'    {text}')

    def _start_what_can(self) -> None:
        """Starts runs while cores are free."""
        waiting = [j for j in self._jobs if self._state[j.name] == 'waiting']
        for job in waiting:
            if (holder := Lock(job).holder()) is not None:
                self._elsewhere[job.name] = holder
        busy = {core for holder in self._elsewhere.values() for core in holder.here}
        busy |= {core for child in self._children.values() for core in child.cores}
        free = [cores for cores in self._slots if busy.isdisjoint(cores)]
        for job in waiting:
            elsewhere = job.name in self._elsewhere
            if not elsewhere and (free or directories.is_done(job)):
                self._consider(job, free)

    def _consider(self, job: Job, free: list[Cores]) -> None:
        """Starts the run if it can, on cores that it removes from ``free``."""
        lock = Lock(job)
        if not lock.acquire():
            self._elsewhere[job.name] = directories.Holder('', ())
            return
        started = False
        try:
            # Check under the lock, because no other process can run it now.
            if directories.is_done(job):
                self._set(job, 'done')
            elif free and self._ready(job):
                self._start(job, free.pop(0), lock)
                started = True
        finally:
            if not started:
                lock.release()

    def _ready(self, job: Job) -> bool:
        """Returns whether the run can start; copies a warm start if it can."""
        if previous := job.run.previous:
            return directories.is_done(self._jobs_by_name[previous])
        if not directories.needs_warm_start(job):
            return True
        same = [
            other
            for other in self._jobs_by_name.values()
            if other.warm_start == job.warm_start and other is not job
        ]
        if any(self._copy_warm_start(job, other) for other in same):
            return True
        making = (other for other in same if directories.needs_warm_start(other))
        return not any(
            other.name in self._children or other.name in self._elsewhere
            for other in making
        )

    def _copy_warm_start(self, job: Job, other: Job) -> bool:
        """Copies another run's warm start; returns whether that succeeded."""
        try:
            return directories.copy_warm_start(job, other)
        except OSError as error:
            message = f'the warm start of {other.name} cannot be copied: {error}'
            self._display.say(f'{job.name}: {message}')
            return False

    def _start(self, job: Job, cores: Cores, lock: Lock) -> None:
        lock.note(cores)
        with directories.log_path(job).open('ab') as log, _pinned(cores):
            process = subprocess.Popen(
                [*PROGRAM, *job.run.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # The lock ends with the run, not with the sweep.
                pass_fds=(lock.descriptor,),
            )
        self._children[job.name] = _Child(process, lock, cores)
        if self._stop_requested:
            # The signal came before this run was registered as a child.
            process.send_signal(signal.SIGTERM)
        self._state[job.name] = 'running'
        self._display.say(progress.line(job, 'started', width=0))

    def _lines(self) -> list[str]:
        """Formats a line for each unfinished run, and a summary."""
        unfinished = [job for job in self._jobs if self._state[job.name] != 'done']
        running = [job for job in unfinished if job.name in self._children]
        waiting = [job for job in unfinished if self._state[job.name] == 'waiting']
        listed = unfinished if self._display.redraws else running
        width = max((len(job.name) for job in listed), default=0)
        lines = []
        for job in listed:
            state = self._state[job.name]
            if job.name in self._elsewhere:
                state = 'elsewhere'
            seconds = self._pace.seconds(job.name) if job in running else None
            lines.append(progress.line(job, state, seconds=seconds, width=width))
        seconds = self._pace.seconds_left(running, waiting, at_a_time=len(self._slots))
        done = len(self._jobs) - len(unfinished)
        eta = progress.duration(seconds)
        return [*lines, f'{done} of {len(self._jobs)} runs done, ETA {eta}']


@contextlib.contextmanager
def _pinned(cores: Cores) -> Iterator[None]:
    """Pins processes that start in this block to the cores, if the system can."""
    if not hasattr(os, 'sched_setaffinity'):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
