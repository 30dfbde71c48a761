"""Estimators from a user's Python file: a function as a row of the table.

The names of its parameters decide its kind:

* **A curve** has ``num_correct``. It gets this and ``num_rollouts`` as whole numbers,
  and returns the advantages of a right and of a wrong response. It is called for every
  number of correct responses before a run begins, so it may be any Python.
* **Any other estimator** has some of :data:`~passk_jax.advantages.INPUTS`, arrays that
  JAX traces, and returns ``[P, N]`` advantages.

Every other parameter is a key of ``config.advantage``: one of the table, such as ``k``,
or one with its own default. A config has a value for each key of the table; where that
is the table's default but not the function's, ``make.py`` cannot tell what is meant.
"""

import contextlib
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from passk_jax import plugins
from passk_jax.advantages import curves, estimators
from passk_jax.advantages.declarations import INPUTS, Estimator, Inputs, Parameter
from passk_jax.config import AdvantageConfig, checks
from passk_jax.errors import InputError

_SIZES = ('num_correct', 'num_rollouts')
# Other keys of config.advantage, and names that functions take beside parameters.
_RESERVED_NAMES = (
    *(name for name in checks.fields(AdvantageConfig)[0] if name != 'k'),
    *('parameters', 'p', 'self', 'inputs', 'curve'),
)


def estimator_of_file(place: str, table: tuple[Parameter, ...]) -> Estimator:
    """Makes the row of a user's function.

    Args:
        place: ``file.py:name``.
        table: the parameters of the table.

    Raises:
        InputError: it cannot be loaded, or is neither a curve nor an estimator.
    """
    return _row(plugins.load(place), place, table)


@functools.cache
def _row(
    function: Callable[..., Any], place: str, table: tuple[Parameter, ...]
) -> Estimator:
    if not inspect.isfunction(function):
        raise InputError(
            f'{place} is of type {type(function).__name__}, not a function'
        )
    signature, where = inspect.signature(function), plugins.where(function)
    is_curve = 'num_correct' in signature.parameters
    inputs = _SIZES if is_curve else tuple(INPUTS)
    reads = tuple(name for name in signature.parameters if name in inputs)
    if not reads:
        raise InputError(
            f'{where} must have a parameter num_correct, as a curve has, or some of '
            f'{list(INPUTS)}'
        )
    declared = {parameter.name: parameter for parameter in table}
    parameters = tuple(
        _parameter(parameter, declared.get(name), where)
        for name, parameter in signature.parameters.items()
        if name not in reads
    )
    if 'history' in reads and 'window' not in signature.parameters:
        raise InputError(f'{where} reads history, so it needs the parameter window')
    if not is_curve:
        compute = _Compute(function, where, reads)
        return Estimator(
            compute, reads, parameters, fits=compute.check, pools_problems=None
        )
    curve = _Curve(function, where, 'num_rollouts' in reads)
    along_curve = functools.partial(estimators.along_curve, curve=curve)
    return Estimator(along_curve, ('correct',), parameters, fits=curve.table)


def _parameter(
    parameter: inspect.Parameter, declared: Parameter | None, where: str
) -> Parameter:
    """Returns the parameter of the table, or makes one from the function's default.

    Raises:
        InputError: it has no name, or one that is taken or of the other kind; or it is
            not in the table and has no default of numbers.
    """
    name, default = parameter.name, parameter.default
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise InputError(f'{where}: name each parameter instead of *{name}')
    if name == 'num_rollouts':
        raise InputError(
            f'{where}: only a curve, which has num_correct, has num_rollouts; leave it '
            'out: it is the size of the second axis of arrays such as rewards'
        )
    if name in INPUTS:
        raise InputError(
            f'{where}: a curve, which has num_correct, gets no arrays such as {name}; '
            'leave one of the two out'
        )
    if name in _RESERVED_NAMES:
        raise InputError(
            f'{where}: rename the parameter {name}: that name has another meaning; '
            f'taken are {list(_RESERVED_NAMES)}'
        )
    if declared and default is inspect.Parameter.empty:
        return declared
    if declared:
        if type(default) not in (int, float, str, tuple):
            raise InputError(f'{where}: {name}={default!r} must have a plain default')
        # 2 is as good as 2.0 where the table has a float.
        if isinstance(declared.default, float) and isinstance(default, int):
            default = float(default)
        return dataclasses.replace(declared, default=default, required=False)
    numbers = default if isinstance(default, tuple) else (default,)
    if not all(type(x) in (int, float) and math.isfinite(x) for x in numbers):
        raise InputError(
            f'{where}: the parameter {name} is none of {[*_SIZES, *INPUTS]} and no key '
            'of config.advantage, so it needs a number, or some, as its default'
        )
    return Parameter(name, default, f'of {where}')


