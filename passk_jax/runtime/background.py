"""A thread that compiles programs while the main thread goes on.

JAX keeps compiled programs in the caches of ``jax.jit``. So a job only compiles: the
main thread calls the jitted function as usual, and finds its program there. A job never
changes a result, even if it fails.

Python aborts if it exits while a thread is in the compiler. So a process that exits
waits for the running job. A command waits a few seconds and then calls ``os._exit``.
Another process, whose exit status is unknown, waits until the job ends or an interrupt.
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
    """A thread that runs jobs one after another; each job has a key."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, Job] = {}
        self._running: Hashable = None
        self._finished: set[Hashable] = set()
        self._thread: threading.Thread | None = None
        self._failed = False

    def plan(self, jobs: Mapping[Hashable, Job]) -> None:
        """Replaces the waiting jobs, which run in order.

        Jobs whose keys have run before do not run again.
        """
        with self._changed:
            past = {*self._finished, self._running}
            self._waiting = {k: job for k, job in jobs.items() if k not in past}
            if self._waiting and self._thread is None:
                # A daemon, because Python would wait without limit for another thread.
                self._thread = threading.Thread(
                    target=self._run, name='compiler', daemon=True
                )
                atexit.unregister(self._leave)
                atexit.register(self._leave)
                self._thread.start()

    def claim(self, key: Hashable) -> None:
        """Waits for the job if it is running; drops it if it has not begun."""
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
                # The main thread then compiles, and raises the error if it recurs.
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
        """Lets Python exit once the compiler is done; else ends the process itself."""
        # If the process is no command, only Python knows its exit status.
        status = 130 if _status is None else _status
        # An interrupt ends the wait. Thread.join would not do: before Python 3.13, an
        # interrupted join makes a running thread look ended.
        with self._changed, contextlib.suppress(KeyboardInterrupt):
            self._waiting = {}
            done = self._changed.wait_for(self._is_done, _LEAVE_SECONDS)
            if not done and _status is None:
                logging.info('the process ends when the compiler is done')
                self._changed.wait_for(self._is_done)
        if self._is_done():
            return
        # Python would stop the thread inside C++, which aborts the process.
        atexit.unregister(self._leave)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


BACKGROUND = Background()
"""The only one of the process: one thread at a time uses the compiler best."""


@contextlib.contextmanager
def leaving_with_status() -> Iterator[None]:
    """Records the exit status of the command that runs in this context."""
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
