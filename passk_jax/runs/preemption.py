"""Being told to stop: finish the step, save, leave.

Alone, a process that gets SIGTERM (the scheduler) or SIGINT (Ctrl-C) remembers it, and
the loop asks at each step; a later one kills at once, even inside compiled code. What
follows within a second is the first one again: ``timeout`` and schedulers signal the
process and its group, so that it comes twice, and the save must outlive that.
Under ``jax.distributed`` JAX listens to SIGTERM itself and makes all processes agree on
the step, so no handler is installed over its own. Saving is the caller's part.
"""

import os
import signal
import time
import types

import jax
from absl import logging
from jax.experimental import multihost_utils

EXIT_PREEMPTED = 42
"""Exit status after a preemption save; launchers read it as "retry, not counted"."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_REPEAT_SECONDS = 1.0


class PreemptionGuard:
    """Context manager around the loop, in the main thread.

    Handlers that were there before are back when it is left.
    """

    def __init__(self):
        self._signal: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> 'PreemptionGuard':
        if not jax.distributed.is_initialized():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            # None: installed by C code, which Python can neither name nor restore.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def requested(self, step: int) -> bool:
        """Says whether to save before ``step`` and leave.

        Every process must ask at every step, from the same first step on; all get
        the same answer.
        """
        if jax.distributed.is_initialized():
            return multihost_utils.reached_preemption_sync_point(step)
        return self._signal is not None

    def interrupted(self) -> bool:
        """Says whether to leave a stage between steps, where each process asks alone.

        Always False under ``jax.distributed``: there only :meth:`requested` may
        answer, because all processes must leave at the same place.
        """
        return self._signal is not None

    def _remember(self, number: int, frame: types.FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        self._signal = signal.Signals(number)
        logging.warning(
            '%s: process %d saves after this step and stops; once more stops at once',
            self._signal.name,
            os.getpid(),
        )
        # Repeats are lost in this pause. Afterwards it is not a handler of ours that
        # ends the process, because Python runs those between bytecodes only.
        time.sleep(_REPEAT_SECONDS)
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_DFL)
