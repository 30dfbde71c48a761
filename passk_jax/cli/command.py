"""Starts and ends a command; imports no JAX.

Exit status: 0 success; 2 an error that its message explains (a bad flag or file, a full
disk, a loss that is not finite); 42 preempted and saved (see ``runs/preemption.py``);
43 another process of the run is gone; 1 a result that the command defines, or a bug
with its traceback; 130 interrupted. If one of several processes fails, all exit with
its status; see ``peers.py``.
"""

import functools
import gc
import io
import logging as python_logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from absl import app, flags, logging

from passk_jax import plugins
from passk_jax.cli.flags import parse
from passk_jax.errors import (
    ElsewhereError,
    InputError,
    NonFiniteError,
    with_class,
)
from passk_jax.runtime import background, peers

# Set before a command imports transformers, which would warn that PyTorch is missing.
os.environ.setdefault('TRANSFORMERS_NO_ADVISORY_WARNINGS', '1')

EXIT_ERROR = 2
"""Exit status of an error that a retry would only repeat."""

_MOST_LINES, _LONGEST_LINE = 20, 2000


def run(main: Callable[..., int | None]) -> None:
    """Parses the flags that ``main`` takes, calls it and exits.

    Args:
        main: the command. Its parameters are flags, rows of
            :data:`passk_jax.cli.flags.TABLE`; one without a default is required. It
            returns the exit status.
    """
    for stream in (sys.stdout, sys.stderr):
        # A locale without UTF-8 cannot encode some of what a command prints.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors='backslashreplace')
    with background.leaving_with_status():
        _run(main)


def _run(main: Callable[..., int | None]) -> None:
    """Calls ``main`` and turns its errors into messages and statuses."""
    try:
        parser = functools.partial(parse, main)
        app.run(functools.partial(_call, main), flags_parser=parser)
    except (Exception, KeyboardInterrupt) as error:
        message = _explanation(error)
        message = None if message is None else shorten(message)
        explained = message is not None and '--debug' not in sys.argv
        _leave_with_others(error, message if explained else None)
        if not explained:
            raise
        sys.stderr.write(f'error: {message}\n')
        sys.exit(EXIT_ERROR)


def shorten(message: str) -> str:
    """Cuts a message to at most 20 lines, each of at most 2,000 characters.

    >>> shorten('a\\nb')
    'a\\nb'
    """
    lines = message.splitlines()
    if len(lines) > _MOST_LINES:
        more = f'... and {len(lines) - _MOST_LINES + 1:,} lines more'
        lines = [*lines[: _MOST_LINES - 1], more]
    return '\n'.join(
        line
        if len(line) <= _LONGEST_LINE
        else f'{line[:_LONGEST_LINE]} ... and {len(line) - _LONGEST_LINE:,} more'
        for line in lines
    )


def _leave_with_others(error: BaseException, message: str | None) -> None:
    """Ends this process and the others of its run; returns if there are no others."""
    status = 130 if isinstance(error, KeyboardInterrupt) else 1
    peers.fail(
        status if message is None else EXIT_ERROR,
        message or with_class(error),
        text=f'error: {message}\n' if message else traceback.format_exc(),
        elsewhere=isinstance(error, ElsewhereError),
    )


def _call(main: Callable[..., int | None], arguments: dict[str, Any]) -> int:
    """Calls ``main`` and limits the logs of other libraries to warnings."""
    # Tracing makes many objects: garbage collection took 10 % of the time to step 1.
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    if flags.FLAGS['verbosity'].using_default_value:
        debug = '--debug' in sys.argv
        logging.set_verbosity(logging.DEBUG if debug else logging.INFO)
    for library in ('jax', 'matplotlib', 'orbax', 'grain'):
        python_logging.getLogger(library).setLevel(python_logging.WARNING)
    return main(**arguments) or 0


def _explanation(error: BaseException) -> str | None:
    """Returns what to print in place of a traceback; ``None`` to show the traceback."""
    if isinstance(error, InputError | NonFiniteError | flags.Error):
        return str(error)
    if message := plugins.explain(error):
        return message
    # XLA raises this error in a class that it shares with many others.
    if isinstance(error, MemoryError) or str(error).startswith('RESOURCE_EXHAUSTED'):
        message = str(error).partition('\n')[0]
        return f'out of memory ({message}): python -m passk_jax.plan says what fits'
    if not isinstance(error, OSError):
        return None
    # Errors of the system have a number; libraries raise OSErrors without one.
    if error.errno is None:
        return None
    return f'{error.filename}: {error.strerror}' if error.filename else error.strerror
