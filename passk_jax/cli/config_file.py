"""The file that ``--config`` names, and ``--config.<key>=<value>``."""

import os
import re
import runpy
import traceback
from collections.abc import Sequence
from typing import Any, TypeVar

from absl import flags
from ml_collections import ConfigDict, config_flags

from passk_jax import config as configs
from passk_jax.errors import InputError, prefixed
from passk_jax.files import check_nesting

T = TypeVar('T')


def load(path: str) -> ConfigDict:
    """The configuration that a config file's ``get_config()`` returns.

    Args, errors: as in :func:`call`. A configuration that contains itself is one too.
    """
    config = call(path, 'get_config', returns=ConfigDict)
    with prefixed(path, (ValueError, RecursionError)):
        check_nesting(config)
    return config


def call(path: str, function: str, *, returns: type[T]) -> T:
    """Calls a function of a Python file and returns the result.

    Args:
        path: a Python file, or ``file.py:argument`` to pass the argument.
        function: the function's name.
        returns: the type of its result.

    Raises:
        InputError: no such file, an error in the file, with its line, or another type.
    """
    file, colon, argument = _split(path)
    try:
        if not os.path.isfile(file):
            raise InputError('no such file')
        called = runpy.run_path(file).get(function)
        if called is None:
            raise InputError(f'it defines no {function}()')
        result = called(*[argument] if colon else [])
        if not isinstance(result, returns):
            wanted, kind = returns.__name__, type(result).__name__
            raise InputError(f'{function}() must return a {wanted}, not a {kind}')
    except InputError as error:
        raise InputError(f'{path}: {error}') from error
    except KeyboardInterrupt:
        raise
    # Such a file is a program, which can raise anything, and end itself.
    except BaseException as error:
        raise InputError(f'{path}{_what_happened(error, file)}') from error
    return result


def override_flags(config: ConfigDict, arguments: Sequence[str]) -> flags.FlagValues:
    """Defines a flag for each override; parsing it changes ``config``.

    Args:
        config: the config of the file; this function locks it.
        arguments: the command line; arguments that are not overrides are ignored.

    Raises:
        InputError: an override of an unknown key; the message names similar keys.
    """
    keys = list(configs.flatten(config.to_dict()))
    sections = {key[: dot.start()] for key in keys for dot in re.finditer(r'\.', key)}
    for argument in arguments:
        option = re.match(r'--?(?:no)?config\.([^=]*)', argument)
        if option and option[1] not in (*keys, *sections):
            raise InputError(f'{argument}: {configs.unknown_key(option[1], keys)}')
    values, argv = flags.FlagValues(), list(arguments)
    config_flags.DEFINE_config_dict('config', config, flag_values=values, sys_argv=argv)
    for name in values:
        flag = values[name]
        if isinstance(flag, flags.MultiFlag):
            _replace_when_repeated(flag)
    return values


def _replace_when_repeated(flag: flags.MultiFlag[Any]) -> None:
    """Makes the last of several values count, as of every other flag."""
    parse = flag.parse

    def replace(arguments: Any) -> None:
        # A flag that is present would add to its value.
        flag.present = 0
        parse(arguments)

    flag.parse = replace


def _split(path: str) -> tuple[str, str, str]:
    """The file, a colon and the argument; a colon may be part of the file's path."""
    ends = [match.start() for match in re.finditer(':', path)]
    for end in (len(path), *reversed(ends)):
        if os.path.isfile(path[:end]):
            return path[:end], path[end : end + 1], path[end + 1 :]
    return path.partition(':')


def _what_happened(error: BaseException, file: str) -> str:
    """The error and the file's line that raised it or led to it, if any."""
    frames = traceback.extract_tb(error.__traceback__)
    places: list[tuple[str | None, int | None]] = [
        (frame.filename, frame.lineno) for frame in frames
    ]
    if isinstance(error, SyntaxError):
        places.append((error.filename, error.lineno))
    path = os.path.abspath(file)
    lines = [line for name, line in places if name and os.path.abspath(name) == path]
    where = f', line {lines[-1]}' if lines else ''
    return f'{where}: {type(error).__name__}: {error}'
