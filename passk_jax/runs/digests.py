"""SHA-256 of a directory's files, written beside them and checked before reading.

The processes of a run share the work: each digests its part of the files and writes
``digests/process_<i>.json``. A different number of processes may check them.
"""

import hashlib
import json
import pathlib

from passk_jax.files import atomic_write_text

_NAME = 'digests'


def write_digests(path: pathlib.Path, *, process: int, num_processes: int) -> None:
    """Digests this process's share of the files below ``path``.

    Args:
        path: a directory to which every process has finished writing.
        process: index of this process, less than ``num_processes``.
    """
    digests = {
        file.relative_to(path).as_posix(): digest(file)
        for file in _files(path)[process::num_processes]
    }
    (path / _NAME).mkdir(exist_ok=True)
    text = json.dumps(digests, indent=0) + '\n'
    atomic_write_text(path / _NAME / f'process_{process}.json', text)


def find_damage(path: pathlib.Path, *, process: int, num_processes: int) -> str | None:
    """Says which file differs from what was written; ``None`` if none does.

    Args: as in :func:`write_digests`; this process reads its share of the files.
    """
    try:
        expected = {}
        for file in sorted((path / _NAME).iterdir()):
            expected |= json.loads(file.read_text())
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
    """One digest of all files below ``path``; of none if nothing was written."""
    digests = {}
    for file in (path / _NAME).glob('*.json'):
        digests |= json.loads(file.read_text())
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _files(path: pathlib.Path) -> list[pathlib.Path]:
    """Every file but the digests, in the same order on every process."""
    files = (file for file in path.rglob('*') if file.is_file())
    return sorted(f for f in files if f.relative_to(path).parts[0] != _NAME)


def digest(file: pathlib.Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with file.open('rb') as stream:
        return hashlib.file_digest(stream, 'sha256').hexdigest()
