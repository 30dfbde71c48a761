"""Makes estimators by name; the rows of ``ESTIMATORS`` say what is checked.

Programs call :func:`make_estimator`, and runs call :func:`estimator_of_config`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from passk_jax.advantages import curves
from passk_jax.advantages.declarations import INPUTS, Estimator, Input, Parameter
from passk_jax.advantages.history import Memory
from passk_jax.advantages.table import ESTIMATORS, OTHER_NAMES
from passk_jax.config import checks
from passk_jax.errors import InputError


class AdvantageFn(Protocol):
    """A batch's rewards -> its advantages; pure, and equal if its settings are."""

    def __call__(
        self, rewards: Float[Array, 'P N'], correct: Bool[Array, 'P N'], **inputs: Array
    ) -> Float[Array, 'P N']:
        """Computes ``[P, N]`` advantages from these and other arrays of ``INPUTS``."""


def all_parameters() -> tuple[Parameter, ...]:
    """Every parameter of the table, once: the keys of ``config.advantage``."""
    rows = ESTIMATORS.values()
    return tuple({p.name: p for row in rows for p in row.parameters}.values())


def estimator_parameters(name: str) -> tuple[str, ...]:
    """The parameters ``make_estimator(name, ...)`` takes besides ``num_rollouts``.

    Raises:
        ValueError: there is no estimator of that name.
    """
    if not isinstance(name, str) or name not in ESTIMATORS:
        hint = OTHER_NAMES.get(str(name).lower())
        message = f'unknown estimator {name!r}' + (f': {hint}' if hint else '')
        raise InputError(f'{message}; choose from {list(ESTIMATORS)}')
    return tuple(parameter.name for parameter in ESTIMATORS[name].parameters)


