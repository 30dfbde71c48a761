"""What a row of ``ESTIMATORS`` declares: a function, its inputs and its parameters.

Everything else follows from the row: the keys of ``config.advantage`` and their
checks, the tables of experiments/papers.md, and the curve in the report. The rows
themselves are in ``table.py``.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from passk_jax.config.ranges import check_float32
from passk_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of one estimator or of several, ``config.advantage.<name>``.

    Attributes:
        name: its keyword and its key in the config.
        default: used where no value is given. Its type, int, float, str or a tuple of
            floats, is the parameter's.
        doc: one line: what it is, and the source of the default.
        low, high: bounds of a number, inclusive; ``'N'`` is the number of rollouts.
        above: a bound that is not allowed itself.
        choices: the values of a str.
        required: whether ``make_estimator`` insists on a value; only a config then
            uses the default.
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
        """Says in words which values are allowed; ``high`` replaces the upper bound."""
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
        """Checks a value.

        Args:
            value: of any type.
            num_rollouts: N; ``None``: any.
            section: what precedes the name in the message, as in ``'advantage.'``.

        Raises:
            ValueError: another type, out of range, or not one of the choices.
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
        """A checked value in the parameter's own type: 2 and 2.0 are one value."""
        if isinstance(self.default, tuple):
            return tuple(map(float, value))
        return type(self.default)(value)

    def _is_number(self, value: Any) -> bool:
        integer, real = (int, np.integer), (int, float, np.number)
        kinds = integer if isinstance(self.default, int) else real
        # A bool is an int to Python; k=True is a mistake, not a group of one.
        good = isinstance(value, kinds) and not isinstance(value, bool)
        return good and math.isfinite(value)


@dataclasses.dataclass(frozen=True)
class Input:
    """An array that an estimator may read.

    Attributes:
        shape: in the letters of the glossary, such as ``'P N'``.
        dtype: what it is converted to; a ``bool`` must be one already.
        doc: one line, with the unit.
        typical: the value that every response or problem has in the report's curve; 0
            for the inputs that the curve varies.
        remembered: whether it describes earlier steps; an estimator that reads it has
            a memory (``history.py``).
    """

    shape: str
    dtype: Any
    doc: str
    typical: float = 0
    remembered: bool = False


INPUTS: Mapping[str, Input] = {
    'rewards': Input('P N', jnp.float32, 'what the policy is paid'),
    'correct': Input('P N', bool, "the verifier's own channel"),
    'key': Input('P', None, 'a random key for each problem, made from its id'),
    'mean_entropy': Input(
        'P', jnp.float32, "nats, mean over the tokens of a problem's responses", 1
    ),
    'lengths': Input(
        'P N', jnp.int32, 'tokens of each response, its stop token included', 100
    ),
    'answers': Input(
        'P N', jnp.int32, 'equal numbers for equal parsed answers to a problem', 100
    ),
    'log_probs': Input(
        'P N',
        jnp.float32,
        "nats, sum over a response's tokens, its stop token included, of "
        '``Rollouts.sampler_log_probs``: of the distribution that they were drawn '
        'from, with temperature, top-k and top-p',
        -100,
    ),
    'history': Input(
        'W C',
        jnp.int32,
        'how many problems of each of the last W steps, the newest last, had 0, 1, ... '
        'N right responses; W is the parameter ``window`` of whoever reads it',
        1,
        remembered=True,
    ),
}


@dataclasses.dataclass(frozen=True)
class Objective:
    """What a curve climbs on a problem, up to a constant.

    Attributes:
        value: ``value(p, N, **parameters)``, over the probability p of success.
        at_infinity: whether the curve climbs it only as N grows.
    """

    value: Callable[..., np.ndarray | float]
    at_infinity: bool = False


@dataclasses.dataclass(frozen=True)
class Estimator:
    """A row of ``ESTIMATORS``.

    Tests compute what ``centered``, ``exchangeable``, ``follows_verdicts`` and
    ``objective`` declare, for every row.

    Attributes:
        compute: called with exactly the arrays of ``reads`` and a value for each of
            ``parameters``, all by keyword. The first line of its docstring says in
            experiments/papers.md what the estimator is.
        reads: names of :data:`INPUTS`. A ``key`` arrives as one for each problem.
        parameters: its parameters; ``compute`` has no defaults of its own.
        note: what a reader of its curve in the report should know.
        fits: ``fits(num_rollouts=N, **parameters)`` raises ValueError for values that
            are each in their range and do not fit N or one another.
        pools_problems: whether the rewards of other problems of the step enter an
            advantage. It then has no weight of its own, and its curve is that of a
            step in which every share of right responses is as frequent.
        centered: whether the advantages of a problem sum to 0. Where they do not, they
            may move the policy although all responses are right, or all wrong.
        exchangeable: whether a permutation of responses permutes their advantages; not
            where chance or place puts responses into groups.
        follows_verdicts: whether no right response is discouraged and no wrong one
            encouraged, if they differ in nothing but the verdict.
        objective: what it climbs, where that has a closed form.
    """

    compute: Callable[..., Float[Array, 'P N']]
    reads: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    note: str = ''
    fits: Callable[..., None] | None = None
    pools_problems: bool = False
    centered: bool = True
    exchangeable: bool = True
    follows_verdicts: bool = True
    objective: Objective | None = None

    @property
    def has_memory(self) -> bool:
        """Whether its advantages depend on earlier steps."""
        return any(INPUTS[name].remembered for name in self.reads)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (self.compute.__doc__ or '').partition('\n')[0]
