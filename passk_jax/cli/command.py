"""The frame around every command: how it ends when it cannot do what was asked.

Exit status: 0 done; 2 an error that its message explains, in a line or two on stderr
(a bad option or file, a full disk, a loss that is not finite); 42 preempted and saved
(see ``preemption.py``); 1 what the command means by it, or an error that nobody meant
to raise, as of shapes that do not fit, with its traceback. No JAX is imported.
"""

import dis
import functools
import logging as python_logging
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags, logging

from passk_jax.errors import InputError

# Here, before any command imports it: the policy is not one of its models.
os.environ.setdefault('TRANSFORMERS_NO_ADVISORY_WARNINGS', '1')

Main = Callable[[], int | None]

EXIT_ERROR = 2
"""Exit status after an error that trying again would only repeat."""

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_OUR_CODE = (_PACKAGE, _PACKAGE.parent / 'configs')

# Here because flags are global, and a process may import more than one command.
WORKDIR = flags.DEFINE_string(
    'workdir', None, 'Run directory; train makes runs/<config.name> if it is not given.'
)
_DEBUG = flags.DEFINE_bool('debug', False, 'Show where an error was raised.')


def run(main: Main) -> None:
    """Parses the flags, calls ``main()`` and exits."""
    app.run(functools.partial(_explained, main), flags_parser=_parse_flags)


def _explained(main: Main, argv: Sequence[str]) -> int:
    """Calls ``main``; errors that are raised on purpose become a line and a status."""
    _choose_what_is_logged()
    try:
        reject_leftover_arguments(argv)
        return main() or 0
    except (ValueError, FloatingPointError, OSError) as error:
        if _DEBUG.value or not _explains_itself(error):
            raise
        sys.stderr.write(f'error: {error}\n(--debug shows where it was raised)\n')
        return EXIT_ERROR


def reject_leftover_arguments(argv: Sequence[str]) -> None:
    """Refuses what absl did not understand.

    absl reads ``--config.flag False`` as ``--config.flag`` (so: True) and leaves
    ``False`` over; going on would run another experiment than the one asked for.

    Args:
        argv: what ``absl.app.run`` hands to ``main``; the first is the program.

    Raises:
        ValueError: anything is left over.
    """
    if leftover := list(argv[1:]):
        raise InputError(
            f'arguments not understood: {leftover}; every option is written '
            f'--name=value, for example --config.log.tensorboard=false'
        )


def _choose_what_is_logged() -> None:
    """What this program says, and only what goes wrong of what libraries say."""
    if flags.FLAGS['verbosity'].using_default_value:
        logging.set_verbosity(logging.INFO)
    for library in ('jax', 'matplotlib', 'orbax', 'grain'):
        python_logging.getLogger(library).setLevel(python_logging.WARNING)


def _explains_itself(error: Exception) -> bool:
    """Whether a ``raise`` of this repository made it, or the system refused it a file.

    numpy and JAX raise ValueErrors too, and their words say little without the place.
    """
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    file = pathlib.Path(code.co_filename).resolve()
    if not any(file.is_relative_to(folder) for folder in _OUR_CODE):
        return False
    # What was going on in that frame: a raise, or a call of something written in C.
    raised = code.co_code[last.tb_lasti] == dis.opmap['RAISE_VARARGS']
    return raised or isinstance(error, OSError)


def _parse_flags(argv: Sequence[str]) -> list[str]:
    try:
        return flags.FLAGS(argv)
    # Broad, because to parse --config is to run a file that can raise anything.
    except Exception as error:
        path = _config_path(argv)
        message = _error_in(path, error) or _unknown_key(argv, error)
        if message is None and isinstance(error, flags.Error):
            message = f'{error}\n(--help lists the options)'
        if message is None and path:
            message = f'{path} is no config file: {error}'
        if message is None or '--debug' in argv:
            raise
    sys.stderr.write(f'error: {message}\n')
    sys.exit(EXIT_ERROR)


def _config_path(argv: Sequence[str]) -> str:
    """The file of ``--config``, without what a colon gives it; ``''`` if none."""
    for option, following in zip(argv, [*argv[1:], ''], strict=True):
        if match := re.fullmatch(r'--?config(?:=(.*))?', option):
            return (match[1] or following).split(':')[0]
    return ''


def _error_in(path: str, error: Exception) -> str | None:
    """What the file raised and on which line, ``None`` if it raised nothing."""
    for each in _with_causes(error):
        kind = type(each).__name__
        if isinstance(each, SyntaxError) and each.filename == path:
            return f'{path}, line {each.lineno}: {kind}: {each.msg}'
        frames = traceback.extract_tb(each.__traceback__)
        if lines := [frame.lineno for frame in frames if frame.filename == path]:
            return f'{path}, line {lines[-1]}: {kind}: {each}'
    return None


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what was being handled when it was raised, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _unknown_key(argv: Sequence[str], error: Exception) -> str | None:
    """What ml_collections means if an override has a key that the config has not."""
    if not isinstance(error, AttributeError | KeyError):
        return None
    # It gives the key's name, and a suggestion if there is one.
    text = str(error)
    name, hint = re.search(r'\w+', text), re.search(r'Did you mean.*\?', text)
    option = name and _option_with(argv, name.group())
    if option is None:
        return None
    message = f'{option}: no such key in the config'
    return f'{message}. {hint.group()}' if hint else message


def _option_with(argv: Sequence[str], name: str) -> str | None:
    """The option that has ``name`` in its dotted key, ``None`` if there is none."""
    for option in argv:
        key = re.match(r'--?[\w.]+', option)
        if key and name in key.group().split('.')[1:]:
            return option
    return None
