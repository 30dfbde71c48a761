"""Shows the progress of a loop: a bar on a terminal, elsewhere log lines.

Only process 0 shows it. Nothing is written to the run directory.
"""

import datetime
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

import jax
import tqdm
from absl import logging

_MOST_SECONDS = 600.0


class Progress:
    """A context manager that shows the progress of a loop of known length.

    Args:
        total: steps of the whole loop.
        initial: steps done before this process started.
        description: what the loop does, in a word or two.
        stream: where to draw the bar; ``None``: standard error.
        seconds_between_lines: the least time between the first two log lines. It
            doubles with each line, up to ten minutes, so that a log stays short. The
            first update and the end always log a line.
        silent_seconds: a loop that ends within this time shows nothing; a longer one
            begins to show its progress after it.
        clock: returns seconds, for the estimate of the time left.
    """

    def __init__(
        self,
        total: int,
        *,
        initial: int,
        description: str,
        stream: TextIO | None = None,
        seconds_between_lines: float = 10.0,
        silent_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._total, self._step, self._description = total, initial, description
        self._stream = sys.stderr if stream is None else stream
        self._between, self._clock = seconds_between_lines, clock
        self._silent, self._began = silent_seconds, clock()
        self._bar: tqdm.tqdm | None = None
        self._values = ''
        self._evaluated, self._evaluation = -1, ''
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
                delay=self._silent,
                # A bar within another loop's disappears with its loop.
                leave=not self._silent,
                # The first step compiles and would distort a plain mean.
                smoothing=0.1,
            )
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._last_line is not None and self._last_line[0] != self._step:
            self._write_line()

    def evaluation(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Shows an evaluation's smallest and largest pass@k in all later lines.

        Of several splits at a step, the first stays, so that lines can be compared. An
        evaluation after the last step, which no update follows, gets its own line.
        """
        if jax.process_index() != 0:
            return
        names = (name.removeprefix('pass_at_') for name in values)
        ks = sorted(int(name) for name in names if name.isdigit())
        text = _join(
            {f'{split}_pass_at_{k}': values[f'pass_at_{k}'] for k in (ks[0], ks[-1])}
        )
        if step != self._evaluated:
            self._evaluated, self._evaluation = step, text
        if step == self._total:
            logging.info('%s after step %d: %s', self._description, step, text)

    def update(self, step: int, **values: float) -> None:
        """Shows that ``step`` steps are done, and the values in their order.

        Values are, for example, ``reward``, ``pass_at_8`` and ``tokens_per_second``.
        """
        if jax.process_index() != 0:
            return
        self._values = _join(values)
        done, self._step = step - self._step, step
        if self._bar is not None:
            self._bar.set_postfix_str(', '.join(self._texts()), refresh=False)
            self._bar.update(done)
            return
        if self._started is None:
            # Measure from the first update on, to exclude compilation.
            self._started = (step, self._clock())
        last = self._last_line
        if last is None:
            if self._clock() - self._began >= self._silent:
                self._write_line()
        elif self._clock() - last[1] >= self._between:
            self._write_line()
            self._between = min(2 * self._between, _MOST_SECONDS)

    def _texts(self) -> list[str]:
        return [text for text in (self._values, self._evaluation) if text]

    def _write_line(self) -> None:
        now = self._clock()
        self._last_line = (self._step, now)
        parts = [f'{self._description} {self._step}/{self._total}', *self._texts()]
        first, since = self._started or (self._step, now)
        steps, seconds = self._step - first, now - since
        if steps > 0 and self._step < self._total:
            remaining = round((self._total - self._step) * seconds / steps)
            parts.append(f'ETA {datetime.timedelta(seconds=remaining)}')
        logging.info('%s', ', '.join(parts))


def _join(values: Mapping[str, float]) -> str:
    return ', '.join(f'{_title(key)} {format_value(x)}' for key, x in values.items())


def _title(name: str) -> str:
    """Formats a metric's name for display: ``pass_at_8`` is ``pass@8``."""
    return name.replace('pass_at_', 'pass@').replace('_', ' ')


def format_value(value: float) -> str:
    """Formats a number: three decimals, or none for integers and from 1000 on."""
    if isinstance(value, int):
        return f'{value:,}'
    value = float(value)
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3f}'
