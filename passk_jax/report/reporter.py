"""Writes the curves and the report of a running run in a background thread.

Training does not wait for them, and errors in writing them are only warnings. If a
report becomes due while one is being written, another one follows it.
"""

import contextlib
import pathlib
import threading
from collections.abc import Iterator

from absl import logging

from passk_jax.errors import with_class
from passk_jax.report.run_data import RunReader
from passk_jax.report.write import write_curves, write_report


class Reporter:
    """A background writer of ``curves.png`` and ``report.html`` of a run directory.

    Args:
        workdir: the run directory.
    """

    def __init__(self, workdir: pathlib.Path):
        self._workdir, self._reader = workdir, RunReader(workdir)
        self._lock = threading.Lock()
        self._due = False
        self._thread: threading.Thread | None = None

    def write(self) -> None:
        """Starts writing both files; does not wait."""
        with self._lock:
            self._due = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name='report')
                self._thread.start()

    def finish(self) -> None:
        """Waits until the files of the last :meth:`write` are written."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                self._due = False
            with _warning(self._workdir):
                run = self._reader.read()
                with _warning(self._workdir / 'curves.png'):
                    write_curves(run)
                with _warning(self._workdir / 'report.html'):
                    write_report(run)


@contextlib.contextmanager
def _warning(path: pathlib.Path) -> Iterator[None]:
    """Turns an error into a warning that the file is not up to date."""
    try:
        yield
    except Exception as error:
        logging.warning('%s is not up to date: %s', path, with_class(error))
