"""The frame around every command: how it ends when it cannot do what was asked.

Exit status: 0 done; 2 an error that its message explains, in a line or two on stderr
(a bad option or file, a full disk, a loss that is not finite); 42 preempted and saved
(``preemption.py``); 1 what the command says of itself, an option that absl rejects, or
an error of the program, with its traceback. No JAX is imported.
"""

import functools
import re
import sys
from collections.abc import Callable, Sequence

from absl import app, flags

EXIT_ERROR = 2
"""Exit status after an error that trying again would only repeat."""

WORKDIR = flags.DEFINE_string(
    'workdir', '', 'Run directory. train: runs/<config.name> if not given.'
)
"""Here because a process may import more than one command, and flags are global."""

_DEBUG = flags.DEFINE_bool('debug', False, 'Show where an error was raised.')


def run(main: Callable[[Sequence[str]], int | None]) -> None:
    """Parses the flags, calls ``main(leftover arguments)`` and exits."""
    app.run(functools.partial(_explained, main), flags_parser=_parse_flags)


def _explained(main: Callable[[Sequence[str]], int | None], argv: Sequence[str]) -> int:
    """Turns the errors that the package raises on purpose into a line and a status."""
    try:
        return main(argv) or 0
    except (ValueError, FloatingPointError) as error:
        if _DEBUG.value:
            raise
        sys.stderr.write(f'error: {error}\n(--debug shows where it was raised)\n')
        return EXIT_ERROR


def _parse_flags(argv: Sequence[str]) -> list[str]:
    try:
        return app.parse_flags_with_usage(argv)
    except AttributeError as error:
        # What ml_collections raises for an override of a key that is not there:
        # the name, and a suggestion if it has one.
        name, _, hint = str(error).partition('\n')
        option = _option_with(argv, name.strip('\'"'))
        if option is None:
            raise
        hint = f'. {hint}' if hint else ''
        sys.stderr.write(f'error: {option}: no such key in the config{hint}\n')
        sys.exit(EXIT_ERROR)


def _option_with(argv: Sequence[str], name: str) -> str | None:
    """The option that has ``name`` in its dotted key, ``None`` if there is none."""
    for option in argv:
        key = re.match(r'--?[\w.]+', option)
        if key and name in key.group().split('.')[1:]:
            return option
    return None
