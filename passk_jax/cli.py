"""The frame around every command: how it ends when it cannot do what was asked.

Exit status: 0 done; 2 an error that its message explains, in a line or two on stderr
(a bad option or file, a full disk, a loss that is not finite); 42 preempted and saved
(see ``preemption.py``); 1 what the command means by it, or an error of the program
itself, with its traceback. No JAX is imported.
"""

import functools
import re
import sys
from collections.abc import Callable, Sequence

from absl import app, flags

Main = Callable[[Sequence[str]], int | None]

EXIT_ERROR = 2
"""Exit status after an error that trying again would only repeat."""

# Here because flags are global, and a process may import more than one command.
WORKDIR = flags.DEFINE_string(
    'workdir', None, 'Run directory; train makes runs/<config.name> if it is not given.'
)
_DEBUG = flags.DEFINE_bool('debug', False, 'Show where an error was raised.')


def run(main: Main) -> None:
    """Parses the flags, calls ``main(program and leftover arguments)`` and exits."""
    app.run(functools.partial(_explained, main), flags_parser=_parse_flags)


def _explained(main: Main, argv: Sequence[str]) -> int:
    """Calls ``main``; errors that are raised on purpose become a line and a status."""
    try:
        return main(argv) or 0
    except (ValueError, FloatingPointError, OSError) as error:
        if _DEBUG.value:
            raise
        sys.stderr.write(f'error: {error}\n(--debug shows where it was raised)\n')
        return EXIT_ERROR


def _parse_flags(argv: Sequence[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        message = f'{error}\n(--help lists the options)'
    except (AttributeError, KeyError) as error:
        # What ml_collections raises for an override of a key that the config has not:
        # its name, and a suggestion if there is one.
        text = str(error)
        name, hint = re.search(r'\w+', text), re.search(r'Did you mean.*\?', text)
        option = name and _option_with(argv, name.group())
        if option is None:
            raise
        message = f'{option}: no such key in the config'
        if hint:
            message += f'. {hint.group()}'
    sys.stderr.write(f'error: {message}\n')
    sys.exit(EXIT_ERROR)


def _option_with(argv: Sequence[str], name: str) -> str | None:
    """The option that has ``name`` in its dotted key, ``None`` if there is none."""
    for option in argv:
        key = re.match(r'--?[\w.]+', option)
        if key and name in key.group().split('.')[1:]:
            return option
    return None
