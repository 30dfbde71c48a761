"""Prepares and locks a run directory, and checks its config against this run's.

Call :func:`prepare_workdir` before using a device. A run directory contains:

    config.json                the resolved config
    git.json                   the code's revision, and the processor
    sources.json               digests of the model's configuration and tokenizer, and
                               of the user's Python files
    initial.json               the checkpoint of another run that this one starts from
    git.diff                   the uncommitted changes to that revision, if any
    digests.jsonl              SHA-256 of each file of rollouts/ and evaluation/
    diagnostics.jsonl          gradients and responses of diagnosed steps
    metrics.jsonl              metrics without timings; equal runs write equal bytes
    timing.jsonl               seconds and tokens per second
    profile/                   the profiler's trace, if one was asked for
    frozen/                    the parameters that no step changes
    reference/                 the reference policy of a KL penalty, except frozen/
    tensorboard/, rollouts/, evaluation/, checkpoints/, warm_start/, tokenizer/
    curves.png, report.html
"""

import contextlib
import functools
import hashlib
import json
import operator
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import filelock
import jax
from absl import logging

from passk_jax.config import flatten, with_new_options
from passk_jax.errors import InputError, prefixed
from passk_jax.files import (
    NO_BUCKET,
    atomic_write_bytes,
    atomic_write_text,
    read_json,
    remove_unfinished,
)
from passk_jax.runtime.cores import processor

_MIN_FREE_BYTES = 64 << 20
_MAX_DIFF_BYTES = 1 << 20
_SHOWN_DIFFERENCES = 20
NOTHING_GROWS: Mapping[str, str] = {}
_FILES = (
    *('config.json', 'git.json', 'git.diff', 'sources.json', 'initial.json'),
    *('metrics.jsonl', 'timing.jsonl', 'diagnostics.jsonl', 'digests.jsonl'),
)
_FOLDERS = (
    *('checkpoints', 'evaluation', 'frozen', 'profile', 'reference', 'rollouts'),
    *('tensorboard', 'tokenizer', 'warm_start'),
)


@contextlib.contextmanager
def prepare_workdir(
    workdir: str | os.PathLike[str],
    config_json: str,
    *,
    may_differ: Sequence[str] = (),
    may_grow: Mapping[str, str] = NOTHING_GROWS,
    missing: Callable[[pathlib.Path], Sequence[str]] = lambda path: (),
    accept_loss: bool = False,
    min_free_bytes: int = _MIN_FREE_BYTES,
) -> Iterator[pathlib.Path]:
    """Creates or reopens a run directory, and locks it against other runs.

    Args:
        workdir: a local or mounted directory.
        config_json: the resolved config, a JSON object.
        may_differ: dotted keys, or prefixes that end in ``'.'``, that a resumed run may
            change, because they decide where it runs, not what it computes.
        may_grow: dotted keys of numbers that a resumed run may increase -> ``''``, or
            the reason why this run may not.
        missing: returns which other files of a run are absent from the directory.
        accept_loss: whether to resume, with a warning, although files are missing.
        min_free_bytes: the least free disk space to start with.

    Yields:
        The absolute path.

    Raises:
        ValueError: the directory cannot be created or written, the disk is full,
            another process uses the directory, it lies inside another run's, it belongs
            to a run with another config, or it has lost files.
    """
    if '://' in os.fspath(workdir):
        raise InputError(f'{workdir=} {NO_BUCKET}')
    path = pathlib.Path(workdir).expanduser().absolute()
    with prefixed(f'workdir {path} cannot be created or written', OSError):
        _check_place(path)
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b'?')
        free = shutil.disk_usage(path).free
    if free < min_free_bytes:
        raise InputError(
            f'workdir {path} has {free / 2**20:.0f} MiB left on its disk, less than '
            f'{min_free_bytes / 2**20:.0f} MiB: free space or choose another workdir'
        )
    config = json.loads(config_json)
    with _locked(path) if jax.process_index() == 0 else contextlib.nullcontext():
        if has_begun(path):
            check_config(path / 'config.json', config, may_differ, may_grow)
            # Other processes may not see the newest files yet.
            if jax.process_index() == 0:
                _check_whole(path, missing(path), accept_loss=accept_loss)
        if jax.process_index() == 0:
            with prefixed(f'workdir {path} cannot be written', OSError):
                for directory in (path, path / 'rollouts', path / 'evaluation'):
                    remove_unfinished(directory)
                _write_once(path, config_json)
                _grow(path / 'config.json', config, may_grow)
        yield path


