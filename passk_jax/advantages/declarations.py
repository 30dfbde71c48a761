"""What a row of ``ESTIMATORS`` declares, and how it is called.

A row is a function with its inputs and its parameters. The keys and checks of
``config.advantage``, the tables of experiments/papers.md and the curve in the report
follow from it. ``table.py`` has the rows. An :class:`AdvantageFn` is a row with values
for its parameters.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Concatenate

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from passk_jax.config.ranges import check_float32
from passk_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of one or several estimators, ``config.advantage.<name>``.

    Attributes:
        name: its keyword, and its key in the config.
        default: the value if none is given. Its type (int, float, str or a tuple of
            floats) is the parameter's type.
        doc: one line: what it is, and where the default comes from.
        low, high: inclusive bounds of a number; ``'N'`` is the number of rollouts.
        above: an exclusive lower bound.
        choices: the values of a str.
        required: whether ``make_estimator`` needs a value; a config uses the default.
    """

    name: str
    default: int | float | str | tuple[float, ...]
    doc: str
    low: float = -math.inf
    high: float | str = math.inf
    above: float = -math.inf
    choices: tuple[str, ...] = ()
    required: bool = False

    def allowed(self, high: str | None = None) -> str:
        """Describes the allowed values in words; ``high`` replaces the upper bound."""
        if isinstance(self.default, str):
            return f'one of {self.choices}'
        if isinstance(self.default, tuple):
            return 'a tuple of numbers'
        words = 'a whole number' if isinstance(self.default, int) else 'a number'
        if self.above != -math.inf:
            return f'{words} above {self.above:g}'
        if self.high != math.inf:
            return f'{words} in [{self.low:g}, {high or self.high}]'
        return words if self.low == -math.inf else f'{words}, {self.low:g} or more'

    def check(self, value: Any, *, num_rollouts: int | None, section: str = '') -> None:
        """Checks a value of any type.

        Args:
            num_rollouts: N; ``None``: any.
            section: a prefix of the name in the message, such as ``'advantage.'``.

        Raises:
            ValueError: the value has another type, is out of range or not a choice.
        """
        most, bound = self.high, None
        if most == 'N':
            most = math.inf if num_rollouts is None else num_rollouts
            bound = 'N' if num_rollouts is None else f'{num_rollouts=}'
        if isinstance(self.default, str):
            good = isinstance(value, str) and value in self.choices
        elif isinstance(self.default, tuple):
            good = isinstance(value, tuple) and all(map(self._is_number, value))
        else:
            good = self._is_number(value) and self.low <= value <= most
            good = good and value > self.above
        if not good:
            raise InputError(
                f'{section}{self.name}={value!r} must be {self.allowed(bound)}'
            )
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, float):
                check_float32(f'{section}{self.name}', number)

    def cast(self, value: Any) -> int | float | str | tuple[float, ...]:
        """Converts a checked value to the parameter's type: 2 and 2.0 become equal."""
        if isinstance(self.default, tuple):
            return tuple(map(float, value))
        return type(self.default)(value)

    def _is_number(self, value: Any) -> bool:
        integer, real = (int, np.integer), (int, float, np.number)
        kinds = integer if isinstance(self.default, int) else real
        # Python counts True as 1, but k=True is a mistake.
        good = isinstance(value, kinds) and not isinstance(value, bool)
        return good and math.isfinite(value)


