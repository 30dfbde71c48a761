"""Files that are either as they were or as they should be, whenever it stops."""

import os
import pathlib
import tempfile


def atomic_write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file so that no reader and no crash ever sees half of it.

    Args:
        path: replaced if it exists; its directory must exist.
        content: the whole file.

    Raises:
        OSError: the file cannot be written; what was there is untouched.
    """
    path = pathlib.Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f'.{path.name}.')
    try:
        with os.fdopen(descriptor, 'wb') as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes a private file; a run directory is read by others.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        os.unlink(temporary)
        # A full disk is reported without a name.
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(path)
        raise


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    """:func:`atomic_write_bytes` of UTF-8 text."""
    atomic_write_bytes(path, text.encode('utf-8'))
