"""Python files of a user: runs them, and gives their errors a file and a line.

A *place* is ``file.py:name``. A configuration uses places to name a user's task, reward
or advantage. A relative path starts at the working directory. A process runs such a
file once, so a run keeps the code that it started with. The file may import modules
from its directory.
"""

import contextlib
import hashlib
import inspect
import os
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from passk_jax.errors import InputError

FORM = 'file.py:name'
_PLACE = re.compile(r'(.+\.py):([^\W\d]\w*)', re.DOTALL)
# Absolute path of each file that this process has run -> the digest of its content.
_DIGESTS: dict[str, str] = {}
# The same path -> the module, if it ran to its end.
_MODULES: dict[str, types.ModuleType] = {}


def is_place(value: object) -> bool:
    """Returns whether the value is a place, ``file.py:name``."""
    return isinstance(value, str) and _PLACE.fullmatch(value) is not None


def split_place(place: str) -> tuple[str, str]:
    """Splits a place into file and name; InputError if it has another form."""
    if not (match := _PLACE.fullmatch(place)):
        raise InputError(f'{place!r} must be {FORM}')
    return os.path.expanduser(match[1]), match[2]


def digests_in(values: Any) -> dict[str, str]:
    """Computes the SHA-256 of the file of each place in nested values.

    For a file that this process has run, it is the digest of the content that ran.
    """
    files = [split_place(value)[0] for value in _texts(values) if is_place(value)]
    return {
        file: _DIGESTS.get(os.path.abspath(file)) or digest(read(file))
        for file in sorted(set(files))
    }


def digest(content: bytes) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _texts(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping | tuple | list):
        items = values.values() if isinstance(values, Mapping) else values
        for item in items:
            yield from _texts(item)


def load(place: str) -> Any:
    """Loads the object that a place names.

    Raises:
        InputError: there is no such file, it raises, or it has no such name.
    """
    file, name = split_place(place)
    module = _module(file)
    if not hasattr(module, name):
        names = [key for key in vars(module) if _is_defined(module, key)]
        raise InputError(f'{file} defines no {name}; it has {names}')
    return getattr(module, name)


def _is_defined(module: types.ModuleType, name: str) -> bool:
    """Returns whether a module defines a public name, and does not import it."""
    value = vars(module)[name]
    if name.startswith('_') or inspect.ismodule(value):
        return False
    defined = inspect.isclass(value) or inspect.isroutine(value)
    return not defined or value.__module__ == module.__name__


def read(file: str) -> bytes:
    """Reads a Python file; InputError if it cannot be read."""
    try:
        return pathlib.Path(file).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f'{file}: no such file') from error
    except OSError as error:
        raise InputError(f'{file}: {error.strerror}') from error


def _module(file: str) -> types.ModuleType:
    """Runs a file as a module, or returns the module if this process has run it."""
    path = os.path.abspath(file)
    if path in _MODULES:
        return _MODULES[path]
    content = read(file)
    # Use a hash, because the file may have the name of a package.
    name = f'passk_plugin_{digest(path.encode())[:16]}'
    # Dataclasses and type hints need the module in sys.modules.
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = path
    add_neighbours(path)
    _DIGESTS[path] = digest(content)
    with errors_of(file):
        exec(compile(content, path, 'exec'), vars(module))
    _MODULES[path] = module
    return module


def add_neighbours(file: str) -> None:
    """Lets a file import modules from its directory, last on the search path."""
    folder = os.path.dirname(os.path.abspath(file))
    if folder not in sys.path:
        sys.path.append(folder)


@contextlib.contextmanager
def errors_of(file: str, label: str = '') -> Iterator[None]:
    """Converts any error to an InputError with the file and the line that raised it.

    Args:
        file: path of the file whose code runs.
        label: its name in the message; ``''`` uses its path.
    """
    label = label or _shorten(os.path.abspath(file))
    try:
        yield
    except InputError as error:
        raise InputError(f'{label}: {error}') from error
    except KeyboardInterrupt:
        raise
    # A user's file may raise anything, also SystemExit.
    except BaseException as error:
        line = _line(error, [os.path.abspath(file)])
        where_raised = f', line {line[1]}' if line else ''
        message = f'{label}{where_raised}: {describe(error)}'
        raise InputError(message) from error


def explain(error: BaseException) -> str | None:
    """Describes an error with file and line, if a user's file raised it, else None."""
    if line := _line(error, _DIGESTS):
        return f'{_shorten(line[0])}, line {line[1]}: {describe(error)}'
    return None


def where(definition: Any) -> str:
    """Returns ``file, line N (name)`` of a function, method or class, for messages."""
    definition = inspect.unwrap(definition)
    name = getattr(definition, '__qualname__', repr(definition))
    try:
        path = inspect.getsourcefile(definition) or ''
        _, line = inspect.findsource(definition)
    except (TypeError, OSError):
        return name
    return f'{_shorten(path)}, line {line + 1} ({name})'


def describe(error: BaseException) -> str:
    """Describes an error in one line: its class and the first line of its message."""
    # The text of a syntax error repeats the line number.
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = text.strip().partition('\n')[0]
    return ': '.join(filter(None, (type(error).__name__, first)))


def _line(error: BaseException, paths: Collection[str]) -> tuple[str, int] | None:
    """Returns the last frame of the error's traceback that is in one of the files."""
    frames = traceback.extract_tb(error.__traceback__)
    places: list[tuple[str | None, int | None]] = [
        (frame.filename, frame.lineno) for frame in frames
    ]
    if isinstance(error, SyntaxError):
        places.append((error.filename, error.lineno))
    lines = [(os.path.abspath(name), line) for name, line in places if name and line]
    return next((line for line in reversed(lines) if line[0] in paths), None)


def _shorten(path: str) -> str:
    """Returns the path relative to the working directory, if it is inside."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
