"""The file that ``--config`` names, and ``--config.<key>=<value>``."""

import os
import re
import runpy
import traceback
from collections.abc import Sequence

from absl import flags
from ml_collections import ConfigDict, config_flags

from passk_jax import config as configs
from passk_jax.errors import InputError


def load(path: str) -> ConfigDict:
    """Calls ``get_config()`` of a config file and returns the result.

    Args:
        path: a Python file, or ``file.py:argument`` to pass the argument.

    Raises:
        InputError: no such file, or an error in the file, with its line.
    """
    file, colon, argument = path.partition(':')
    try:
        if not os.path.isfile(file):
            raise InputError('no such file')
        get_config = runpy.run_path(file).get('get_config')
        if get_config is None:
            raise InputError('it defines no get_config()')
        config = get_config(*[argument] if colon else [])
        if not isinstance(config, ConfigDict):
            kind = type(config).__name__
            raise InputError(f'get_config() must return a ConfigDict, not a {kind}')
    except InputError as error:
        raise InputError(f'{path}: {error}') from error
    # A config file is a program, which can raise anything.
    except Exception as error:
        raise InputError(f'{path}{_what_happened(error, file)}') from error
    return config


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
    return values


def _what_happened(error: Exception, file: str) -> str:
    """The error and the file's line that raised it or led to it, if any."""
    places = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((error.filename, error.lineno))
    path = os.path.abspath(file)
    lines = [line for name, line in places if name and os.path.abspath(name) == path]
    where = f', line {lines[-1]}' if lines else ''
    return f'{where}: {type(error).__name__}: {error}'
