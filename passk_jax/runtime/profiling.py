"""Traces a few steps with JAX's profiler; TensorBoard or xprof shows the trace.

Every process writes its trace to ``profile/`` in the run directory. Tracing slows
steps, so ignore the ``timing.jsonl`` of traced steps.
"""

import contextlib
import pathlib
import re
from collections.abc import Iterator

import jax

from passk_jax.errors import InputError


def parse_steps(steps: str, *, last: int) -> range:
    """Parses ``--profile``: ``'10:12'`` is steps 10 and 11, ``''`` is none.

    Args:
        steps: the flag's value.
        last: the number of steps of the run.

    Raises:
        ValueError: the value has another form, or exceeds the run's steps.

    >>> parse_steps('10:12', last=300)
    range(10, 12)
    """
    if not steps:
        return range(0)
    match = re.fullmatch(r'(\d{1,9}):(\d{1,9})', steps)
    if not match or not int(match[1]) < int(match[2]) <= last:
        raise InputError(
            f"--profile={steps} must be 'first:end', steps of the run's {last}, "
            f'end excluded: --profile=10:12 is steps 10 and 11'
        )
    return range(int(match[1]), int(match[2]))


class Profile(contextlib.AbstractContextManager['Profile']):
    """A context manager that traces some steps of a loop."""

    def __init__(self, directory: pathlib.Path, steps: range):
        self._directory, self._steps = directory, steps
        self._runs = False

    @contextlib.contextmanager
    def step(self, step: int) -> Iterator[None]:
        """Marks a step in the trace, and starts or stops the trace if due.

        A trace stops when the step after it begins; by then the devices have finished.
        """
        if self._runs and step not in self._steps:
            self._stop()
        elif step in self._steps and not self._runs:
            jax.profiler.start_trace(self._directory)
            self._runs = True
        with jax.profiler.StepTraceAnnotation('train', step_num=step):
            yield

    def __exit__(self, *exc_info: object) -> None:
        if self._runs:
            self._stop()

    def _stop(self) -> None:
        self._runs = False
        jax.profiler.stop_trace()