def _check_place(path: pathlib.Path) -> None:
    """Raises InputError for paths of the wrong kind, or a place inside another run."""
    for folder in (path / name for name in _FOLDERS):
        if folder.exists() and not folder.is_dir():
            raise InputError(f'{folder} is in the way: a run makes a directory of it')
    for file in (path / name for name in _FILES):
        # Reading a pipe would block.
        if file.exists() and not file.is_file():
            raise InputError(f'{file} is in the way: a run makes a file of it')
    for above in {*path.parents, *path.resolve().parents}:
        if (above / 'config.json').is_file() and (
            (above / 'git.json').is_file() or has_begun(above)
        ):
            raise InputError(
                f'workdir {path} lies inside the run in {above}: choose another workdir'
            )


def git_state(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the revision of the code in ``directory``.

    Returns:
        ``revision`` (hash), ``dirty`` (bool) and ``diff_sha256`` (of the changes to
        tracked files; ``None`` without changes). Outside git, they come from the
        ``git.json`` beside the directory, which ``launch_tpu.sh`` sends with the code;
        without it, all are ``None``.
    """
    revision = _git(directory, 'rev-parse', 'HEAD')
    # A virtual environment may lie inside a repository that does not track it.
    if revision is None or not _git(directory, 'ls-files', '.'):
        nothing = {'revision': None, 'dirty': None, 'diff_sha256': None}
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sent = read_json(_beside(directory, 'git.json'))
            return {name: sent.get(name) for name in nothing}
        return nothing
    status = _git(directory, 'status', '--porcelain')
    diff = git_diff(directory)
    return {
        'revision': revision.decode().strip(),
        'dirty': bool(status),
        'diff_sha256': hashlib.sha256(diff).hexdigest() if diff else None,
    }


def git_diff(directory: str | os.PathLike[str]) -> bytes:
    """Returns the changes to tracked files since the revision, for ``git apply``."""
    options = ('--binary', '--no-ext-diff', '--no-color')
    if (diff := _git(directory, 'diff', *options, 'HEAD')) is None:
        with contextlib.suppress(OSError):
            return _beside(directory, 'git.diff').read_bytes()
    return diff or b''


def _beside(directory: str | os.PathLike[str], name: str) -> pathlib.Path:
    return pathlib.Path(directory).absolute().parent / name


def _git(directory: str | os.PathLike[str], *arguments: str) -> bytes | None:
    try:
        return subprocess.run(
            ['git', '-C', os.fspath(directory), *arguments],
            capture_output=True,
            check=True,
            timeout=30,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Locks the directory; the kernel releases the lock if the process dies."""
    holder = path / '.lock_holder.json'
    lock = filelock.FileLock(path / '.lock')
    with prefixed(f'workdir {path} cannot be written', OSError):
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout as error:
            who = 'another process'
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                holder_info = read_json(holder)
                who = f'process {holder_info["pid"]} on {holder_info["host"]}'
            raise InputError(
                f'workdir {path} is in use by {who}: stop it or choose another workdir'
            ) from error
    try:
        with prefixed(f'workdir {path} cannot be written', OSError):
            me = {'pid': os.getpid(), 'host': socket.gethostname()}
            atomic_write_text(holder, json.dumps(me) + '\n')
        yield
    finally:
        # An error here must not hide the one that ended the run.
        with contextlib.suppress(OSError):
            holder.unlink()
        lock.release()


def has_begun(path: pathlib.Path) -> bool:
    """Returns whether a run has metrics or a checkpoint, so that its config is fixed.

    Some errors, such as an overlong prompt or a missing checkpoint, occur after the
    config is written, and only another config solves them.
    """
    checkpoints = (path / 'checkpoints').glob('[0-9]*')
    return (path / 'metrics.jsonl').exists() or any(checkpoints)


def check_config(
    path: pathlib.Path,
    config: Mapping[str, Any],
    may_differ: Sequence[str],
    may_grow: Mapping[str, str] = NOTHING_GROWS,
) -> None:
    """Checks a config against the one that the directory's run started with.

    Args:
        path: the saved config; nothing is checked if it is absent.
        config: the resolved config.
        may_differ, may_grow: as in :func:`prepare_workdir`.

    Raises:
        ValueError: the saved config is damaged, or other keys differ.
    """
    if not path.exists():
        return
    try:
        saved = read_json(path)
        if not isinstance(saved, dict):
            raise ValueError(f'it is a {type(saved).__name__}')
        grown = _grown(saved, config, may_grow)
        differences = config_differences(saved, config, (*may_differ, *grown))
    except ValueError as error:
        message = f'{path} is not a config ({error}): choose another workdir'
        raise InputError(message) from error
    for key, (old, new) in grown.items():
        if may_grow[key] and not differences:
            raise InputError(
                f'{key}={new} would make the run in {path.parent} longer than its '
                f'{old}, but {may_grow[key]}: choose another workdir'
            )
    shrunk = _grown(config, saved, may_grow)
    if differences and not config_differences(saved, config, (*may_differ, *shrunk)):
        key, (new, old) = next(iter(shrunk.items()))
        raise InputError(
            f'{key}={new} is less than the {old} of the run in {path.parent}, and a '
            f'run can only grow: set at least {old}, or choose another workdir'
        )
    if differences:
        raise InputError(
            f'workdir {path.parent} belongs to a run with another config; choose '
            f'another workdir. These keys differ:{differences}'
        )


def _grown(
    saved: Mapping[str, Any], config: Mapping[str, Any], may_grow: Mapping[str, str]
) -> dict[str, tuple[int, int]]:
    """Returns the keys of ``may_grow`` whose number grew -> (old, new)."""
    before, now = flatten(saved), flatten(config)
    pairs = {key: (before.get(key), now.get(key)) for key in may_grow}
    return {
        key: (old, new)
        for key, (old, new) in pairs.items()
        if type(old) is int and type(new) is int and old < new
    }


def _grow(
    path: pathlib.Path, config: Mapping[str, Any], may_grow: Mapping[str, str]
) -> None:
    """Writes the numbers that grew to the saved config."""
    saved = read_json(path)
    for key, (old, new) in (grown := _grown(saved, config, may_grow)).items():
        section, _, name = key.rpartition('.')
        values = functools.reduce(operator.getitem, section.split('.'), saved)
        values[name] = new
        logging.info('%s was %d and is %d from now on', key, old, new)
    if grown:
        atomic_write_text(path, json.dumps(saved, indent=2) + '\n')


def config_differences(
    saved: Mapping[str, Any], config: Mapping[str, Any], may_differ: Sequence[str]
) -> str:
    """Returns an indented line for each key that differs; ``''`` if none does.

    Args:
        saved: a resolved config, which may lack newer options.
        config: the current resolved config.
        may_differ: as in :func:`prepare_workdir`.
    """
    before, now = (
        {key: json.dumps(value) for key, value in flatten(values).items()}
        for values in map(with_new_options, (saved, config))
    )
    prefixes = tuple(key for key in may_differ if key.endswith('.'))
    lines = [
        f'{key}: {old} there, {new} now'
        for key in sorted(before.keys() | now.keys())
        if (old := before.get(key, 'absent')) != (new := now.get(key, 'absent'))
        and not (key in may_differ or key.startswith(prefixes))
    ]
    if (more := len(lines) - _SHOWN_DIFFERENCES) > 0:
        lines = [*lines[:_SHOWN_DIFFERENCES], f'and {more} more']
    return ''.join(f'\n  {line}' for line in lines)


def _check_whole(
    path: pathlib.Path, missing: Sequence[str], *, accept_loss: bool
) -> None:
    """Raises InputError if the run has lost files, or warns if ``accept_loss``."""
    lost = [] if (path / 'config.json').exists() else ['config.json']
    lost += [] if _began_with(path) else ['git.json']
    if lost := [*lost, *missing]:
        message = f'workdir {path} lacks what its run wrote: {"; ".join(lost)}'
        if not accept_loss:
            raise InputError(
                f'{message}. Restore it, or go on without it by --accept_loss'
            )
        logging.warning('%s. The run goes on without it', message)


def _began_with(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns the content of git.json; ``None`` if it is absent or damaged."""
    try:
        recorded = read_json(path / 'git.json')
    except (OSError, ValueError):
        return None
    return recorded if isinstance(recorded, dict) else None


def _write_once(path: pathlib.Path, config_json: str) -> None:
    code = pathlib.Path(__file__).parents[1]
    git, begun = git_state(code) | {'processor': processor()}, has_begun(path)
    if begun and (began := _began_with(path)):
        # Older runs did not record their processor.
        differing = [name for name in began if began[name] != git.get(name)]
        if differing:
            logging.warning(
                'the run started with %s; this is %s. Its last bits may differ from '
                'those of an uninterrupted run',
                *({name: x.get(name) for name in differing} for x in (began, git)),
            )
    else:
        atomic_write_text(path / 'git.json', json.dumps(git, indent=2) + '\n')
        _write_diff(path / 'git.diff', git_diff(code) if git['diff_sha256'] else b'')
    if not (begun and (path / 'config.json').exists()):
        atomic_write_text(path / 'config.json', config_json)


def _write_diff(path: pathlib.Path, diff: bytes) -> None:
    """Writes the diff; cuts a very long one and notes that in the last line."""
    if not diff:
        path.unlink(missing_ok=True)
        return
    if len(diff) > _MAX_DIFF_BYTES:
        logging.warning('%s is cut: the diff has %d bytes', path, len(diff))
        end = f'\n[cut here: {_MAX_DIFF_BYTES} of {len(diff)} bytes]\n'
        diff = diff[:_MAX_DIFF_BYTES] + end.encode()
    atomic_write_bytes(path, diff)
