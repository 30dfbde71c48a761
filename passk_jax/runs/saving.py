"""Saves in the background: a thread of every process writes, process 0 commits."""

import contextlib
import pathlib
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
from absl import logging

from passk_jax.errors import ElsewhereError, InputError, NonFiniteError
from passk_jax.runs import array_digests, arrays
from passk_jax.runs.commits import Commit, is_committed, saved_steps, write_commit
from passk_jax.runtime import hosts


class Saving:
    """A running save, which copies a state to the host and writes it in the background.

    Args:
        path: the directory of the checkpoint; an incomplete one there is removed.
        items: pytrees of arrays by name.
        meta: a JSON object.
        after: called on process 0 once the checkpoint is complete. Its OSErrors are
            only logged.

    Raises:
        NonFiniteError: a value is NaN or infinite; nothing is written.
        ValueError: nothing can be written.
    """

    def __init__(
        self,
        path: pathlib.Path,
        items: Mapping[str, Any],
        meta: Mapping[str, Any],
        after: Callable[[], None],
    ):
        self._path, self._after = path, after
        self._error: BaseException | None = None
        flat = {name: arrays.flatten(tree) for name, tree in items.items()}
        described = {name: array_digests.describe(x) for name, x in flat.items()}
        _check_finite(path, [key for _, bad in described.values() for key in bad])
        commit = Commit(dict(meta), {name: x for name, (x, _) in described.items()})
        with self._named_errors():
            hosts.gather(self._remove_half)
            finish = arrays.start_writing(path, flat)
        self._thread = threading.Thread(
            target=self._complete, args=(finish, commit), name=f'checkpoint {path.name}'
        )
        self._thread.start()

    def check(self) -> None:
        """Raises this process's error so far, if any."""
        if self._error is not None:
            with self._named_errors():
                self._raise()

    def finish(self) -> None:
        """Waits until this process has written its part; raises as :meth:`check`."""
        self._thread.join()
        if self._error is not None:
            self._give_up()
        self.check()

    def wait(self) -> None:
        """Waits until the checkpoint is complete; InputError if saving failed."""
        self._thread.join()
        try:
            with self._named_errors():
                hosts.gather(self._raise)
        except Exception:
            self._give_up()
            raise

    def _complete(self, finish: Callable[[], None], commit: Commit) -> None:
        try:
            finish()
            if jax.process_index() == 0:
                write_commit(self._path, commit)
                try:
                    self._after()
                except OSError as error:
                    logging.warning('cannot remove old checkpoints: %s', error)
        except BaseException as error:
            # The main thread raises it later.
            self._error = error

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _give_up(self) -> None:
        # An incomplete checkpoint would keep the disk full.
        with contextlib.suppress(OSError):
            self._remove_half()

    def _remove_half(self) -> None:
        path = self._path
        if jax.process_index() == 0 and path.exists() and not is_committed(path):
            shutil.rmtree(path)

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        complete = list(saved_steps(self._path.parent))
        with named_errors(f'checkpoint {self._path} could not be saved ({complete=})'):
            yield


@contextlib.contextmanager
def named_errors(description: str) -> Iterator[None]:
    """Turns any error into an InputError that says what to do.

    TensorStore reports a full disk as a ValueError; Orbax raises bare exceptions.
    """
    try:
        yield
    except ElsewhereError:
        # Its message already names the process that failed, and why.
        raise
    except Exception as error:
        raise InputError(
            f'{description}: {type(error).__name__}: {error}. Is the disk full, or the '
            'directory not writable?'
        ) from error


def _check_finite(path: pathlib.Path, bad: list[str]) -> None:
    """Raises NonFiniteError, so that no NaN replaces the last good state."""
    if bad:
        names = ', '.join(bad[:3]) + (f' and {len(bad) - 3} more' if bad[3:] else '')
        raise NonFiniteError(
            f'{path} is not saved, because these are not finite: {names}'
        )
