"""The tasks of ``evaluate --task``, and which of their problems a run has not seen."""

import contextlib
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Collection, Iterable, Sequence

from absl import logging

from passk_jax import plugins
from passk_jax.cli import config_file
from passk_jax.config import DataConfig, TaskConfig, checks
from passk_jax.data.batches import count_categories
from passk_jax.errors import InputError, prefixed
from passk_jax.tasks import Task, make_task, task_class
from passk_jax.types import Problem


def read_tasks(
    which: str | None, data: DataConfig, data_dir: str | None
) -> dict[str, tuple[TaskConfig, DataConfig]]:
    """Reads the tasks of ``--task``, by their names in tables and files.

    A task's name is its registered name, or a config file's name with its argument.

    Args:
        which: names, config files and classes in files, separated by commas; ``None``:
            no other task.
        data: the run's data settings; a config file has its own.
        data_dir: replaces ``data.dir`` of the run and of config files; ``None`` does
            not.

    Raises:
        InputError: an unknown name, a file that cannot be read, or a name that occurs
            twice.
    """
    if which is None:
        if data_dir is not None:
            raise InputError(f'{data_dir=} is the place of other tasks: name --task')
        return {}
    tasks = {}
    for part in split_names(which):
        file, colon, argument = part.partition(':')
        name = pathlib.Path(file).stem + colon + argument
        if name in tasks:
            raise InputError(f'task={which!r} names {name!r} twice')
        is_config = is_config_file(part)
        task, task_data = _from_file(part) if is_config else _from_name(part, data)
        tasks[name] = (
            task,
            dataclasses.replace(task_data, dir=data_dir or task_data.dir),
        )
    return tasks


def split_names(which: str) -> list[str]:
    """Splits names of tasks and config files at commas."""
    # Commas also separate the arguments of a config file; do not split there.
    return re.split(r',(?=[^,=]*(?:\.py|$|,))', which)


def is_config_file(part: str) -> bool:
    """Returns whether ``part`` is a config file, not a task or its class in a file."""
    if not plugins.is_place(part):
        return '.py' in part
    file = pathlib.Path(plugins.split_place(part)[0])
    return not file.is_file() or b'def get_config(' in file.read_bytes()


def training_problems(
    trained_on: Iterable[tuple[TaskConfig, DataConfig] | None],
) -> tuple[frozenset[str], bool]:
    """Computes the content hashes of the problems that runs were trained on.

    Args:
        trained_on: the task of each run; ``None`` for an unknown one.

    Returns:
        The hashes, and whether they are complete.
    """
    hashes: set[str] = set()
    complete = True
    for run_task in trained_on:
        if run_task is None:
            complete = False
            continue
        config, data = run_task
        try:
            task = make_task(config.name, config.params)
            problems = task.source('train', data_dir=data.dir)
        except InputError as error:
            message = 'the problems that the run trained on cannot be read: %s'
            logging.warning(message, error)
            complete = False
        else:
            hashes |= {task.content_hash(problem) for problem in problems}
    return frozenset(hashes), complete


def unseen(
    task: Task, problems: Sequence[Problem], seen: Collection[str]
) -> tuple[Sequence[Problem], dict[str, int]]:
    """Leaves out the problems whose content hashes are in ``seen``.

    Returns:
        The remaining problems, and how many were left out in each category.

    Raises:
        InputError: no problem remains.
    """
    if not seen:
        return problems, {}
    is_seen = [task.content_hash(problem) in seen for problem in problems]
    left_out = list(itertools.compress(problems, is_seen))
    if len(left_out) == len(problems):
        raise InputError(
            f'the run was trained on all of these {len(problems)} problems'
        )
    if left_out:
        message = 'left out %d of %d problems, which the run was trained on'
        logging.warning(message, len(left_out), len(problems))
    unseen_problems = [p for p, skip in zip(problems, is_seen, strict=True) if not skip]
    return unseen_problems, count_categories(left_out)


def errors_of(name: str, task: str = '') -> contextlib.AbstractContextManager[None]:
    """Prefixes errors with the task's name; ``''``, the run's task, adds none.

    Args:
        name: the name in tables and files.
        task: the task's own name, which a class in a file is called by instead.
    """
    label = task if ':' in name and plugins.is_place(task) else name
    return prefixed(f'task {label!r}' if label else '')


def _from_file(path: str) -> tuple[TaskConfig, DataConfig]:
    config = config_file.load(path).to_dict()
    if absent := {'task', 'data'} - config.keys():
        raise InputError(f'{path}: it has no {sorted(absent)}')
    with errors_of(path):
        return (
            checks.build(TaskConfig, config['task'], path='task'),
            checks.build(DataConfig, config['data'], path='data'),
        )


def _from_name(name: str, data: DataConfig) -> tuple[TaskConfig, DataConfig]:
    about = task_class(name).about
    # Few-shot examples and instructions of the run's task do not fit another task.
    data = dataclasses.replace(data, few_shot=(), instruction='task')
    return TaskConfig(name, {**about.example, **about.benchmark}), data