@dataclasses.dataclass(frozen=True)
class _Curve:
    """A user's curve in the form of ``curves.py``; it accepts traced numbers."""

    function: Callable[..., Any]
    where: str
    with_rollouts: bool

    def __call__(
        self, num_correct: Array, *, num_rollouts: int, **params: Any
    ) -> curves.Curve:
        """Looks up the advantages in the table."""
        values = self.table(num_rollouts=num_rollouts, **params)
        positive, negative = jnp.asarray(values)
        return positive[num_correct], negative[num_correct]

    def table(self, *, num_rollouts: int, **params: Any) -> np.ndarray:
        """Returns advantages of right and of wrong responses, ``[2, N + 1]`` float64.

        Raises InputError if the function raises, or does not return two numbers.
        """
        return _table(self, num_rollouts, tuple(params.items()))


@functools.lru_cache(maxsize=64)
def _table(
    curve: _Curve, num_rollouts: int, params: tuple[tuple[str, Any], ...]
) -> np.ndarray:
    sizes = {'num_rollouts': num_rollouts} if curve.with_rollouts else {}
    rows = []
    for num_correct in range(num_rollouts + 1):
        with _errors_of(curve.function):
            row = curve.function(num_correct=num_correct, **sizes, **dict(params))
        try:
            positive, negative = (float(value) for value in row)
        except (TypeError, ValueError):
            positive = negative = math.nan
        # Advantages are float32.
        most = float(np.finfo(np.float32).max)
        if not (abs(positive) <= most and abs(negative) <= most):
            raise InputError(
                f'{curve.where} returned {row!r} for {num_correct=}; it must return '
                'two finite numbers, the advantages of a right and of a wrong response'
            )
        rows.append((positive, negative))
    return np.array(rows).T


@dataclasses.dataclass(frozen=True)
class _Compute:
    """A user's estimator, whose errors name its file and line."""

    function: Callable[..., Any]
    where: str
    reads: tuple[str, ...]

    def __call__(self, inputs: Inputs, **params: Any) -> Float[Array, 'P N']:
        """Computes the advantages; raises InputError if the result is no such array."""
        arrays = {name: getattr(inputs, name) for name in self.reads}
        with _errors_of(self.function):
            result = self.function(**arrays, **params)
        shapes = [np.shape(array) for array in arrays.values()]
        expected_shape = next((s for s in shapes if len(s) == 2), None)
        advantages = None
        with contextlib.suppress(TypeError, ValueError):
            advantages = jnp.asarray(result)
        if (
            advantages is None
            or advantages.ndim != 2
            or advantages.shape != (expected_shape or advantages.shape)
            or jnp.issubdtype(advantages.dtype, jnp.complexfloating)
        ):
            received = getattr(result, 'shape', None) or repr(result)
            raise InputError(
                f'{self.where} returned {received}; it must return an array [P, N] of '
                'advantages, a row for each problem'
            )
        return advantages.astype(jnp.float32)

    def check(self, *, num_rollouts: int, **params: Any) -> None:
        """Calls it with the shapes of a batch; uses no device."""
        sizes = {'P': 3, 'N': num_rollouts, 'C': num_rollouts + 1}
        sizes['W'] = params.get('window', 1)
        arrays = {}
        for name in self.reads:
            shape = tuple(sizes[letter] for letter in INPUTS[name].shape.split())
            dtype = INPUTS[name].dtype or jax.eval_shape(jax.random.key, 0).dtype
            arrays[name] = jax.ShapeDtypeStruct(shape, dtype)
        call = functools.partial(self, **params)
        jax.eval_shape(lambda x: call(Inputs(**x)), arrays)


def _errors_of(function: Callable[..., Any]) -> Any:
    return plugins.errors_of(function.__code__.co_filename)
