"""How far a loop is, for the person who waits.

On a terminal a bar; elsewhere (a file, a scheduler's log) a line now and then. Shown by
process 0. Nothing of it is stored: the run directory is the metric writer's.
"""

import datetime
import sys
import time
from collections.abc import Callable
from typing import TextIO

import jax
import tqdm
from absl import logging


class Progress:
    """Context manager around a loop of known length.

    Args:
        total: steps of the whole loop.
        initial: steps done before this process, when resumed.
        description: what the loop does, in a word or two.
        stream: where a bar goes; ``None`` for standard error.
        seconds_between_lines: the least time between two lines off a terminal. The
            first update and the end have theirs in any case.
        clock: seconds, for the estimate of the time left.
    """

    def __init__(
        self,
        total: int,
        *,
        initial: int,
        description: str,
        stream: TextIO | None = None,
        seconds_between_lines: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._total = total
        self._step = initial
        self._description = description
        self._stream = sys.stderr if stream is None else stream
        self._between = seconds_between_lines
        self._clock = clock
        self._bar: tqdm.tqdm | None = None
        self._values = ''
        self._started: tuple[int, float] | None = None
        self._last_line: tuple[int, float] | None = None

    def __enter__(self) -> 'Progress':
        if jax.process_index() == 0 and self._stream.isatty():
            self._bar = tqdm.tqdm(
                total=self._total,
                initial=self._step,
                desc=self._description,
                file=self._stream,
                dynamic_ncols=True,
                # A step is seconds long and the first one compiles: the mean over
                # all of them would mislead for a long time.
                smoothing=0.1,
            )
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._last_line is not None and self._last_line[0] != self._step:
            self._write_line()

    def update(self, step: int, **values: float) -> None:
        """Shows where the loop is.

        Args:
            step: steps done.
            **values: what else a person would ask for, in the order of showing, for
                example ``reward``, ``pass_at_8``, ``tokens_per_second``.
        """
        if jax.process_index() != 0:
            return
        values_text = ', '.join(
            f'{name.replace("_", " ")} {format_value(value)}'
            for name, value in values.items()
        )
        self._values = values_text
        if self._bar is not None:
            self._bar.set_postfix_str(values_text, refresh=False)
            self._bar.update(step - self._step)
            self._step = step
            return
        self._step = step
        if self._started is None:
            # After the first update, so that compiling is not in the rate.
            self._started = (step, self._clock())
        if self._last_line is None or (
            self._clock() - self._last_line[1] >= self._between
        ):
            self._write_line()

    def _write_line(self) -> None:
        now = self._clock()
        self._last_line = (self._step, now)
        parts = [f'{self._description} {self._step}/{self._total}']
        if self._values:
            parts.append(self._values)
        steps, seconds = self._step - self._started[0], now - self._started[1]
        if steps > 0 and self._step < self._total:
            left = round((self._total - self._step) * seconds / steps)
            parts.append(f'ETA {datetime.timedelta(seconds=left)}')
        logging.info('%s', ', '.join(parts))


def format_value(value: float) -> str:
    """A number in the few digits a person reads: 3 after the point, none from 1000."""
    if isinstance(value, int):
        return f'{value:,}'
    value = float(value)
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3f}'
