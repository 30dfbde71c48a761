"""Restores a checkpoint on any mesh; an error is raised on every process."""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax

from passk_jax.errors import InputError
from passk_jax.runs import array_digests, arrays
from passk_jax.runs.commits import (
    Commit,
    CorruptionError,
    is_committed,
    read_commit,
    saved_steps,
)
from passk_jax.runtime import hosts

PyTree = Any
Value = TypeVar('Value')

# NFS with default options shows new files within a minute.
_UNSEEN_SECONDS = 90
_LOOK_AGAIN_SECONDS = 1

# Words in errors that do not concern the data, so that another try may succeed.
_NOT_OF_THE_DATA = (
    'RESOURCE_EXHAUSTED',
    'UNAVAILABLE',
    'DEADLINE_EXCEEDED',
    'PERMISSION_DENIED',
)


def seen_steps(directory: pathlib.Path) -> tuple[int, ...]:
    """Returns the saved steps that process 0 sees; every process must call it."""
    return tuple(hosts.broadcast(lambda: list(saved_steps(directory))))


def choose(directory: pathlib.Path, step: int | None) -> pathlib.Path:
    """Returns the path of ``step``'s checkpoint; ``None``: the newest on process 0."""
    steps = seen_steps(directory)
    if not steps:
        state = 'is empty' if directory.is_dir() else 'does not exist'
        raise InputError(
            f'no checkpoint to restore: {directory} {state}; name the directory of a '
            'run that saved one'
        )
    if step is not None and step not in steps:
        raise InputError(f'no checkpoint of {step=} in {directory}; there is {steps}')
    return directory / str(steps[-1] if step is None else step)


def commit_of(path: pathlib.Path) -> Commit:
    """Returns the commit that process 0 reads; errors as in :func:`restore`.

    Other processes wait until they see the checkpoint too.
    """

    def read() -> dict[str, Any]:
        try:
            return {'damage': '', **dataclasses.asdict(read_commit(path))}
        except CorruptionError as error:
            return {'damage': error.damage}

    shared = hosts.broadcast(read)
    if shared['damage']:
        raise CorruptionError(path, shared['damage'])
    hosts.gather(lambda: _wait_for(path))
    return Commit(shared['meta'], shared['arrays'])


def _wait_for(path: pathlib.Path) -> None:
    """Waits until this process sees a checkpoint that process 0 sees."""
    until = time.monotonic() + _UNSEEN_SECONDS
    while not is_committed(path):
        if time.monotonic() > until:
            raise InputError(
                f'process 0 sees {path}, and process {jax.process_index()} does not: '
                'a run needs a directory that all of its processes see'
            )
        time.sleep(_LOOK_AGAIN_SECONDS)


def restore(
    path: pathlib.Path, targets: Mapping[str, PyTree]
) -> tuple[dict[str, Any], dict[str, PyTree]]:
    """Reads items of a checkpoint; every process of the run must call it.

    Args:
        path: a complete checkpoint.
        targets: the structure of each item; see :meth:`Checkpoints.restore`.

    Returns:
        The caller's JSON, and the items.

    Raises:
        CorruptionError: the checkpoint is damaged.
        ValueError: it does not fit the targets; the message lists every difference.
    """
    commit = commit_of(path)
    flat = {name: arrays.flatten(tree) for name, tree in targets.items()}
    problems = [
        line
        for name, leaves in flat.items()
        for line in _differences(name, commit.arrays.get(name, {}), leaves)
    ]
    if problems:
        raise InputError(
            f'checkpoint {path} does not fit this run (does it hold another model '
            'or dtype?):\n  ' + '\n  '.join(problems)
        )
    restored = _everywhere(path, lambda: _read(path, flat))
    _check_digests(path, commit.arrays, restored)
    items = {}
    for name, tree in targets.items():
        values = [restored[name][key] for key in flat[name]]
        items[name] = jax.tree.unflatten(jax.tree.structure(tree), values)
    return commit.meta, items


def _read(path: pathlib.Path, flat: arrays.Items) -> dict[str, dict[str, Any]]:
    try:
        return arrays.read(path, flat)
    except MemoryError:
        raise
    except Exception as error:
        # Orbax and TensorStore raise ValueError and bare exceptions for damage.
        of_system = isinstance(error, OSError) and not isinstance(
            error, FileNotFoundError
        )
        if of_system or any(word in str(error) for word in _NOT_OF_THE_DATA):
            raise
        message = str(error).partition('\n')[0]
        damage = f'it cannot be read ({type(error).__name__}: {message})'
        raise CorruptionError(path, damage) from error


def _check_digests(
    path: pathlib.Path,
    written: Mapping[str, Mapping[str, str]],
    restored: Mapping[str, Mapping[str, Any]],
) -> None:
    for name, leaves in restored.items():
        described, _ = array_digests.describe(leaves)
        for key, digest in described.items():
            if digest != written[name][key]:
                raise CorruptionError(path, f'{name}: {key} is not what was written')


def _everywhere(path: pathlib.Path, make: Callable[[], Value]) -> Value:
    """Returns the result of ``make``; a CorruptionError of one process ends all."""
    placed: list[Value] = []

    def attempt() -> str:
        try:
            placed.append(make())
        except CorruptionError as error:
            return error.damage
        return ''

    if damage := next(filter(None, hosts.gather(attempt)), None):
        raise CorruptionError(path, damage)
    return placed[0]


def _differences(
    name: str, digests: Mapping[str, str], target: Mapping[str, Any]
) -> list[str]:
    """Returns a line for each array that differs or is on one side only.

    Args:
        name: the item's name.
        digests: path -> digest in the checkpoint, after the array's kind.
        target: path -> target array.
    """
    saved = {key: digest.rpartition(' ')[0] for key, digest in digests.items()}
    expected = {key: array_digests.kind(x) for key, x in target.items()}
    lines = []
    for key in sorted(saved.keys() | expected.keys()):
        if key not in expected:
            lines.append(f'{key} is in the checkpoint only')
        elif key not in saved:
            lines.append(f'{key} is not in the checkpoint')
        elif saved[key] != expected[key]:
            lines.append(
                f'{key} is {saved[key]} in the checkpoint, not {expected[key]}'
            )
    return [f'{name}: {line}' for line in lines]
