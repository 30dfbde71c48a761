"""Sections of the configuration, and fields that declare their range of values."""

import dataclasses
import datetime
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import numpy as np

from passk_jax.errors import InputError

Section = TypeVar('Section')


def ranged(must: str, holds: Callable[[Any], bool], **metadata: Any) -> Any:
    """Makes a field without a default: ``holds`` tests a value, ``must`` describes it.

    ``metadata['off']`` is the field's value in runs that are older than the field.
    """
    return dataclasses.field(metadata={'must': must, 'holds': holds, **metadata})


def positive(**metadata: Any) -> Any:
    """Makes a field of numbers above 0; :func:`count` is for whole numbers."""
    return ranged('be positive', lambda x: x > 0, **metadata)


def not_negative(**metadata: Any) -> Any:
    """Makes a field of numbers that are at least 0."""
    return ranged('not be negative', lambda x: x >= 0, **metadata)


def count(low: int, high: int = 10**7, **metadata: Any) -> Any:
    """Makes a field of whole numbers in [``low``, ``high``].

    A larger size or number of steps would fill the memory or run for years.
    """
    return ranged(f'lie in [{low}, {high}]', lambda x: low <= x <= high, **metadata)


def fraction(**metadata: Any) -> Any:
    """Makes a field of numbers in [0, 1]."""
    return ranged('lie in [0, 1]', lambda x: 0 <= x <= 1, **metadata)


def percent() -> Any:
    """Makes a field of numbers in [0, 100]."""
    return ranged('lie in [0, 100]', lambda x: 0 <= x <= 100)


def decay() -> Any:
    """Makes a field of numbers in [0, 1): the decay of a running mean."""
    return ranged('lie in [0, 1)', lambda x: 0 <= x < 1)


def one_of(*choices: str, **metadata: Any) -> Any:
    """Makes a field whose values are these choices."""
    must, metadata = f'be one of {choices}', metadata | {'choices': choices}
    return ranged(must, lambda x: x in choices, **metadata)


def not_empty() -> Any:
    """Makes a field of non-empty texts."""
    return ranged('not be empty', lambda x: x != '')


def iso_date(**metadata: Any) -> Any:
    """Makes a field of ISO dates as text, year first."""
    return ranged('be a date as 2024-07-26', _is_date, **metadata)


def _is_date(text: str) -> bool:
    try:
        return str(datetime.date.fromisoformat(text)) == text
    except ValueError:
        return False


@dataclass_transform(
    frozen_default=True,
    field_specifiers=(
        *(ranged, positive, not_negative, count, fraction, percent, decay),
        *(one_of, not_empty, iso_date, dataclasses.field),
    ),
)
def section(cls: type[Section]) -> type[Section]:
    """Makes a class a section: a frozen dataclass, whose fields have no defaults."""
    return dataclasses.dataclass(frozen=True)(cls)


def check_fields(section: Any, path: str = '') -> None:
    """Raises InputError if a value is outside its field's range or that of float32.

    Args:
        section: an instance of a dataclass.
        path: the section's dotted key in the whole configuration, for messages.
    """
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        name = f'{path}.{field.name}' if path else field.name
        holds = field.metadata.get('holds')
        if holds and not holds(value):
            raise InputError(f'{name}={value!r} must {field.metadata["must"]}')
        if isinstance(value, float):
            check_float32(name, value)


def check_float32(name: str, value: float) -> None:
    """Raises InputError for a value that rounds to 0, 1 or infinity in float32."""
    limits = np.finfo(np.float32)
    # Devices flush numbers below the smallest normal one to 0.
    if 0 < abs(value) < float(limits.tiny):
        rounded = '0'
    elif abs(value) > float(limits.max):
        rounded = 'infinite'
    elif value != 1 and np.float32(value) == 1:
        rounded = '1'
    else:
        return
    raise InputError(f'{name}={value!r} is {rounded} in float32, which devices use')
