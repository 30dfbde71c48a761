"""Handles requests to stop: the loop finishes its step, saves and exits.

In a single process, :class:`PreemptionGuard` records SIGTERM (from a scheduler) or
SIGINT (Ctrl-C), and the loop checks it at every step. A second signal kills the process
at once, even inside compiled code. Signals within one second count as one, because
``timeout`` and schedulers signal both the process and its group, and the repeat must
not interrupt the save.

Under ``jax.distributed``, this module installs no handler: JAX handles SIGTERM and lets
all processes stop at the same check. The caller saves.
"""

import os
import signal
import time
import types
from collections.abc import Callable
from typing import Any

import jax
from absl import logging
from jax.experimental import multihost_utils

EXIT_PREEMPTED = 42
"""Exit status after a preemption save; launchers retry and count no failure."""

# The type of a handler that signal.signal returns.
_Handler = Callable[[int, types.FrameType | None], Any] | int | None

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_REPEAT_SECONDS = 1.0


class PreemptionGuard:
    """A context manager around the loop, in the main thread; restores old handlers."""

    def __init__(self):
        self._signal: signal.Signals | None = None
        self._previous: dict[signal.Signals, _Handler] = {}
        self._num_signals, self._agreed = 0, False

    def __enter__(self) -> 'PreemptionGuard':
        if not jax.distributed.is_initialized():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            # None stands for a handler of C code, which Python cannot restore.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def interrupted(self) -> bool:
        """Returns whether to save and exit, alike on all processes; all must call."""
        if self._signal is None and jax.distributed.is_initialized():
            # JAX needs a number that grows with every call.
            self._num_signals += 1
            if not self._agreed:
                self._agreed = multihost_utils.reached_preemption_sync_point(
                    self._num_signals
                )
        return self._agreed or self._signal is not None

    def _remember(self, number: int, frame: types.FrameType | None) -> None:
        for signal_number in _SIGNALS:
            signal.signal(signal_number, signal.SIG_IGN)
        self._signal = signal.Signals(number)
        logging.warning(
            '%s: process %d saves after this step and stops; repeat to stop at once',
            self._signal.name,
            os.getpid(),
        )
        # Repeats during this pause are ignored. Afterwards the default handler ends the
        # process; a Python handler would run only between bytecodes.
        time.sleep(_REPEAT_SECONDS)
        for signal_number in _SIGNALS:
            signal.signal(signal_number, signal.SIG_DFL)
