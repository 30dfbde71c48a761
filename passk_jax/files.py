"""Atomic file writes (readers see the old file or the new one), and JSON."""

import contextlib
import errno
import json
import os
import pathlib
import re
import stat
import sys
import tempfile
from collections.abc import Collection, Iterable
from typing import Any

from absl import logging

# The end of a file's name while it is written; tempfile chooses the start.
_UNFINISHED = '.unfinished'
_TEMPORARY = re.compile(r'\.(.+)\.[a-z0-9_]{8}' + re.escape(_UNFINISHED))
_BUCKET = re.compile(r'(?:^|[,=])\s*(?:gs|gcs|s3[an]?|az|abfss?|wasbs?|oss|r2|file)://')
NO_BUCKET = (
    'must be a path of this machine: a run locks, renames and syncs its files, which '
    'no bucket can do; write to a disk and copy it afterwards (gcloud storage cp -r, '
    'aws s3 sync), or mount the bucket (gcsfuse)'
)
"""The message for a path that is a bucket's address."""

# Limits of a JSON file: the deepest nesting and the most values.
_MOST_DEEP, _MOST_VALUES = 100, 10**7


def atomic_write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file atomically, even if the process crashes.

    A symbolic link stays: its target is replaced. Devices and pipes are written
    directly, as a shell does. So is a file that the output of this process goes to,
    as ``/dev/stdout`` may be: what it already has stays.

    Args:
        path: the file, replaced if it exists; its directory must exist.
        content: the whole content.

    Raises:
        OSError: the file cannot be written; an old file stays as it was.
    """
    path = pathlib.Path(path)
    if stream := _standard_stream(path):
        _write_to(stream, content)
        return
    if not _replaceable(path):
        path.write_bytes(content)
        return
    path = pathlib.Path(os.path.realpath(path))
    descriptor, temporary = tempfile.mkstemp(
        _UNFINISHED, f'.{path.name}.', dir=path.parent
    )
    try:
        with os.fdopen(descriptor, 'wb') as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        let_others_read(temporary, 0o666)
        os.replace(temporary, path)
    except BaseException as error:
        # An error here must not hide the first one.
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        # The error of a full disk lacks the file name.
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(path)
        raise


def let_others_read(path: str | os.PathLike[str], mode: int) -> None:
    """Gives a private file or directory of ``tempfile`` the usual permissions."""
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(path, mode & ~umask)


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes text as UTF-8 by :func:`atomic_write_bytes`."""
    atomic_write_bytes(path, text.encode('utf-8'))


def json_lines(rows: Iterable[Any]) -> bytes:
    r"""Formats values as lines of JSON in UTF-8.

    Half of a surrogate pair, which UTF-8 cannot have, becomes JSON's escape.

    >>> json_lines(['é', '\ud800'])
    b'"\xc3\xa9"\n"\\ud800"\n'
    """
    text = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)
    return text.encode('utf-8', 'backslashreplace')


def remove_unfinished(
    directory: str | os.PathLike[str], names: Collection[str] | None = None
) -> None:
    """Removes unfinished files of killed processes from a directory.

    No process may be writing there. A missing directory counts as empty.

    Args:
        directory: the directory; other files in it stay.
        names: names of the files being written; ``None`` matches any name.
    """
    for path in pathlib.Path(directory).glob('.*'):
        match = _TEMPORARY.fullmatch(path.name)
        if not match or (names is not None and match[1] not in names):
            continue
        if path.is_file() and not path.is_symlink():
            logging.info('removing an unfinished file: %s', path)
            path.unlink()


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises OSError if a file of this name could not be written; changes nothing."""
    if _replaceable(path := pathlib.Path(path)):
        above = os.path.dirname(os.path.realpath(path))
        try:
            tempfile.TemporaryFile(dir=above).close()
        except OSError as error:
            # Name the caller's file, not the temporary one.
            error.filename = os.fspath(path)
            raise
    elif path.is_dir() or not os.access(path, os.W_OK):
        code = errno.EISDIR if path.is_dir() else errno.EACCES
        raise OSError(code, os.strerror(code), os.fspath(path))


def _replaceable(path: pathlib.Path) -> bool:
    """Returns whether the path is free or a regular file."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


def _standard_stream(path: pathlib.Path) -> int:
    """Returns 1 or 2, the output of this process that goes to a file, or 0."""
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(stream)):
                return stream
    return 0


def _write_to(stream: int, content: bytes) -> None:
    """Writes where an output of this process stands, after what it has printed."""
    printed = sys.stdout if stream == 1 else sys.stderr
    if printed is not None:
        printed.flush()
    with os.fdopen(os.dup(stream), 'wb') as output:
        output.write(content)


def is_bucket(value: Any) -> bool:
    """Returns whether a value is, or contains, the address of a bucket.

    ``hf://`` and ``tfds://`` do not count, because tasks read these themselves.

    >>> [is_bucket(x) for x in ('gs://a/b', ['c', 'a=s3://b'], 'hf://datasets/a', 'gs')]
    [True, True, False, False]
    """
    if isinstance(value, str):
        return _BUCKET.search(value) is not None
    if hasattr(value, 'values'):
        value = list(value.values())
    return isinstance(value, list | tuple) and any(map(is_bucket, value))


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a JSON file that a person may have changed.

    Raises:
        ValueError: it is not JSON in UTF-8, is nested too deep, or is no regular file;
            a pipe could block.
        OSError: it cannot be read.
    """
    path = pathlib.Path(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError('it is no regular file')
    value = parse_json(path.read_text(encoding='utf-8'))
    check_nesting(value)
    return value


def parse_json(text: str | bytes) -> Any:
    """Parses JSON; raises ValueError if it is invalid or nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError('it is nested too deep') from None


def check_nesting(value: Any) -> None:
    """Raises ValueError for a value that is too large, too deep or contains itself.

    Args:
        value: mappings (whatever has ``values()``), lists and tuples of anything.
    """
    level, count = [value], 0
    for _ in range(_MOST_DEEP):
        sections = [
            x if isinstance(x, list | tuple) else list(x.values())
            for x in level
            if isinstance(x, list | tuple) or hasattr(x, 'values')
        ]
        count += sum(map(len, sections))
        if count > _MOST_VALUES:
            break
        if not (level := [value for section in sections for value in section]):
            return
    raise ValueError(
        f'it contains itself, is nested more than {_MOST_DEEP} deep, or has more than '
        f'{_MOST_VALUES} values'
    )
