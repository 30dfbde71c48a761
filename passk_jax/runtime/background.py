"""A thread that compiles programs while the main thread goes on.

JAX keeps what is compiled in the caches of ``jax.jit``. So a job only compiles: the
main thread calls the jitted function as always, and finds its program there. Whatever
becomes of a job, a result is the same.

Python aborts if it ends while a thread is in the compiler. So a process waits for the
job under way: a command for seconds, after which it leaves without Python's help;
another process, whose exit status is not known, to the job's end or an interrupt.
"""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping

from absl import logging

Job = Callable[[], object]

_SILENT_SECONDS = 10.0
_LEAVE_SECONDS = 5.0

_status: int | None = None


class Background:
    """Jobs for a thread, each with a key; it runs them one after the other."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, Job] = {}
        self._running: Hashable = None
        self._finished: set[Hashable] = set()
        self._thread: threading.Thread | None = None
        self._failed = False

    def plan(self, jobs: Mapping[Hashable, Job]) -> None:
        """Replaces the jobs that wait, the first to run first.

        A job whose key has run before does not run again.
        """
        with self._changed:
            past = {*self._finished, self._running}
            self._waiting = {k: job for k, job in jobs.items() if k not in past}
            if self._waiting and self._thread is None:
                # A daemon, because Python waits for others without a limit.
                self._thread = threading.Thread(
                    target=self._run, name='compiler', daemon=True
                )
                atexit.unregister(self._leave)
                atexit.register(self._leave)
                self._thread.start()

    def claim(self, key: Hashable) -> None:
        """Waits for a job that is under way; drops one that has not begun."""
        with self._changed:
            self._waiting.pop(key, None)
            ended = self._changed.wait_for(
                lambda: self._running != key, timeout=_SILENT_SECONDS
            )
            if not ended:
                logging.info('waiting for the program that is compiled in background')
                self._changed.wait_for(lambda: self._running != key)

    def wait(self) -> None:
        """Waits until no job is left."""
        with self._changed:
            self._changed.wait_for(self._is_done)

    def _run(self) -> None:
        while job := self._next():
            try:
                job()
            except BaseException as error:  # The main thread may wait for this one.
                # That compiles, and shows the error if it is one of its own.
                if not self._failed:
                    message = 'compiling in background failed, so decoding waits: %s'
                    logging.warning(message, str(error).partition('\n')[0])
                self._failed = True

    def _next(self) -> Job | None:
        with self._changed:
            self._finished.add(self._running)
            self._running = None
            job = None
            if self._waiting:
                self._running, job = next(iter(self._waiting.items()))
                del self._waiting[self._running]
            else:
                self._thread = None
            self._changed.notify_all()
            return job

    def _is_done(self) -> bool:
        return self._thread is None

    def _leave(self) -> None:
        """Ends the process in order if the compiler is done, or soon will be."""
        # Of a process that is no command, only Python knows the exit status.
        status = 130 if _status is None else _status
        # An interrupt ends the wait. Before Python 3.13, it would also make an
        # interrupted Thread.join report a thread that runs as ended.
        with self._changed, contextlib.suppress(KeyboardInterrupt):
            self._waiting = {}
            done = self._changed.wait_for(self._is_done, _LEAVE_SECONDS)
            if not done and _status is None:
                logging.info('the process ends when the compiler is done')
                self._changed.wait_for(self._is_done)
        if self._is_done():
            return
        # The interpreter would end the thread inside of C++, which aborts.
        atexit.unregister(self._leave)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


BACKGROUND = Background()
"""That of the process, because a compiler is best used by one thread at a time."""


@contextlib.contextmanager
def leaving_with_status() -> Iterator[None]:
    """Notes the exit status of a command, which runs in this context."""
    global _status
    try:
        yield
        _status = 0
    except SystemExit as end:
        _status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    except BaseException as error:
        _status = 130 if isinstance(error, KeyboardInterrupt) else 1
        raise
