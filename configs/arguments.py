"""Arguments of a config file, as in ``--config=configs/enigmata.py:model=…``.

The text after the colon is ``key=value,key=value``. A config file defines its keys and
reads them with :func:`parse`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from passk_jax.errors import InputError

_BOOLS = {'true': True, 'false': False}


def parse(
    text: str,
    *,
    defaults: Mapping[str, Any] | None = None,
    choices: Mapping[str, Iterable[Any]] | None = None,
) -> dict[str, Any]:
    """Reads ``key=value,key=value``.

    >>> parse('fraction=0.3', defaults={'fraction': 0.1, 'size': 'tiny'})
    {'fraction': 0.3, 'size': 'tiny'}

    Args:
        text: the arguments; ``''`` for none.
        defaults: key -> default. Its type (bool, int, float or str) is the type of the
            argument.
        choices: key -> allowed values. A key without a default is a required string.

    Returns:
        The value of every key of ``defaults`` and ``choices``.

    Raises:
        InputError: a key is unknown, repeated or missing, or a value does not have the
            default's type or is not one of the choices.
    """
    defaults = dict(defaults or {})
    choices = {key: list(values) for key, values in (choices or {}).items()}
    keys = list(dict.fromkeys([*choices, *defaults]))
    parsed: dict[str, Any] = {}
    for part in filter(None, text.split(',')):
        key, equals, value = part.partition('=')
        if key not in keys or not equals:
            raise InputError(f'argument {part!r} must be key=value, key one of {keys}')
        if key in parsed:
            raise InputError(f'argument {key!r} is given twice in {text!r}')
        parsed[key] = _typed(key, value, type(defaults.get(key, '')))
    values = defaults | parsed
    for key, allowed in choices.items():
        if key not in values:
            raise InputError(f'argument {key}=… is missing; choose one of {allowed}')
        if values[key] not in allowed:
            raise InputError(f'{key}={values[key]!r} must be one of {allowed}')
    return {key: values[key] for key in keys}


def _typed(key: str, value: str, kind: type) -> Any:
    try:
        return _BOOLS[value] if kind is bool else kind(value)
    except (KeyError, ValueError):
        description = 'true or false' if kind is bool else f'of type {kind.__name__}'
        raise InputError(f'{key}={value!r} must be {description}') from None