@dataclasses.dataclass(frozen=True)
class Input:
    """The declaration of a field of :class:`Inputs`.

    Attributes:
        shape: in the letters of the glossary, such as ``'P N'``.
        dtype: arrays are converted to it; a ``bool`` array must have it already.
        doc: one line, with the unit.
        typical: the value of every response or problem in the report's curve; 0 for
            inputs that the curve varies.
        remembered: whether it describes earlier steps, so that an estimator that reads
            it has a memory (``history.py``).
    """

    shape: str
    dtype: Any
    doc: str
    typical: float = 0
    remembered: bool = False

    @property
    def field(self) -> Any:
        """Returns the field; its value is ``None`` if an estimator does not read it."""
        return dataclasses.field(default=None, metadata={'declared': self})


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The arrays of a step; an estimator gets those that its row reads."""

    rewards: Float[Array, 'P N'] = Input(
        'P N', jnp.float32, 'what the policy is paid'
    ).field
    correct: Bool[Array, 'P N'] = Input('P N', bool, "the verifier's own channel").field
    key: Key[Array, 'P'] = Input(
        'P', None, 'a random key for each problem, made from its id'
    ).field
    mean_entropy: Float[Array, 'P'] = Input(
        'P', jnp.float32, "nats, mean over the tokens of a problem's responses", 1
    ).field
    lengths: Int[Array, 'P N'] = Input(
        'P N', jnp.int32, 'tokens of each response, its stop token included', 100
    ).field
    answers: Int[Array, 'P N'] = Input(
        'P N', jnp.int32, 'equal numbers for equal parsed answers to a problem', 100
    ).field
    log_probs: Float[Array, 'P N'] = Input(
        'P N',
        jnp.float32,
        "nats, sum over a response's tokens, its stop token included, of "
        '``Rollouts.sampler_log_probs``: of the distribution that they were drawn '
        'from, with temperature, top-k and top-p',
        -100,
    ).field
    history: Int[Array, 'W C'] = Input(
        'W C',
        jnp.int32,
        'how many problems of each of the last W steps, the newest last, had 0, 1, ... '
        'N right responses; W is the parameter ``window`` of the estimator',
        1,
        remembered=True,
    ).field


INPUTS: Mapping[str, Input] = {
    field.name: field.metadata['declared'] for field in dataclasses.fields(Inputs)
}


@dataclasses.dataclass(frozen=True)
class Objective:
    """The function of p that a curve climbs on a problem, up to a constant.

    Attributes:
        value: ``value(p, N, **parameters)``, for a success probability p.
        at_infinity: whether the curve climbs it only as N grows.
    """

    value: Callable[..., np.ndarray | float]
    at_infinity: bool = False


@dataclasses.dataclass(frozen=True)
class Estimator:
    """A row of ``ESTIMATORS``.

    For every row, tests compute what ``centered``, ``exchangeable``,
    ``follows_verdicts`` and ``objective`` declare.

    Attributes:
        compute: takes the arrays of ``reads``, and a keyword for each of
            ``parameters``. experiments/papers.md shows the first line of its docstring.
        reads: names of fields of :class:`Inputs`.
        parameters: its parameters; ``compute`` has no defaults.
        note: a remark beside its curve in the report.
        fits: ``fits(num_rollouts=N, **parameters)`` raises ValueError for values that
            are in range but do not fit N or each other.
        pools_problems: whether an advantage depends on the rewards of other problems of
            the step. Such an estimator has no fixed weight. Its curve is that of a
            step in which all shares of right responses are equally frequent. ``None``:
            not declared; ``tabulation.py`` tries it.
        centered: whether the advantages of a problem sum to 0. If not, they may move
            the policy even where all responses are right, or all wrong.
        exchangeable: whether a permutation of responses permutes their advantages;
            false where groups depend on chance or on order.
        follows_verdicts: whether, of responses that differ in the verdict alone, no
            right one is discouraged and no wrong one encouraged.
        objective: what it climbs, if that has a closed form.
    """

    compute: Callable[Concatenate[Inputs, ...], Float[Array, 'P N']]
    reads: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    note: str = ''
    fits: Callable[..., object] | None = None
    pools_problems: bool | None = False
    centered: bool = True
    exchangeable: bool = True
    follows_verdicts: bool = True
    objective: Objective | None = None

    @property
    def has_memory(self) -> bool:
        """Returns whether its advantages depend on earlier steps."""
        return any(INPUTS[name].remembered for name in self.reads)

    @property
    def summary(self) -> str:
        """Returns the first line of the function's docstring."""
        return (self.compute.__doc__ or '').partition('\n')[0]


