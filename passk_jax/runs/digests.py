"""Computes SHA-256 digests of files, and checks those in checkpoints of format 2.

In format 2, each ``digests/process_<i>.json`` has the digests of a part of the files.
Any number of processes may share the checking.
"""

import hashlib
import json
import pathlib

from passk_jax.files import read_json

_NAME = 'digests'


def find_damage(path: pathlib.Path, *, process: int, num_processes: int) -> str | None:
    """Describes the first damaged file of a checkpoint; ``None`` if there is none.

    Args:
        path: a checkpoint of format 2.
        process, num_processes: this process's index, and how many processes share the
            files.
    """
    try:
        expected = {}
        for file in sorted((path / _NAME).iterdir()):
            expected |= read_json(file)
        files = {file.relative_to(path).as_posix(): file for file in _files(path)}
        if missing := sorted(expected.keys() - files.keys()):
            return f'{missing[0]} is missing'
        if not expected or files.keys() - expected.keys():
            return 'its digests are incomplete'
        for name in sorted(files)[process::num_processes]:
            if digest(files[name]) != expected[name]:
                return f'{name} is not what was written'
    except (OSError, ValueError, TypeError) as error:
        return f'its digests cannot be read ({error})'
    return None


def combined(path: pathlib.Path) -> str:
    """Returns one digest of all recorded digests of a checkpoint."""
    digests = {}
    for file in (path / _NAME).glob('*.json'):
        digests |= read_json(file)
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns all files except digests, in the same order on every process."""
    files = (file for file in path.rglob('*') if file.is_file())
    return sorted(f for f in files if f.relative_to(path).parts[0] != _NAME)


def digest(file: pathlib.Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal."""
    with file.open('rb') as stream:
        return hashlib.file_digest(stream, 'sha256').hexdigest()
