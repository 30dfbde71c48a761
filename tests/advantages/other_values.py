"""A value for every parameter of ``ESTIMATORS`` that is not its default.

No two of one type are equal, so a parameter that is fixed, forgotten or exchanged with
another shows.
"""

from collections.abc import Iterable
from typing import Any

from passk_jax.advantages import Parameter, all_parameters
from passk_jax.errors import InputError

# Less than the rollouts of tests/changed.py: a group must leave a response.
MOST = 5


def choose_other_values() -> dict[str, Any]:
    """Values by name, each allowed where N is ``MOST`` or more."""
    values: dict[str, Any] = {}
    for parameter in all_parameters():
        used = {repr(value) for value in values.values()}
        values[parameter.name] = next(
            value
            for value in list_candidates(parameter)
            if value != parameter.default
            and repr(value) not in used
            and is_allowed(parameter, value)
        )
    return values


def list_candidates(parameter: Parameter) -> Iterable[Any]:
    """Values of the parameter's type, not all of them allowed."""
    default = parameter.default
    if isinstance(default, str):
        return parameter.choices
    if isinstance(default, tuple):
        return ((*(x + i for i, x in enumerate(default, n)),) for n in range(1, 100))
    if isinstance(default, int):
        return (3, 5, 2, *range(1, 1000))
    return (part for i in range(1, 100) for part in (default * i / 16, i / 16))


def is_allowed(parameter: Parameter, value: Any) -> bool:
    """Whether the value is in the parameter's range."""
    try:
        parameter.check(value, num_rollouts=MOST)
    except InputError:
        return False
    return True
