"""Makes estimators by name and checks their parameters.

Programs call :func:`make_estimator`; runs call :func:`estimator_of_config`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax import plugins
from passk_jax.advantages import curves
from passk_jax.advantages.declarations import AdvantageFn, Estimator, Parameter
from passk_jax.advantages.from_file import estimator_of_file
from passk_jax.advantages.table import ESTIMATORS, OTHER_NAMES
from passk_jax.config import checks
from passk_jax.errors import InputError


def all_parameters() -> tuple[Parameter, ...]:
    """Lists every parameter of the table once: the keys of ``config.advantage``."""
    rows = ESTIMATORS.values()
    return tuple({p.name: p for row in rows for p in row.parameters}.values())


def estimator_row(name: str) -> Estimator:
    """Returns the row of the table, or of a user's own ``file.py:function``.

    Raises:
        ValueError: there is no estimator of that name.
    """
    if isinstance(name, str) and name in ESTIMATORS:
        return ESTIMATORS[name]
    if plugins.is_place(name):
        return estimator_of_file(name, all_parameters())
    hint = OTHER_NAMES.get(str(name).lower())
    message = f'unknown estimator {name!r}' + (f': {hint}' if hint else '')
    raise InputError(
        f'{message}; choose from {list(ESTIMATORS)}, or one of your own, {plugins.FORM}'
    )


def estimator_parameters(name: str) -> tuple[str, ...]:
    """Names the parameters of an estimator.

    Raises:
        ValueError: there is no estimator of that name.
    """
    return tuple(parameter.name for parameter in estimator_row(name).parameters)


def select_parameters(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the values that the estimator takes; JSON's lists become tuples.

    Raises:
        ValueError: there is no estimator of that name.
    """
    values = {
        key: parameters[key] for key in estimator_parameters(name) if key in parameters
    }
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def make_estimator(name: str, *, num_rollouts: int, **params: Any) -> AdvantageFn:
    """Makes the function that turns a batch's rewards into advantages.

    Args:
        name: a name of :data:`ESTIMATORS`, or ``file.py:function`` (``from_file.py``).
        num_rollouts: N.
        **params: values for ``estimator_parameters(name)``; ``k`` is required, the
            others have defaults.

    Raises:
        ValueError: an unknown name; a parameter that is unknown, missing or bad.

    >>> import numpy as np
    >>> estimate = make_estimator('pass_at_k', num_rollouts=4, k=2)
    >>> correct = np.array([[True, False, False, False]])
    >>> estimate(correct * 1.0, correct)[0, 0].item()
    1.0
    """
    accepted = estimator_parameters(name)
    if unknown := sorted(set(params) - set(accepted)):
        raise InputError(f'{name} has no parameter {unknown}; it has {list(accepted)}')
    curves.check_group_size(num_rollouts=num_rollouts, k=1)
    estimator, values = estimator_row(name), {}
    for parameter in estimator.parameters:
        if parameter.required and parameter.name not in params:
            raise InputError(f'{name} needs the parameter {parameter.name}')
        value = params.get(parameter.name, parameter.default)
        parameter.check(value, num_rollouts=num_rollouts)
        values[parameter.name] = parameter.cast(value)
    if estimator.fits:
        estimator.fits(num_rollouts=num_rollouts, **values)
    return AdvantageFn(estimator, name, num_rollouts, tuple(values.items()))


def estimator_of_config(
    name: str, parameters: Mapping[str, Any], *, num_rollouts: int
) -> AdvantageFn:
    """Makes the estimator of a config, which has the parameters of all estimators.

    Args:
        name: ``advantage.name``.
        parameters: the other keys of ``advantage``. All are checked, even those that
            the estimator does not read.
        num_rollouts: N.

    Raises:
        ValueError: an unknown name, or a key that is unknown, missing or bad, or has
            the table's default where a user's function has another; the message has
            the dotted key.
    """
    values = select_parameters(name, parameters)
    in_table, row = all_parameters(), estimator_row(name)
    declared = {p.name: p for p in (*in_table, *row.parameters)}
    choices = [f'advantage.{key}' for key in declared]
    dotted = [f'advantage.{key}' for key in parameters]
    if unknown := [key for key in dotted if key not in choices]:
        raise InputError('; '.join(checks.unknown_key(k, choices) for k in unknown))
    # A parameter of a user's own estimator has its default.
    read = [f'advantage.{p.name}' for p in row.parameters if p in in_table]
    if missing := [key for key in read if key not in dotted]:
        raise InputError(f'missing keys {missing}, which {name} reads')
    _check_defaults(name, row, parameters, in_table)
    for key, value in parameters.items():
        # Parameters that are not read need not fit N.
        limit = num_rollouts if key in values else None
        declared[key].check(value, num_rollouts=limit, section='advantage.')
    return make_estimator(name, num_rollouts=num_rollouts, **values)


def _check_defaults(
    name: str,
    row: Estimator,
    parameters: Mapping[str, Any],
    in_table: Sequence[Parameter],
) -> None:
    """Raises InputError if the table's default would replace a user's own."""
    defaults = {p.name: p.default for p in in_table}
    for parameter in row.parameters:
        name_is_shared = parameter.name in defaults and parameter not in in_table
        if parameter.required or not name_is_shared:
            continue
        value = parameters.get(parameter.name, parameter.default)
        if value == defaults[parameter.name] != parameter.default:
            key = f'advantage.{parameter.name}'
            raise InputError(
                f'{key}={value!r} is the default of other estimators, so the default '
                f'{parameter.default!r} of {name} would have no effect; set {key}, '
                'rename the parameter, or give it no default'
            )
