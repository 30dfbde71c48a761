"""What a value of the configuration must be, declared beside its field."""

import dataclasses
from collections.abc import Callable
from typing import Any

from passk_jax.errors import InputError


def ranged(must: str, holds: Callable[[Any], bool], **metadata: Any) -> Any:
    """A field without a default whose values ``must`` be so, which ``holds`` tests."""
    return dataclasses.field(metadata={'must': must, 'holds': holds, **metadata})


def positive() -> Any:
    """A field of numbers above 0."""
    return ranged('be positive', lambda x: x > 0)


def not_negative(**metadata: Any) -> Any:
    """A field of numbers of at least 0."""
    return ranged('not be negative', lambda x: x >= 0, **metadata)


def fraction(**metadata: Any) -> Any:
    """A field of numbers in [0, 1]."""
    return ranged('lie in [0, 1]', lambda x: 0 <= x <= 1, **metadata)


def decay() -> Any:
    """A field of numbers in [0, 1): how much of a running mean a step keeps."""
    return ranged('lie in [0, 1)', lambda x: 0 <= x < 1)


def one_of(*choices: str) -> Any:
    """A field with these values."""
    return ranged(f'be one of {choices}', lambda x: x in choices, choices=choices)


def not_empty() -> Any:
    """A field of texts that say something."""
    return ranged('not be empty', lambda x: x != '')


def check_fields(section: Any, path: str = '') -> None:
    """Checks the values of a dataclass whose fields say what holds of them.

    Args:
        section: the dataclass.
        path: where it lies in the whole configuration, for messages.

    Raises:
        ValueError: a value for which its field's ``holds`` is false.
    """
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        holds = field.metadata.get('holds')
        if holds and not holds(value):
            name = f'{path}.{field.name}' if path else field.name
            raise InputError(f'{name}={value!r} must {field.metadata["must"]}')
