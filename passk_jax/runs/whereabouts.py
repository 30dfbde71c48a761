"""Tracks the phase of every process, for a heartbeat and to find the slowest process.

Every process tells process 0 when it begins a phase, over the connection of
:mod:`passk_jax.runtime.peers`. So process 0 knows the phases of all processes even
while its loop is stuck in a collective. Times are read from process 0's clock when the
news arrives.
"""

import collections
import statistics
import threading
import time
from collections.abc import Callable

# The phases in which a process that has done its work waits for the others. They reveal
# delays on a host, such as slow reading or writing. They do not reveal a slow device,
# because all devices wait for it.
MEETINGS = ('gather', 'wait')


class Whereabouts:
    """The current phase of every process, as process 0 knows it.

    Args:
        clock: returns seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic):
        self._clock, self._lock = clock, threading.Lock()
        # Process -> phase, step, host, and when the phase began.
        self._now: dict[int, tuple[str, int, str, float]] = {}
        # (Meeting, step) -> process -> its arrival times.
        self._came: dict[tuple[str, int], dict[int, list[float]]] = {}

    def note(self, process: int, phase: str, step: int, host: str) -> None:
        """Records that a process begins a phase of a step; ``host`` is its machine."""
        with self._lock:
            now = self._clock()
            self._now[process] = phase, step, host, now
            if phase in MEETINGS:
                came = self._came.setdefault((phase, step), {})
                came.setdefault(process, []).append(now)

    def late(self, *, seconds: float) -> str:
        """Describes the phases of all processes, those furthest behind first.

        Returns ``''`` unless a process has been in its phase for ``seconds`` or more.
        """
        with self._lock:
            together = collections.defaultdict(list)
            for process, (phase, step, host, began) in sorted(self._now.items()):
                together[step, phase].append((began, f'{process} ({host})'))
            now = self._clock()
        if not any(now - began >= seconds for x in together.values() for began, _ in x):
            return ''
        groups = sorted(together.items(), key=lambda x: (x[0][0], min(x[1])[0]))
        return '; '.join(
            f'{phase} of step {step} for {now - min(who)[0]:.0f} s: {_names(who)}'
            for (step, phase), who in groups
        )

    def slowest(self, step: int) -> tuple[int, float] | None:
        """Returns the process that the others waited for longest at a step's meetings.

        Drops the recorded meetings up to this step.

        Returns:
            The process, and how many seconds it arrived after the median process (the
            lower median), summed over the meetings; ``None`` for a single process.
        """
        lateness: dict[int, float] = collections.defaultdict(float)
        with self._lock:
            for key in [key for key in self._came if key[1] <= step]:
                came = self._came.pop(key)
                if key[1] < step:
                    continue
                for times in zip(*came.values(), strict=False):
                    # The lower median: with two processes, the mean halves the delay.
                    median = statistics.median_low(times)
                    for process, when in zip(came, times, strict=True):
                        lateness[process] += when - median
        if len(lateness) < 2:
            return None
        slowest = max(lateness, key=lambda process: lateness[process])
        return slowest, lateness[slowest]


def _names(who: list[tuple[float, str]]) -> str:
    """Formats processes: up to four by name, more as a count.

    >>> _names([(0.0, '0 (a)'), (0.0, '1 (b)')])
    'processes 0 (a), 1 (b)'
    """
    names = [name for _, name in who]
    if len(names) > 4:
        return f'{len(names)} processes'
    return f'process{"es" if len(names) > 1 else ""} {", ".join(names)}'
