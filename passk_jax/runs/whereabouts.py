"""Where the processes of a run are: for a heartbeat, and to find the slowest of them.

Every process tells process 0 of each phase that it begins, over the connection of
:mod:`passk_jax.runtime.peers`. So process 0 knows where the others are even while its
own loop is stuck in a collective. All times are those of its clock when the news
arrives.
"""

import collections
import statistics
import threading
import time
from collections.abc import Callable

# A process that begins one of them has done its own share of the work and waits for the
# others. Whatever else is slow on the host of one, such as feeding or writing, shows
# here too; what is slow on a device does not, for all devices wait for it.
MEETINGS = ('gather', 'wait')


class Whereabouts:
    """What process 0 knows of every process.

    Args:
        clock: returns seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic):
        self._clock, self._lock = clock, threading.Lock()
        # By process: phase, step, host, and when it began.
        self._now: dict[int, tuple[str, int, str, float]] = {}
        # By meeting and step: by process, when it came, each time.
        self._came: dict[tuple[str, int], dict[int, list[float]]] = {}

    def note(self, process: int, phase: str, step: int, host: str) -> None:
        """Says that a process, on a host of this name, begins a phase of a step."""
        with self._lock:
            now = self._clock()
            self._now[process] = phase, step, host, now
            if phase in MEETINGS:
                came = self._came.setdefault(
                    (phase, step), collections.defaultdict(list)
                )
                came[process].append(now)

    def late(self, *, seconds: float) -> str:
        """Where all processes are, if one has been in a phase for so long; else ``''``.

        Those furthest behind come first.
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
        """The process for which the others waited most at the meetings of a step.

        Forgets the meetings up to this step.

        Returns:
            The process, and by how many seconds it came later than the median process
            (of an even number, the earlier of the two in the middle), over all
            meetings; ``None`` for a single process.
        """
        lateness: dict[int, float] = collections.defaultdict(float)
        with self._lock:
            for key in [key for key in self._came if key[1] <= step]:
                came = self._came.pop(key)
                if key[1] < step:
                    continue
                for times in zip(*came.values(), strict=False):
                    # With two processes, a mean of both would halve the delay.
                    median = statistics.median_low(times)
                    for process, when in zip(came, times, strict=True):
                        lateness[process] += when - median
        if len(lateness) < 2:
            return None
        slowest = max(lateness, key=lambda process: lateness[process])
        return slowest, lateness[slowest]


def _names(who: list[tuple[float, str]]) -> str:
    """At most four of them by name.

    >>> _names([(0.0, '0 (a)'), (0.0, '1 (b)')])
    'processes 0 (a), 1 (b)'
    """
    names = [name for _, name in who]
    if len(names) > 4:
        return f'{len(names)} processes'
    return f'process{"es" if len(names) > 1 else ""} {", ".join(names)}'
