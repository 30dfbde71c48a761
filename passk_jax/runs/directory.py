"""The directory of a run: who may write it, with which config, from which code.

:func:`prepare_workdir` is called before devices are used. What is in a run directory:

    config.json, git.json      as resolved, and the code's revision, as it began
    git.diff                   what was changed since that revision, if anything was
    metrics.jsonl              values only, bit for bit the same in every run
    timing.jsonl               seconds and tokens a second
    tensorboard/, rollouts/, evaluation/, checkpoints/, warm_start/, tokenizer/
    curves.png, report.html
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import filelock
import jax
from absl import logging

from passk_jax.config import flatten, with_new_options
from passk_jax.errors import InputError
from passk_jax.files import atomic_write_bytes, atomic_write_text

_MIN_FREE_BYTES = 64 << 20
_MAX_DIFF_BYTES = 1 << 20
_SHOWN_DIFFERENCES = 20


@contextlib.contextmanager
def prepare_workdir(
    workdir: str | os.PathLike[str],
    config_json: str,
    *,
    may_differ: Sequence[str] = (),
    min_free_bytes: int = _MIN_FREE_BYTES,
) -> Iterator[pathlib.Path]:
    """Makes or takes up a run directory, and keeps other runs out while inside.

    Args:
        workdir: a local or mounted directory.
        config_json: the resolved config, a JSON object.
        may_differ: dotted keys, or prefixes that end in ``'.'``, in which a resumed
            run may differ from the one that began (where it runs, not what it does).
        min_free_bytes: refuse to begin with less room than this.

    Yields:
        The absolute path.

    Raises:
        ValueError: it cannot be made or written, the disk is full, another process
            runs in it, or a run of another config began in it.
    """
    if '://' in os.fspath(workdir):
        raise InputError(
            f'{workdir=} must be a directory: mount the bucket and name it'
        )
    path = pathlib.Path(workdir).expanduser().absolute()
    with _as_value_error(f'workdir {path} cannot be made or written'):
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b'?')
        free = shutil.disk_usage(path).free
    if free < min_free_bytes:
        raise InputError(
            f'workdir {path} has {free / 2**20:.0f} MiB left on its disk, less than '
            f'{min_free_bytes / 2**20:.0f} MiB: make room or choose another workdir'
        )
    with _locked(path) if jax.process_index() == 0 else contextlib.nullcontext():
        if _has_begun(path):
            _check_config(path / 'config.json', json.loads(config_json), may_differ)
        if jax.process_index() == 0:
            with _as_value_error(f'workdir {path} cannot be written'):
                _write_once(path, config_json)
        yield path


def git_state(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The revision of the code in ``directory``; nulls if it is not under git.

    Returns:
        ``revision`` (hash), ``dirty`` (bool) and ``diff_sha256`` (of the changes to
        tracked files, ``None`` if there are none).
    """
    revision = _git(directory, 'rev-parse', 'HEAD')
    # A virtual environment inside somebody's repository is not that repository's code.
    if revision is None or not _git(directory, 'ls-files', '.'):
        return {'revision': None, 'dirty': None, 'diff_sha256': None}
    status = _git(directory, 'status', '--porcelain')
    diff = git_diff(directory)
    return {
        'revision': revision.decode().strip(),
        'dirty': bool(status),
        'diff_sha256': hashlib.sha256(diff).hexdigest() if diff else None,
    }


def git_diff(directory: str | os.PathLike[str]) -> bytes:
    """Changes to tracked files since the revision, such as ``git apply`` takes."""
    options = ('--binary', '--no-ext-diff', '--no-color')
    return _git(directory, 'diff', *options, 'HEAD') or b''


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
    """Holds the directory; the kernel lets go of it when the process dies."""
    holder = path / '.lock_holder.json'
    lock = filelock.FileLock(path / '.lock')
    try:
        with _as_value_error(f'workdir {path} cannot be written'):
            lock.acquire(timeout=0)
    except filelock.Timeout as error:
        try:
            who = json.loads(holder.read_text())
            who = f'process {who["pid"]} on {who["host"]}'
        except (OSError, ValueError, KeyError):
            who = 'another process'
        raise InputError(
            f'workdir {path} is in use by {who}: stop it or choose another workdir'
        ) from error
    try:
        with _as_value_error(f'workdir {path} cannot be written'):
            me = {'pid': os.getpid(), 'host': socket.gethostname()}
            atomic_write_text(holder, json.dumps(me) + '\n')
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _has_begun(path: pathlib.Path) -> bool:
    """Whether a run got as far as its first metrics; before, its config may change.

    A prompt that is too long or a checkpoint that is not there is found after the
    config is written, and what mends it is another config.
    """
    checkpoints = (path / 'checkpoints').glob('[0-9]*')
    return (path / 'metrics.jsonl').exists() or any(checkpoints)


def _check_config(
    path: pathlib.Path, config: Mapping[str, Any], may_differ: Sequence[str]
) -> None:
    """Compares with the config that the directory's run began with."""
    if not path.exists():
        return
    try:
        saved = with_new_options(json.loads(path.read_text()))
        before, now = flatten(saved), flatten(config)
    except ValueError as error:
        raise InputError(
            f'{path} is not a config ({error}): choose another workdir'
        ) from error
    lines = [
        f'{key}: {_shown(before, key)} there, {_shown(now, key)} now'
        for key in sorted(before.keys() | now.keys())
        if _shown(before, key) != _shown(now, key)
        and not any(
            key.startswith(allowed) if allowed.endswith('.') else key == allowed
            for allowed in may_differ
        )
    ]
    if len(lines) > _SHOWN_DIFFERENCES:
        more = len(lines) - _SHOWN_DIFFERENCES
        lines = [*lines[:_SHOWN_DIFFERENCES], f'and {more} more']
    if lines:
        raise InputError(
            f'workdir {path.parent} belongs to a run of another config; choose another '
            'workdir. Different are:\n  ' + '\n  '.join(lines)
        )


def _shown(flat: Mapping[str, Any], key: str) -> str:
    return json.dumps(flat[key]) if key in flat else 'absent'


def _write_once(path: pathlib.Path, config_json: str) -> None:
    code = pathlib.Path(__file__).parents[1]
    git, begun = git_state(code), _has_begun(path)
    if begun and (path / 'git.json').exists():
        began = json.loads((path / 'git.json').read_text())
        if began != git:
            logging.warning('the run began with code %s; this is %s', began, git)
    else:
        atomic_write_text(path / 'git.json', json.dumps(git, indent=2) + '\n')
        _write_diff(path / 'git.diff', git_diff(code) if git['diff_sha256'] else b'')
    if not (begun and (path / 'config.json').exists()):
        atomic_write_text(path / 'config.json', config_json)


def _write_diff(path: pathlib.Path, diff: bytes) -> None:
    """Writes the diff, or as much of it as is reasonable with a last line to say so."""
    if not diff:
        path.unlink(missing_ok=True)
        return
    if len(diff) > _MAX_DIFF_BYTES:
        logging.warning('%s is cut: the diff has %d bytes', path, len(diff))
        end = f'\n[cut here: {_MAX_DIFF_BYTES} of {len(diff)} bytes]\n'
        diff = diff[:_MAX_DIFF_BYTES] + end.encode()
    atomic_write_bytes(path, diff)


@contextlib.contextmanager
def _as_value_error(what: str) -> Iterator[None]:
    try:
        yield
    except filelock.Timeout:
        raise
    except OSError as error:
        raise InputError(f'{what}: {error}') from error
