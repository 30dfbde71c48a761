"""Errors that a command explains in one line, without a traceback."""

import contextlib
from collections.abc import Callable, Iterator

from absl import logging


class InputError(ValueError):
    """The request is impossible; the message says what is wrong and why.

    Raise it for a value, a file or a combination of options that the user can change. A
    command prints only its message; other exceptions are bugs and show a traceback.
    """


class ElsewhereError(InputError):
    """Another process of the run failed; the message says which and why."""


class NonFiniteError(FloatingPointError):
    """A loss is not finite; the message says at which step.

    numpy and JAX also raise ``FloatingPointError``, so this has its own class.
    """


@contextlib.contextmanager
def prefixed(
    where: object, kinds: type[Exception] | tuple[type[Exception], ...] = ValueError
) -> Iterator[None]:
    """Converts errors of these kinds to InputErrors that begin with ``where: ``.

    If ``where`` is empty, errors stay as they are.
    """
    try:
        yield
    except kinds as error:
        if where == '':
            raise
        raise InputError(f'{where}: {error}') from error


def with_class(error: BaseException) -> str:
    """Returns the message of an error after the name of its class.

    >>> with_class(KeyError(3)), with_class(KeyboardInterrupt())
    ('KeyError: 3', 'KeyboardInterrupt')
    """
    return ': '.join(filter(None, (type(error).__name__, str(error))))


def leave(cause: object, *steps: Callable[[], object]) -> None:
    """Runs every clean-up step of a block, and raises the first error.

    Args:
        cause: the error that ends the block, or its class; ``None`` without an error.
        *steps: functions called in order. The first error is raised unless there is a
            cause. Later errors usually follow from it, and are only logged.
    """
    first = None
    for step in steps:
        try:
            step()
        except Exception as error:
            if cause or first:
                logging.warning('a later error: %s: %s', type(error).__name__, error)
            else:
                first = error
    if first:
        raise first
