"""Runs the runs of a sweep: so many at a time, each on cores of its own.

A run is started if it is not done, if nobody runs it, and if what it goes on from is
there. Of runs with equal warm starts one makes it and the others copy it. A run that
fails is left until the next sweep; the others go on.
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
"""Runs a run, given its arguments."""

POLL_SECONDS = 0.25
"""How often a sweep looks at its runs."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOG_LINES = 10


def split_cores(cores: Cores, num_jobs: int | None) -> list[Cores]:
    """The cores of each of so many runs; ``None``: a run for each core.

    Raises:
        InputError: there are fewer cores than runs, or no run.

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
    """Runs jobs; the result is in their directories.

    Args:
        jobs: the runs, in the order to start them; a stage after the one before.
        other_jobs: runs of the sweep that are not to be started; those that are done
            serve as earlier stages, and their warm starts are shared.
        slots: the cores of each run at a time.
        display: shows what happens.
        when_done: is called with each run that is done.
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
        # The runs that another sweep runs, or an earlier one left running.
        self._elsewhere: dict[str, directories.Holder] = {}
        self._told_to_stop = False

    def run(self) -> dict[str, str]:
        """Runs until no run is left that could be started.

        Returns:
            Name -> ``'done'``, ``'failed'``, ``'stopped'`` (told to, and saved) or
            ``'waiting'`` (of a run that did not end, or not started).
        """
        for job in self._jobs:
            job.run.directory.parent.mkdir(parents=True, exist_ok=True)
        with self._ending_with_children():
            while True:
                self._reap()
                self._elsewhere.clear()
                if not self._told_to_stop:
                    self._start_what_can()
                self._display.show(self._lines)
                if not self._children and not self._elsewhere:
                    return self._state
                time.sleep(POLL_SECONDS)

    @contextlib.contextmanager
    def _ending_with_children(self) -> Iterator[None]:
        """Passes signals on; after an error, waits until the children have saved."""
        before = {
            number: signal.getsignal(number)
            for number in _SIGNALS
            # A signal may be ignored on purpose, as by nohup.
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
        self._told_to_stop = True
        # A run counts what comes within a second as one: a terminal tells it too.
        self._pass_on(signal.SIGTERM)

    def _pass_on(self, number: signal.Signals) -> None:
        for child in self._children.values():
            child.process.send_signal(number)

    def _reap(self) -> None:
        """Takes note of the runs that have ended."""
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
        busy = {core for held in self._elsewhere.values() for core in held.here}
        busy |= {core for child in self._children.values() for core in child.cores}
        free = [cores for cores in self._slots if busy.isdisjoint(cores)]
        for job in waiting:
            elsewhere = job.name in self._elsewhere
            if not elsewhere and (free or directories.is_done(job)):
                self._consider(job, free)

    def _consider(self, job: Job, free: list[Cores]) -> None:
        """Starts the run on cores that it takes from ``free``, if it can be."""
        lock = Lock(job)
        if not lock.acquire():
            self._elsewhere[job.name] = directories.Holder('', ())
            return
        started = False
        try:
            # Now, because nobody can run it any more.
            if directories.is_done(job):
                self._set(job, 'done')
            elif free and self._ready(job):
                self._start(job, free.pop(0), lock)
                started = True
        finally:
            if not started:
                lock.release()

    def _ready(self, job: Job) -> bool:
        """Whether what the run goes on from is there; fetches a warm start."""
        if previous := job.run.previous:
            return directories.is_done(self._jobs_by_name[previous])
        if not directories.needs_warm_start(job):
            return True
        same = [
            other
            for other in self._jobs_by_name.values()
            if other.warm_start == job.warm_start and other is not job
        ]
        if any(self._copied(job, other) for other in same):
            return True
        making = (other for other in same if directories.needs_warm_start(other))
        return not any(
            other.name in self._children or other.name in self._elsewhere
            for other in making
        )

    def _copied(self, job: Job, other: Job) -> bool:
        """Whether the run has the other's warm start now; else it makes its own."""
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
        if self._told_to_stop:
            # Told to meanwhile, when this run was not among the children.
            process.send_signal(signal.SIGTERM)
        self._state[job.name] = 'running'
        self._display.say(progress.line(job, 'started', width=0))

    def _lines(self) -> list[str]:
        """A line for each run that is not done, and one of the whole."""
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
    """What is started here has these cores, where the system can do that."""
    if not hasattr(os, 'sched_setaffinity'):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
