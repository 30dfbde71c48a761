"""How a command begins and ends.

Exit status: 0 done; 2 an error that its message explains (a bad flag or file, a full
disk, a loss that is not finite); 42 preempted and saved (see ``runs/preemption.py``);
1 what the command means by it, or a defect of the program, with its traceback. No JAX
is imported.
"""

import functools
import logging as python_logging
import os
import sys
from collections.abc import Callable
from typing import Any

from absl import app, flags, logging

from passk_jax.cli.flags import parse
from passk_jax.errors import InputError, NonFiniteError

# Before any command imports transformers, which would advise on models it has not.
os.environ.setdefault('TRANSFORMERS_NO_ADVISORY_WARNINGS', '1')

EXIT_ERROR = 2
"""Exit status after an error that trying again would only repeat."""


def run(main: Callable[..., int | None]) -> None:
    """Parses the flags that ``main`` takes, calls it and exits.

    Args:
        main: each parameter is a flag, a row of :data:`passk_jax.cli.flags.TABLE`; a
            parameter without a default is required. Returns the exit status.
    """
    try:
        parser = functools.partial(parse, main)
        app.run(functools.partial(_call, main), flags_parser=parser)
    except (InputError, NonFiniteError, OSError, flags.Error) as error:
        message = _explanation(error)
        if message is None or '--debug' in sys.argv:
            raise
        sys.stderr.write(f'error: {message}\n')
        sys.exit(EXIT_ERROR)


def _call(main: Callable[..., int | None], arguments: dict[str, Any]) -> int:
    """Calls ``main``; of what libraries log, only warnings are shown."""
    if flags.FLAGS['verbosity'].using_default_value:
        logging.set_verbosity(logging.INFO)
    for library in ('jax', 'matplotlib', 'orbax', 'grain'):
        python_logging.getLogger(library).setLevel(python_logging.WARNING)
    return main(**arguments) or 0


def _explanation(error: Exception) -> str | None:
    """What to print instead of a traceback; ``None`` if only that would help."""
    if not isinstance(error, OSError):
        return str(error)
    # Libraries raise OSErrors of their own; the system's have a number.
    if error.errno is None:
        return None
    return f'{error.filename}: {error.strerror}' if error.filename else error.strerror
