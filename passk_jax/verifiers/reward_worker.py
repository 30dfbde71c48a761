"""Calls a user's reward function in a worker process.

:mod:`passk_jax.verifiers.rewards` is the other end. This module imports little, because
each worker imports it.
"""

import contextlib
import json
from collections.abc import Callable
from typing import Any

from passk_jax import plugins
from passk_jax.errors import InputError

# Rewards are float32.
_MAX_FLOAT32 = 3.4028234e38
_MAX_CHARACTERS, _LONGEST = 60, 1000


def load(function: str) -> Callable[[str, str], list[Any]]:
    """Makes the function that a worker calls with a record, as JSON, and a response.

    Args:
        function: ``file.py:function@digest``.

    Returns:
        A function that returns ``[[value, answer], null]`` or ``[null, [place,
        error]]``. A value that is no number becomes a text.

    Raises:
        InputError: the file cannot be run, or has changed since the run began.
    """
    place, _, digest = function.rpartition('@')
    called = plugins.load(place)
    if [*plugins.digests_in(place).values()] != [digest]:
        raise InputError('the file changed while a run uses it: restore it')
    if not callable(called):
        raise InputError(f'{place} is of type {type(called).__name__}, not a function')

    def judge(record: str, response: str) -> list[Any]:
        try:
            value = called(response, json.loads(record))
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            # If it does not take two arguments, no line of the file is at fault.
            alone = f'{plugins.where(called)}: {plugins.describe(error)}'
            place, _, text = (plugins.explain(error) or alone).partition(': ')
            # Replies must be short; the message may be long.
            return [None, [place[-_LONGEST:], text[:_LONGEST]]]
        value, answer = _split(value)
        if isinstance(value, int | float) and not abs(value) <= _MAX_FLOAT32:
            # A response may be the text "nan", so the function need not be broken.
            number = str(value) if isinstance(value, float) else 'an integer'
            text = f'returned {number}, which is not finite in float32'
            return [None, [plugins.where(called)[-_LONGEST:], text]]
        if len(answer) > _LONGEST:
            text = f'returned an answer of {len(answer)} characters, over {_LONGEST}'
            return [None, [plugins.where(called)[-_LONGEST:], text]]
        return [[value, answer], None]

    return judge


def _split(returned: Any) -> tuple[bool | int | float | str, str]:
    """Returns the value and the answer of what a reward function returned."""
    match returned:
        case (value, str() | None as answer):
            # Without a number the pair is reported whole.
            if not isinstance(number := _plain(value), str):
                return number, answer or ''
    return _plain(returned), ''


def _plain(value: Any) -> bool | int | float | str:
    """Returns a bool or a number as Python's, and anything else as a text."""
    # A number of NumPy, or an array of one.
    if callable(getattr(value, 'item', None)):
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            value = value.item()
    return value if isinstance(value, int | float) else repr(value)[:_MAX_CHARACTERS]
