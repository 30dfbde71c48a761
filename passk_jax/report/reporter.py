"""Writes the pictures of a run as it goes, in a thread of its own.

Training waits for none of them, and none of them ends it: what cannot be written is a
warning. If another report is due while one is being written, one more follows.
"""

import pathlib
import threading
from collections.abc import Callable

from absl import logging

from passk_jax.errors import with_class
from passk_jax.report.run_data import Run, RunReader
from passk_jax.report.write import write_curves, write_report


class Reporter:
    """Writes ``curves.png`` and ``report.html`` of a run directory when asked.

    Args:
        workdir: the run directory.
    """

    def __init__(self, workdir: pathlib.Path):
        self._workdir, self._reader = workdir, RunReader(workdir)
        self._lock = threading.Lock()
        self._due = False
        self._thread: threading.Thread | None = None

    def write(self) -> None:
        """Begins to write what the run has done so far; does not wait."""
        with self._lock:
            self._due = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name='report')
                self._thread.start()

    def finish(self) -> None:
        """Waits until the files show what was done before the last :meth:`write`."""
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
            self._write_both()

    def _write_both(self) -> None:
        try:
            run = self._reader.read()
        except Exception as error:
            _warn(self._workdir, error)
            return
        writers: dict[str, Callable[[Run], object]] = {
            'curves.png': write_curves,
            'report.html': write_report,
        }
        for name, write in writers.items():
            try:
                write(run)
            except Exception as error:
                _warn(self._workdir / name, error)


def _warn(path: pathlib.Path, error: Exception) -> None:
    logging.warning('%s is not up to date: %s', path, with_class(error))
