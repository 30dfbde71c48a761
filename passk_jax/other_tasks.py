"""The tasks that ``evaluate --task`` names besides that of the run."""

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterator

from passk_jax.cli import config_file
from passk_jax.config import DataConfig, TaskConfig, checks
from passk_jax.errors import InputError
from passk_jax.tasks import task_class


def named(
    which: str | None, data: DataConfig, data_dir: str | None
) -> dict[str, tuple[TaskConfig, DataConfig]]:
    """Each task and its problems, by what it is called in tables and file names.

    That is the name of a task, or of a config file with its argument.

    Args:
        which: names and config files, separated by commas; ``None``: no other task.
        data: of the run; a config file has its own.
        data_dir: replaces the directory of either; ``None``: does not.

    Raises:
        InputError: an unknown name, a file that cannot be read, or two of one name.
    """
    if which is None:
        if data_dir is not None:
            raise InputError(f'{data_dir=} is the place of other tasks: name --task')
        return {}
    # A comma may also separate the arguments of a file.
    parts = re.split(r',(?=[^,=]*(?:\.py|$|,))', which)
    found = {}
    for part in parts:
        file, colon, argument = part.partition(':')
        name = pathlib.Path(file).stem + colon + argument
        if name in found:
            raise InputError(f'task={which!r} names {name!r} twice')
        task, own = _from_file(part) if '.py' in part else _by_name(part, data)
        found[name] = task, dataclasses.replace(own, dir=data_dir or own.dir)
    return found


@contextlib.contextmanager
def errors_of(name: str) -> Iterator[None]:
    """Errors say which of the tasks they are of; ``''`` is the run's own."""
    try:
        yield
    except ValueError as error:
        if not name:
            raise
        raise InputError(f'task {name!r}: {error}') from error


def _from_file(path: str) -> tuple[TaskConfig, DataConfig]:
    config = config_file.load(path).to_dict()
    if absent := {'task', 'data'} - config.keys():
        raise InputError(f'{path}: it has no {sorted(absent)}')
    with errors_of(path):
        return (
            checks.build(TaskConfig, config['task'], path='task'),
            checks.build(DataConfig, config['data'], path='data'),
        )


def _by_name(name: str, data: DataConfig) -> tuple[TaskConfig, DataConfig]:
    about = task_class(name).about
    return TaskConfig(name, {**about.example, **about.benchmark}), data
