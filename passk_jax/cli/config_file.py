"""The file that ``--config`` names, and ``--config.<key>=<value>``."""

import os
import re
import runpy
from collections.abc import Sequence
from typing import Any, TypeVar

from absl import flags
from ml_collections import ConfigDict, config_flags

from passk_jax import config as configs
from passk_jax import plugins
from passk_jax.cli import config_folder
from passk_jax.errors import InputError, prefixed
from passk_jax.files import check_nesting

T = TypeVar('T')


def load(path: str) -> ConfigDict:
    """Returns the configuration that a config file's ``get_config()`` makes.

    Arguments and errors are those of :func:`call`; a configuration that contains itself
    is also an error.
    """
    config = call(path, 'get_config', returns=ConfigDict)
    with prefixed(path, (ValueError, RecursionError)):
        check_nesting(config)
    return config


def use_source(config: ConfigDict, path: str, arguments: Sequence[str]) -> None:
    """Changes a configuration to the model that a flag names, before other overrides.

    The flag is ``--config.model.source=SOURCE``, a Hugging Face directory or a hub
    name; without it, nothing changes. A model with sizes in the file loses these sizes,
    its family and its tokenizer. If the file defines ``use_source(config)``, this
    function makes the other changes for the model.

    Args:
        config: the file's configuration.
        path: the config file, as for :func:`load`.
        arguments: the command line.

    Raises:
        InputError: the file raises an error.
    """
    source = flags_of(arguments).get('model.source', '').partition('=')[2]
    if not source:
        return
    if config.model.source:
        config.model.source = source
    else:
        replace_model(config, source)
    file = config_folder.find(_split(path)[0])
    with plugins.errors_of(file, path), config_folder.importable(file):
        adapt = runpy.run_path(file).get('use_source', lambda config: None)
        adapt(config)


def replace_model(config: ConfigDict, source: str) -> None:
    """Replaces the model of a configuration by a published one."""

    def empty(values: ConfigDict) -> dict[str, Any]:
        return {
            name: empty(x) if isinstance(x, ConfigDict) else type(x)()
            for name, x in values.items()
        }

    sizes = empty(config.model.arch)
    config.model.update(family='', source=source, tokenizer='source', arch=sizes)


def call(path: str, function: str, *, returns: type[T]) -> T:
    """Calls a function of a Python file and returns the result.

    Args:
        path: a Python file or the name of a config of the package (config_folder.py);
            ``file.py:argument`` passes the argument.
        function: the function's name.
        returns: the type of its result.

    Raises:
        InputError: there is no such file, it raises an error (the message has the
            line), or the result has another type.
    """
    file, colon, argument = _split(path)
    with prefixed(path, InputError):
        file = config_folder.find(file)
    with plugins.errors_of(file, path), config_folder.importable(file):
        plugins.add_neighbours(file)
        called = runpy.run_path(file).get(function)
        if called is None:
            raise InputError(f'it defines no {function}()')
        result = called(*[argument] if colon else [])
        if not isinstance(result, returns):
            expected, kind = returns.__name__, type(result).__name__
            raise InputError(f'{function}() must return a {expected}, not a {kind}')
    return result


def flags_of(arguments: Sequence[str]) -> dict[str, str]:
    """Collects the flags of the configuration: dotted key -> the last such argument.

    The key of the file is ``''``.

    >>> flags_of(['--config=a.py', '-config.seed', '1', '--topology=cpu:8'])
    {'': '--config=a.py', 'seed': '--config.seed=1'}
    """
    config_arguments = {}
    for i, argument in enumerate(arguments):
        name, equals, value = argument.lstrip('-').partition('=')
        match = re.fullmatch(r'(no)?config(\.(?P<key>.*))?', name)
        if not argument.startswith('-') or not match:
            continue
        if not equals and arguments[i + 1 :] and not arguments[i + 1].startswith('--'):
            equals, value = '=', arguments[i + 1]
        config_arguments[match['key'] or ''] = f'--{name}{equals}{value}'
    return config_arguments


def override_flags(config: ConfigDict, arguments: Sequence[str]) -> flags.FlagValues:
    """Defines a flag for each override; parsing it changes ``config``.

    Args:
        config: the file's configuration; this function locks it.
        arguments: the command line; arguments that are not overrides are ignored.

    Raises:
        InputError: an override of an unknown key; the message names similar keys.
    """
    settings = configs.flatten(config.to_dict())
    keys = list(settings)
    sections = {key[: dot.start()] for key in keys for dot in re.finditer(r'\.', key)}
    for argument in arguments:
        option = re.match(r'--?(?:no)?config\.([^=]*)', argument)
        if option and option[1] not in (*keys, *sections):
            words = configs.unknown_key(option[1], keys)
            remedy = _remedy(option[1], settings, arguments)
            raise InputError(f'{argument}: {words}{remedy}')
    values, argv = flags.FlagValues(), list(arguments)
    config_flags.DEFINE_config_dict('config', config, flag_values=values, sys_argv=argv)
    for name in values:
        flag = values[name]
        if isinstance(flag, flags.MultiFlag):
            _replace_when_repeated(flag)
    return values


def _remedy(key: str, settings: dict[str, Any], arguments: Sequence[str]) -> str:
    """Says how to set a parameter of a user's own estimator, if the key may be one."""
    section, _, parameter = key.rpartition('.')
    flag = flags_of(arguments).get('advantage.name', '').partition('=')[2]
    name = flag or settings.get('advantage.name')
    if section != 'advantage' or not plugins.is_place(name):
        return ''
    return (
        f' Only a config file can add a parameter of {name}: with config.unlocked(): '
        f'config.advantage.{parameter} = ... (docs/plugins.md)'
    )


def _replace_when_repeated(flag: flags.MultiFlag[Any]) -> None:
    """Makes the last of several values win, as for every other flag."""
    parse = flag.parse

    def replace(arguments: Any) -> None:
        # Otherwise a repeated flag adds to its value.
        flag.present = 0
        parse(arguments)

    flag.parse = replace


def _split(path: str) -> tuple[str, str, str]:
    """Splits into file, colon and argument; the file's path may contain a colon."""
    ends = [match.start() for match in re.finditer(':', path)]
    for end in (len(path), *reversed(ends)):
        if os.path.isfile(path[:end]):
            return path[:end], path[end : end + 1], path[end + 1 :]
    return path.partition(':')
