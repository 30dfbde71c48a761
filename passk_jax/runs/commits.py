"""Writes and reads the commit of a checkpoint, a small file that completes it.

``<step>/commit.json`` has the caller's JSON and a digest of each array. It is written
last, so a directory without it is incomplete. Nothing is renamed, so a checkpoint may
lie in a mounted bucket, where renaming a directory copies it.
"""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text, read_json

COMMIT = 'commit.json'
# Formats 1 and 2, of no released version, have it instead.
_OLD_COMMIT = 'meta.json'
_FORMAT = 3


@dataclasses.dataclass(frozen=True)
class Commit:
    """The contents of a checkpoint.

    Attributes:
        meta: the caller's JSON object.
        arrays: item -> dotted path of an array -> its digest from
            :func:`~passk_jax.runs.array_digests.describe`.
    """

    meta: dict[str, Any]
    arrays: Mapping[str, Mapping[str, str]]


class CorruptionError(InputError):
    """A checkpoint differs from what was written.

    Attributes:
        path: the checkpoint's directory.
        damage: what is wrong with it.
    """

    def __init__(self, path: pathlib.Path, damage: str):
        intact = [step for step in saved_steps(path.parent) if str(step) != path.name]
        super().__init__(
            f'checkpoint {path} is corrupted: {damage}. Other checkpoints in '
            f'{path.parent}: {intact or "none"}; to use the newest of them, delete '
            f'{path} and start again'
        )
        self.path, self.damage = path, damage


def saved_steps(directory: pathlib.Path) -> tuple[int, ...]:
    """Returns the steps of the complete checkpoints in a directory, ascending."""
    return tuple(
        sorted(int(p.name) for p in step_directories(directory) if is_committed(p))
    )


def step_directories(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the directories of all checkpoints, complete or not."""
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.name.isascii() and path.name.isdigit():
            yield path


def is_committed(path: pathlib.Path) -> bool:
    """Returns whether a checkpoint is complete, in any format; it may be damaged."""
    return any((path / name).is_file() for name in (COMMIT, _OLD_COMMIT))


def write_commit(path: pathlib.Path, commit: Commit) -> None:
    """Writes the commit, after everything else of the checkpoint is on disk."""
    content = {'format': _FORMAT, **dataclasses.asdict(commit)}
    text = {'sha256': _digest(content), **content}
    atomic_write_text(path / COMMIT, json.dumps(text, indent=1) + '\n')


def read_commit(path: pathlib.Path) -> Commit:
    """Reads a commit.

    Raises:
        CorruptionError: the commit is damaged.
        ValueError: this version of the program cannot read the format.
    """
    if not (path / COMMIT).is_file() and (path / _OLD_COMMIT).is_file():
        _check_format(path, 'before 3')
    try:
        content = read_json(path / COMMIT)
        recorded = content.pop('sha256')
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise CorruptionError(path, f'{COMMIT}: {error}') from error
    if recorded != _digest(content):
        raise CorruptionError(path, f'{COMMIT} is not what was written')
    _check_format(path, content['format'])
    return Commit(content['meta'], content['arrays'])


def newest_meta(directory: pathlib.Path) -> tuple[int, dict[str, Any]]:
    """Returns step and caller's JSON of the newest checkpoint with an intact commit.

    A directory without checkpoints gives ``(0, {})``.
    """
    for step in reversed(saved_steps(directory)):
        path = directory / str(step)
        with contextlib.suppress(CorruptionError):
            return step, read_commit(path).meta
    return 0, {}


def identity(path: pathlib.Path) -> str:
    """Returns a digest of a checkpoint's arrays, which it does not read.

    Metrics do not change it. Raises CorruptionError if the commit is damaged.
    """
    return _digest(read_commit(path).arrays)


def add_metrics(path: pathlib.Path, metrics: Mapping[str, float]) -> None:
    """Adds metrics to ``meta['metrics']``."""
    if not metrics:
        return
    commit = read_commit(path)
    recorded_metrics = commit.meta.get('metrics', {})
    if recorded_metrics != recorded_metrics | metrics:
        meta = commit.meta | {'metrics': recorded_metrics | metrics}
        write_commit(path, dataclasses.replace(commit, meta=meta))


def remove(path: pathlib.Path) -> None:
    """Deletes a checkpoint, its commit first, which makes it incomplete."""
    (path / COMMIT).unlink(missing_ok=True)
    shutil.rmtree(path)


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_format(path: pathlib.Path, version: int | str) -> None:
    if version != _FORMAT:
        raise InputError(
            f'checkpoint {path} has format {version}, and this program reads '
            f"{_FORMAT}: train it again, or use the revision in the run's git.json"
        )
