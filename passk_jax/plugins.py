"""Python files of a user: they are run, and their errors have a file and a line.

A *place* is ``file.py:name``. A configuration has places where it names a task, a
reward or an advantage of a user's own; a relative file starts at the working directory.
Such a file may import the modules that lie beside it. It imports no JAX here.
"""

import contextlib
import functools
import hashlib
import inspect
import os
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from passk_jax.errors import InputError

FORM = 'file.py:name'
_PLACE = re.compile(r'(.+\.py):([^\W\d]\w*)', re.DOTALL)
# The absolute paths of the files that this process has run.
_FILES: set[str] = set()


def is_place(value: object) -> bool:
    """Whether the value is ``file.py:name``."""
    return isinstance(value, str) and _PLACE.fullmatch(value) is not None


def split_place(place: str) -> tuple[str, str]:
    """The file of a place and the name in it; InputError if it has another form."""
    if not (match := _PLACE.fullmatch(place)):
        raise InputError(f'{place!r} must be {FORM}')
    return os.path.expanduser(match[1]), match[2]


def files_in(values: Any) -> list[str]:
    """The files of all places among nested values, each once."""
    return sorted({split_place(value)[0] for value in _texts(values) if is_place(value)})


def _texts(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping | tuple | list):
        items = values.values() if isinstance(values, Mapping) else values
        for item in items:
            yield from _texts(item)


def load(place: str) -> Any:
    """What a place names; the file runs once as long as it does not change.

    Raises:
        InputError: there is no such file, it raises, or it has no such name.
    """
    file, name = split_place(place)
    module = _module(file, os.path.abspath(file), read(file))
    if not hasattr(module, name):
        names = [key for key in vars(module) if not key.startswith('_')]
        raise InputError(f'{file} defines no {name}; it has {names}')
    return getattr(module, name)


def read(file: str) -> bytes:
    """The content of a Python file; InputError if it cannot be read."""
    try:
        return pathlib.Path(file).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f'{file}: no such file') from error
    except OSError as error:
        raise InputError(f'{file}: {error.strerror}') from error


@functools.cache
def _module(file: str, path: str, content: bytes) -> types.ModuleType:
    """Runs the content as a module; ``file`` is the path as the user wrote it."""
    digest = hashlib.sha256(path.encode() + content).hexdigest()
    module = types.ModuleType(f'passk_plugin_{digest[:16]}')
    # Dataclasses and type hints look their module up.
    sys.modules[module.__name__] = module
    with_neighbours(path)
    _FILES.add(path)
    module.__file__ = path
    with errors_of(file):
        exec(compile(content, path, 'exec'), vars(module))
    return module


def with_neighbours(file: str) -> None:
    """Lets a file import the modules beside it, unless others have their names."""
    folder = os.path.dirname(os.path.abspath(file))
    if folder not in sys.path:
        sys.path.append(folder)


@contextlib.contextmanager
def errors_of(file: str, shown: str = '') -> Iterator[None]:
    """Turns any error into an InputError with the file whose code runs, and its line.

    Args:
        file: the path of that file.
        shown: what the message calls it; ``''``: by its path.
    """
    try:
        yield
    # Such a file is a program, which can raise anything, or end.
    except (Exception, SystemExit) as error:
        raise InputError(f'{shown or file}{_what_happened(error, file)}') from error


def _what_happened(error: BaseException, file: str) -> str:
    """The error and the file's line that raised it or led to it, if any."""
    if isinstance(error, InputError):
        return f': {error}'
    path = os.path.abspath(file)
    line = _line(error, [path])
    where = f', line {line[1]}' if line else ''
    return f'{where}: {type(error).__name__}: {error}'


def explained(error: BaseException) -> str | None:
    """File, line and error, if a file that :func:`load` has run raised it or led to it."""
    if line := _line(error, _FILES):
        return f'{_shown(line[0])}, line {line[1]}: {type(error).__name__}: {error}'
    return None


def _line(
    error: BaseException, paths: set[str] | list[str]
) -> tuple[str, int] | None:
    """The last of the error's frames that lies in one of the files."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(frame.filename, frame.lineno) for frame in frames]
    if isinstance(error, SyntaxError):
        lines.append((error.filename, error.lineno))
    lines = [(os.path.abspath(name), line) for name, line in lines if name and line]
    return next((line for line in reversed(lines) if line[0] in paths), None)


def where(definition: Callable[..., Any]) -> str:
    """``file, line N (name)`` of a function or class, for messages."""
    definition = inspect.unwrap(definition)
    name = getattr(definition, '__qualname__', repr(definition))
    try:
        path = inspect.getsourcefile(definition)
        _, line = inspect.findsource(definition)
    except (TypeError, OSError):
        return name
    return f'{_shown(path or "")}, line {line + 1} ({name})'


def _shown(path: str) -> str:
    """The path from the working directory, if it lies there."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