@dataclasses.dataclass(frozen=True)
class AdvantageFn:
    """An estimator with values for its parameters: rewards -> advantages.

    It is pure. As a static argument of ``jax.jit``, equal ones share a program.

    Attributes:
        estimator: the row.
        name: name of the row.
        num_rollouts: N.
        parameters: names and values.
        scale: a factor of the advantages.
    """

    estimator: Estimator
    name: str
    num_rollouts: int
    parameters: tuple[tuple[str, Any], ...]
    scale: float = 1.0

    def __call__(
        self, rewards: Float[Array, 'P N'], correct: Bool[Array, 'P N'], **inputs: Array
    ) -> Float[Array, 'P N']:
        """Computes ``[P, N]`` float32 advantages; the caller may jit it.

        Args:
            rewards: real.
            correct: bool.
            **inputs: the other arrays that the row ``reads``, by their names in
                :class:`Inputs`; additional ones are ignored. :meth:`begin_memory` makes
                the remembered ones. A single ``key`` is folded with each problem's row.

        Raises:
            ValueError: an array is missing, unknown, or has a wrong shape or dtype, or
                whole numbers that are not traced and that its dtype would change.
        """
        if unknown := sorted(inputs.keys() - INPUTS):
            raise InputError(f'{unknown} are not inputs; choose from {list(INPUTS)}')
        read = self._check(Inputs(rewards, correct, **inputs))
        advantages = self.estimator.compute(read, **dict(self.parameters))
        return advantages if self.scale == 1 else self.scale * advantages

    def begin_memory(self) -> dict[str, Array]:
        """Returns the memory before the first step: inputs by name, or ``{}``."""
        if not self.estimator.has_memory:
            return {}
        shape = dict(self.parameters)['window'], self.num_rollouts + 1
        return {'history': jnp.zeros(shape, INPUTS['history'].dtype)}

    def _check(self, inputs: Inputs) -> Inputs:
        """Checks rewards, verdicts and the arrays to read; converts the latter."""
        num_problems = (*np.shape(inputs.rewards), 1)[0]
        N, arrays = self.num_rollouts, {}
        for name in dict.fromkeys(('rewards', 'correct', *self.estimator.reads)):
            declared, values = INPUTS[name], getattr(inputs, name)
            if values is None:
                raise InputError(f'{self.name} needs {name}=, {declared.doc}')
            array = _as_array(values, name, declared)
            if name == 'rewards' and array.shape == (N,):
                raise InputError(
                    f'rewards.shape={array.shape} lacks the axis of problems: it must '
                    f'be [P, N] with N={N}, as is rewards[None] of one problem'
                )
            if name == 'key':
                array = _one_for_each_problem(array, num_problems)
            letters = declared.shape.split()
            # W may have any size.
            sizes = dict(zip(letters, array.shape, strict=False))
            sizes |= {'P': num_problems, 'N': N, 'C': N + 1}
            shape = tuple(sizes.get(letter, 'W') for letter in letters)
            if array.shape != shape or not array.size:
                description = f'{shape}, [{", ".join(letters)}], and not empty'
                raise InputError(f'{name}.shape={array.shape} must be {description}')
            if declared.dtype is bool and array.dtype != bool:
                raise InputError(
                    f'{name}.dtype={array.dtype} must be bool: {declared.doc}'
                )
            arrays[name] = array.astype(declared.dtype) if declared.dtype else array
        return Inputs(**{name: arrays[name] for name in self.estimator.reads})


def _as_array(values: Any, name: str, declared: Input) -> jax.Array:
    """Returns the array if its conversion to the declared dtype only rounds fractions.

    Raises:
        InputError: it is no array, or has another kind of numbers, or one that is not
            traced has whole numbers that the dtype would change.
    """
    try:
        array = jnp.asarray(values)
    except (TypeError, ValueError):
        raise InputError(f'{name}={values!r} must be an array') from None
    except OverflowError:
        raise InputError(f'{name}={values!r} must fit in 32 bits') from None
    message = f'{name}.dtype={array.dtype} must be of'
    if declared.dtype is jnp.int32 and not jnp.issubdtype(array.dtype, jnp.integer):
        raise InputError(f'{message} whole numbers: {declared.doc}')
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise InputError(f'{message} real numbers: {declared.doc}')
    if declared.dtype and jnp.issubdtype(array.dtype, jnp.integer):
        # JAX has dropped the high bits of NumPy's integers.
        source = values if isinstance(values, np.ndarray) else array
        _check_whole(source, name, np.dtype(declared.dtype))
    return array


def _check_whole(values: jax.Array | np.ndarray, name: str, dtype: np.dtype) -> None:
    """Raises InputError if the dtype would change whole numbers that are not traced."""
    if isinstance(values, jax.core.Tracer) or np.can_cast(values.dtype, dtype):
        return
    # Python compares whole numbers and floats exactly.
    numbers = np.asarray(values).astype(object)
    changed = numbers != np.asarray(values).astype(dtype).astype(object)
    if changed.any():
        raise InputError(
            f'{name} has the whole number {numbers[changed].flat[0]}, which '
            f'{dtype.name} would change'
        )


def _one_for_each_problem(key: jax.Array, num_problems: int) -> jax.Array:
    """Wraps raw key data; folds a single key with each problem's row."""
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