def own_parameters(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The items of ``parameters`` that the estimator takes; JSON's lists become tuples.

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
        name: a name of :data:`ESTIMATORS`.
        num_rollouts: N.
        **params: values for ``estimator_parameters(name)``; ``k`` must be given, the
            others have defaults.

    Returns:
        ``fn(rewards, correct, **inputs) -> advantages``, with ``rewards`` ``[P, N]``
        real, ``correct`` ``[P, N]`` bool and the advantages ``[P, N]`` float32; pure,
        to be jitted by the caller. Functions with equal settings compare equal, so as
        static arguments they share a program. ``inputs`` are the other arrays that the
        row ``reads``; :func:`begin_memory` makes those that are remembered. A single
        ``key`` is folded with each problem's row. The function raises ValueError if an
        array is missing or has another shape, and if ``correct`` is not boolean.

    Raises:
        ValueError: an unknown name; a parameter that is unknown, missing or bad.

    >>> estimate = make_estimator('pass_at_k', num_rollouts=4, k=2)
    >>> correct = jnp.array([[True, False, False, False]])
    >>> estimate(correct.astype(jnp.float32), correct)[0, 0].item()
    1.0
    """
    accepted = estimator_parameters(name)
    if unknown := sorted(set(params) - set(accepted)):
        raise InputError(f'{name} has no parameter {unknown}; it has {list(accepted)}')
    curves.check_group_size(num_rollouts=num_rollouts, k=1)
    estimator, values = ESTIMATORS[name], {}
    for parameter in estimator.parameters:
        if parameter.required and parameter.name not in params:
            raise InputError(f'{name} needs the parameter {parameter.name}')
        value = params.get(parameter.name, parameter.default)
        parameter.check(value, num_rollouts=num_rollouts)
        values[parameter.name] = parameter.cast(value)
    if estimator.fits:
        estimator.fits(num_rollouts=num_rollouts, **values)

    return _Estimate(estimator, name, num_rollouts, tuple(values.items()))


@dataclasses.dataclass(frozen=True)
class _Estimate:
    """What :func:`make_estimator` makes: a row with its parameters, and a call."""

    estimator: Estimator
    name: str
    num_rollouts: int
    values: tuple[tuple[str, Any], ...]

    def __call__(
        self, rewards: Float[Array, 'P N'], correct: Bool[Array, 'P N'], **inputs: Any
    ) -> Float[Array, 'P N']:
        all_inputs = {'rewards': rewards, 'correct': correct, **inputs}
        sizes = {'name': self.name, 'num_rollouts': self.num_rollouts}
        arrays = _checked_inputs(all_inputs, self.estimator, **sizes)
        return self.estimator.compute(**arrays, **dict(self.values))


def begin_memory(name: str, *, num_rollouts: int, **params: Any) -> Memory:
    """What an estimator remembers before the first step: inputs by name, or ``{}``.

    Args:
        name, num_rollouts, **params: as in :func:`make_estimator`, errors included.

    >>> from passk_jax.advantages import remember
    >>> params = {'num_rollouts': 4, 'window': 2}
    >>> estimate = make_estimator('curverl', **params)
    >>> memory = begin_memory('curverl', **params)
    >>> correct = jnp.array([[True, False, False, False]])
    >>> for _ in range(3):
    ...     advantages = estimate(correct.astype(float), correct, **memory)
    ...     memory = remember(memory, correct)
    >>> memory['history'].tolist()
    [[0, 1, 0, 0, 0], [0, 1, 0, 0, 0]]
    """
    make_estimator(name, num_rollouts=num_rollouts, **params)
    row = ESTIMATORS[name]
    if not row.has_memory:
        return {}
    values = {
        parameter.name: parameter.default for parameter in row.parameters
    } | params
    shape = values['window'], num_rollouts + 1
    return {'history': jnp.zeros(shape, INPUTS['history'].dtype)}


def estimator_of_config(
    name: str, parameters: Mapping[str, Any], *, num_rollouts: int
) -> AdvantageFn:
    """Makes the estimator of a configuration, which has all estimators' parameters.

    Args:
        name: ``advantage.name``.
        parameters: the other keys of ``advantage``. All of them are checked, those
            that the estimator does not read included.
        num_rollouts: N.

    Raises:
        ValueError: an unknown name, or a key that is unknown, missing or bad; the
            message has the dotted key.
    """
    own_values = own_parameters(name, parameters)
    declared = {parameter.name: parameter for parameter in all_parameters()}
    keys = {key: f'advantage.{key}' for key in [*declared, *parameters]}
    if unknown := [keys[key] for key in parameters if key not in declared]:
        choices = [keys[key] for key in declared]
        raise InputError(
            '; '.join(checks.unknown_key(dotted, choices) for dotted in unknown)
        )
    if missing := [
        keys[key] for key in estimator_parameters(name) if key not in own_values
    ]:
        raise InputError(f'missing keys {missing}, which {name} reads')
    for key, value in parameters.items():
        # A metric reads k too; other parameters that are not read need not fit N.
        limit = num_rollouts if key in own_values or key == 'k' else None
        declared[key].check(value, num_rollouts=limit, section='advantage.')
    return make_estimator(name, num_rollouts=num_rollouts, **own_values)


def _checked_inputs(
    inputs: Mapping[str, Any], estimator: Estimator, *, name: str, num_rollouts: int
) -> dict[str, jax.Array]:
    """The arrays that an estimator reads, converted.

    All of them are checked, and ``rewards`` and ``correct`` for every estimator.
    """
    if unknown := sorted(inputs.keys() - INPUTS):
        raise InputError(f'{unknown} are not inputs; choose from {list(INPUTS)}')
    arrays = {}
    for input_name in dict.fromkeys(('rewards', 'correct', *estimator.reads)):
        declared = INPUTS[input_name]
        if inputs.get(input_name) is None:
            raise InputError(f'{name} needs {input_name}=, {declared.doc}')
        P = np.shape(inputs['rewards'])[:1]
        sizes = {'P': P[0] if P else 1, 'N': num_rollouts, 'C': num_rollouts + 1}
        array = _as_array(inputs[input_name], input_name, declared)
        if input_name == 'key':
            array = _one_for_each_problem(array, sizes['P'])
        letters = declared.shape.split()
        # W has no size of its own: any will do.
        sizes = dict(zip(letters, array.shape, strict=False)) | sizes
        shape = tuple(sizes.get(letter, 'W') for letter in letters)
        if array.shape != shape or not array.size:
            axes = ', '.join(letters)
            wanted = f'{shape}, [{axes}], and not empty'
            raise InputError(f'{input_name}.shape={array.shape} must be {wanted}')
        if declared.dtype is bool and array.dtype != bool:
            raise InputError(
                f'{input_name}.dtype={array.dtype} must be bool: {declared.doc}'
            )
        arrays[input_name] = array.astype(declared.dtype) if declared.dtype else array
    return {input_name: arrays[input_name] for input_name in estimator.reads}


def _as_array(values: Any, name: str, declared: Input) -> jax.Array:
    """The array, of a kind that converting it loses nothing of."""
    try:
        array = jnp.asarray(values)
    except TypeError:
        raise InputError(f'{name}={values!r} must be an array') from None
    message = f'{name}.dtype={array.dtype} must be of'
    if declared.dtype is jnp.int32 and not jnp.issubdtype(array.dtype, jnp.integer):
        raise InputError(f'{message} whole numbers: {declared.doc}')
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise InputError(f'{message} real numbers: {declared.doc}')
    return array


def _one_for_each_problem(key: jax.Array, num_problems: int) -> jax.Array:
    """Wraps raw key data; folds one key for all with each problem's row."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        try:
            key = jax.random.wrap_key_data(key)
        except (TypeError, ValueError):
            raise InputError(
                f'key.shape={key.shape} of {key.dtype} must be a key, or one a problem'
            ) from None
    if key.ndim == 0:
        rows = jnp.arange(num_problems)
        key = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, rows)
    return key
