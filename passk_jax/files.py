"""Atomic writes: a file is always whole, the old one or the new one."""

import os
import pathlib
import tempfile


def atomic_write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file so that no reader ever sees half of it, even after a crash.

    Args:
        path: replaced if it exists; its directory must exist.
        content: the whole file.

    Raises:
        OSError: the file cannot be written; an old file stays as it was.
    """
    path = pathlib.Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f'.{path.name}.')
    try:
        with os.fdopen(descriptor, 'wb') as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes a private file, but other users read run directories.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        os.unlink(temporary)
        # The error of a full disk does not name the file.
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(path)
        raise


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes text as UTF-8; see :func:`atomic_write_bytes`."""
    atomic_write_bytes(path, text.encode('utf-8'))
