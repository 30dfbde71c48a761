"""Shows the progress of a sweep: a line for each run, and when all will be done.

On a terminal the lines are redrawn in place; elsewhere they are written once a minute.
"""

import datetime
import heapq
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from passk_jax.runs.progress import format_value
from passk_jax.sweeps.directories import last_row, steps_done
from passk_jax.sweeps.opening import Job


class Pace:
    """A measurement of each run's seconds per step, including evaluations.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._first: dict[str, tuple[int, float]] = {}
        self._seconds: dict[str, float] = {}

    def see(self, name: str, steps: int) -> None:
        """Records how many steps a running run has done.

        Measures from the first step seen, because compilation delays that step.
        """
        now = self._clock()
        first_steps, then = self._first.setdefault(name, (steps, now))
        if not first_steps or steps < first_steps:
            self._first[name] = (steps, now)
        elif steps > first_steps:
            self._seconds[name] = (now - then) / (steps - first_steps)

    def forget(self, name: str) -> None:
        """Ends the measurement of a run, but remembers its seconds per step."""
        self._first.pop(name, None)

    def seconds(self, name: str) -> float | None:
        """Returns a run's seconds per step, or the others' mean; ``None``: unknown."""
        paces = list(self._seconds.values())
        return self._seconds.get(name, sum(paces) / len(paces) if paces else None)

    def seconds_left(
        self, running: Iterable[Job], waiting: Iterable[Job], *, at_a_time: int
    ) -> float | None:
        """Estimates the seconds until all runs are done; ``None``: unknown.

        Assumes that ``at_a_time`` runs go side by side and start in order.
        """
        durations = []
        for job in (*running, *waiting):
            if (seconds := self.seconds(job.name)) is None:
                return None
            durations.append(seconds * (job.steps - steps_done(job)))
        ends = [0.0] * at_a_time
        for seconds in durations:
            heapq.heappush(ends, heapq.heappop(ends) + seconds)
        return max(ends)


def line(job: Job, state: str, *, seconds: float | None = None, width: int) -> str:
    """Formats a run's line: name, state, steps and, while it runs, reward.

    Args:
        job: the run.
        state: its state in a word or two.
        seconds: seconds per step; ``None``: unknown, or the run is not running.
        width: the width of the name's column.
    """
    parts = [f'{job.name:<{width}}  {state:<9} {steps_done(job)}/{job.steps}']
    if state == 'running' and 'reward' in (row := last_row(job)):
        parts.append(f'reward {format_value(row["reward"])}')
    if seconds is not None:
        parts.append(f'{seconds:.2f} s a step')
    return ', '.join(parts)


def duration(seconds: float | None) -> str:
    """Formats seconds as ``1:02:03``, and ``None`` as ``'unknown'``."""
    if seconds is None:
        return 'unknown'
    return str(datetime.timedelta(seconds=round(seconds)))


class Display:
    """A display of status lines, which are replaced, and of lines that stay.

    Args:
        stream: where to write; ``None``: standard error.
        between: the least seconds between two displays, except on a terminal.
        clock: returns seconds.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        between: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._stream = sys.stderr if stream is None else stream
        self._between, self._clock = between, clock
        self.redraws = self._stream.isatty()
        self._last = clock()
        self._drawn: list[str] = []

    def say(self, text: str) -> None:
        """Writes a line that stays."""
        drawn, self._drawn = self._drawn, []
        self._write(self._erase(drawn) + text + '\n')
        if self.redraws:
            self._draw(drawn)

    def show(self, make_lines: Callable[[], Sequence[str]]) -> None:
        """Replaces the status lines, unless the last display was too recent."""
        now = self._clock()
        if now - self._last < (0.5 if self.redraws else self._between):
            return
        self._last = now
        lines = list(make_lines())
        if self.redraws:
            drawn, self._drawn = self._drawn, []
            self._write(self._erase(drawn))
            self._draw(lines)
        else:
            self._write(''.join(f'{line}\n' for line in lines))

    def _draw(self, lines: Sequence[str]) -> None:
        # Lines that wrap or scroll away cannot be redrawn.
        columns, rows = shutil.get_terminal_size()
        self._drawn = [line[: columns - 1] for line in lines[-(rows - 1) :]]
        self._write(''.join(f'{line}\n' for line in self._drawn))

    def _erase(self, drawn: Sequence[str]) -> str:
        return f'\x1b[{len(drawn)}F\x1b[J' if drawn else ''

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
