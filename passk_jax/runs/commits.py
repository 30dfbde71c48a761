"""Writes and reads the commit of a checkpoint, a small file that completes it.

``<step>/commit.json`` has the caller's JSON and a digest of each array. It is written
last, so a directory without it is incomplete. Nothing is renamed, so a checkpoint may
lie in a mounted bucket, where renaming a directory copies it.

Format 2, which can still be read, was committed by renaming its directory. There
``meta.json`` has the caller's JSON, and ``digests/`` the SHA-256 of each file.
"""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from passk_jax.errors import InputError
from passk_jax.files import atomic_write_text, read_json
from passk_jax.runs import digests

COMMIT = 'commit.json'
_COMMIT_OF_FORMAT_2 = 'meta.json'
_FORMAT = 3


@dataclasses.dataclass(frozen=True)
class Commit:
    """The contents of a checkpoint.

    Attributes:
        meta: the caller's JSON object.
        arrays: item -> dotted path of an array -> its digest from
            :func:`~passk_jax.runs.array_digests.describe`; ``None`` in format 2, which
            has digests of files.
    """

    meta: dict[str, Any]
    arrays: Mapping[str, Mapping[str, str]] | None


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
    return any((path / name).is_file() for name in (COMMIT, _COMMIT_OF_FORMAT_2))


def write_commit(path: pathlib.Path, commit: Commit) -> None:
    """Writes the commit, after everything else of the checkpoint is on disk."""
    content = {'format': _FORMAT, **dataclasses.asdict(commit)}
    text = {'sha256': _digest(content), **content}
    atomic_write_text(path / COMMIT, json.dumps(text, indent=1) + '\n')


def read_commit(path: pathlib.Path) -> Commit:
    """Reads a commit; in format 2, first checks this process's share of the files.

    Raises:
        CorruptionError: the commit, or a file checked in format 2, is damaged.
        ValueError: this version of the program cannot read the format.
    """
    if (path / COMMIT).is_file():
        try:
            content = read_json(path / COMMIT)
            recorded = content.pop('sha256')
        except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise CorruptionError(path, f'{COMMIT}: {error}') from error
        if recorded != _digest(content):
            raise CorruptionError(path, f'{COMMIT} is not what was written')
        _check_format(path, content['format'], {_FORMAT})
        return Commit(content['meta'], content['arrays'])
    damage = digests.find_damage(
        path, process=jax.process_index(), num_processes=jax.process_count()
    )
    if damage is not None:
        raise CorruptionError(path, damage)
    content = read_json(path / _COMMIT_OF_FORMAT_2)
    _check_format(path, content['format'], {2})
    return Commit(content['meta'], None)


def newest_meta(directory: pathlib.Path) -> tuple[int, dict[str, Any]]:
    """Returns step and caller's JSON of the newest checkpoint with an intact commit.

    The JSON is ``{}`` for format 2. A directory without checkpoints gives ``(0, {})``.
    """
    for step in reversed(saved_steps(directory)):
        path = directory / str(step)
        with contextlib.suppress(CorruptionError):
            return step, read_commit(path).meta if (path / COMMIT).is_file() else {}
    return 0, {}


def identity(path: pathlib.Path) -> str:
    """Returns a digest of a checkpoint's arrays, or of its files in format 2.

    Metrics do not change it. Raises CorruptionError if the commit is damaged; does not
    read the arrays.
    """
    arrays = read_commit(path).arrays if (path / COMMIT).is_file() else None
    return digests.combined(path) if arrays is None else _digest(arrays)


def add_metrics(path: pathlib.Path, metrics: Mapping[str, float]) -> None:
    """Adds metrics to ``meta['metrics']``, except in format 2, which has none."""
    if not metrics or not (path / COMMIT).is_file():
        return
    commit = read_commit(path)
    recorded_metrics = commit.meta.get('metrics', {})
    if recorded_metrics != recorded_metrics | metrics:
        meta = commit.meta | {'metrics': recorded_metrics | metrics}
        write_commit(path, dataclasses.replace(commit, meta=meta))


def remove(path: pathlib.Path) -> None:
    """Deletes a checkpoint, its commit first, which makes it incomplete."""
    for name in (COMMIT, _COMMIT_OF_FORMAT_2):
        (path / name).unlink(missing_ok=True)
    shutil.rmtree(path)


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_format(path: pathlib.Path, version: int, readable: set[int]) -> None:
    if version not in readable:
        raise InputError(
            f'checkpoint {path} has format {version}, and this program reads 2 and '
            f'{_FORMAT} (1 was written before layers were stacked): train it again, '
            "or use the revision in the run's git.json"
        )
