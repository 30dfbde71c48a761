r"""Compares two expressions by their values to 40 digits, at several points.

Two polynomials that agree at random points are equal, with a negligible chance of
error; so are the elementary functions of answers. Constants need no point. Exact
expressions are compared to a relative 1e-30. A decimal may stand for the other number
as in exact.py; inside an expression it is accurate to a relative millionth.

Points have positive and negative coordinates. Only points count at which both sides are
defined and, without ``i``, real. So ``\sqrt{ab}`` equals ``\sqrt a\sqrt b``, and
``\sqrt{x^2}`` differs from ``x``. ``\log`` without a base is natural or of base ten,
whichever makes the two equal.

For worker processes: exponents are bounded, time is not.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import mpmath

from passk_jax.verifiers import exact
from passk_jax.verifiers.matching import NEAR
from passk_jax.verifiers.trees import Apply, Constant, Name, Node, Number, names, nodes

_DIGITS = 40
_TOLERANCE = mpmath.mpf(10) ** -30
# The tolerance where an expression contains a decimal.
_DECIMAL_TOLERANCE = mpmath.mpf(10) ** -6
# Smaller values may be rounding errors of 0, and are computed with more digits.
_SMALL = mpmath.mpf(10) ** -25
_LEAST_POINTS = 4
# Bounds of a power's result and of a factorial's argument.
_MOST_BITS = 2**24
_MOST_FACTORIAL = 10**4

Point = Mapping[str, mpmath.mpf]
Value = mpmath.mpf | mpmath.mpc


class UndefinedError(ArithmeticError):
    """The expression has no value at a point, or one out of bounds."""


def same(gold: Node, answer: Node) -> bool | None:
    r"""Returns whether two expressions are equal; ``None`` with too few values.

    >>> from passk_jax.verifiers.syntax import parse
    >>> same(parse(r'\sqrt{8}'), parse(r'2\sqrt2'))
    True
    """
    logarithms = [_uses_log(tree) for tree in (gold, answer)]
    result = None
    for base in (None, 10) if any(logarithms) else (None,):
        result = _same(gold, answer, base)
        if result:
            return True
    return result


def proportional(gold: Node, answer: Node) -> bool | None:
    """Returns whether one expression is a nonzero number times the other."""
    ratios = []
    for first, second in _values(gold, answer, None):
        if not first or not second:
            if first or second:
                return False
            continue
        ratios.append(first / second)
    if len(ratios) < _LEAST_POINTS and (names(gold) or names(answer)):
        return None
    return bool(ratios) and all(_close(ratios[0], ratio) for ratio in ratios)


def near(first: Node, second: Node) -> bool | None:
    """Returns whether one number is near another; ``None`` if they are no numbers."""
    for one, other in _values(first, second, None):
        return bool(abs(one - other) <= _number(NEAR) * abs(one))
    return None


def _same(gold: Node, answer: Node, base: int | None) -> bool | None:
    tolerance = _TOLERANCE
    if any(map(_has_decimal, (gold, answer))):
        tolerance = _DECIMAL_TOLERANCE
    count = 0
    for first, second in _values(gold, answer, base):
        count += 1
        if not _agree(gold, answer, first, second, tolerance):
            return False
    constants = not (names(gold) or names(answer))
    return True if count >= (1 if constants else _LEAST_POINTS) else None


def _agree(
    gold: Node, answer: Node, first: Value, second: Value, tolerance: mpmath.mpf
) -> bool:
    for literal, literal_value, other in (
        (gold, first, second),
        (answer, second, first),
    ):
        if isinstance(literal, Number) and literal.places is not None:
            error = other - literal_value
            if abs(mpmath.im(error)) < _TOLERANCE:
                # A short decimal is exact.
                rounded = exact.is_rounding(literal, mpmath.re(error))
                return rounded or _close(first, second)
    return _close(first, second, tolerance)


def _close(first: Value, second: Value, tolerance: mpmath.mpf = _TOLERANCE) -> bool:
    size = max(abs(first), abs(second))
    return abs(first - second) <= tolerance * size


def _has_decimal(tree: Node) -> bool:
    return any(
        isinstance(node, Number) and node.places is not None for node in nodes(tree)
    )


def _uses_log(tree: Node) -> bool:
    return any(
        isinstance(node, Apply) and node.operation == 'log' and len(node.arguments) == 1
        for node in nodes(tree)
    )


def _values(gold: Node, answer: Node, base: int | None) -> list[tuple[Value, Value]]:
    """Computes the values of both sides at the points that count."""
    rename = _same_case(names(gold), names(answer))
    variables = sorted({rename(name) for name in names(gold) | names(answer)})
    real = bool(variables) and not any(
        node == Constant('i') for tree in (gold, answer) for node in nodes(tree)
    )
    pairs = []
    for point in _points(variables):
        try:
            first, second = (
                _value_at(tree, point, rename, base=base, real=real)
                for tree in (gold, answer)
            )
        except (ArithmeticError, ValueError):
            continue
        pairs.append((first, second))
    return pairs


def _same_case(*sets: frozenset[str]) -> Callable[[str], str]:
    """Returns a function that folds case, if no side has a letter in both cases."""
    folded = all(len({name.lower() for name in side}) == len(side) for side in sets)
    return str.lower if folded else str


def _points(variables: Sequence[str]) -> list[Point]:
    if not variables:
        return [{}]
    return [
        {
            name: mpmath.mpf(_coordinate(number, place)) / 1009
            for place, name in enumerate(variables)
        }
        for number in range(12)
    ]


def _coordinate(number: int, place: int) -> int:
    """Returns a pseudo-random coordinate; at the first six points it is positive.

    Other points mix the signs. Some coordinates are below 1009, the denominator, for
    functions that need arguments below 1.
    """
    size = pow(7, 13 * number + 29 * place + 5, 10007) % (
        900 if number % 3 == 1 else 4100
    )
    size += 61
    return size if number < 6 or (number >> place % 3) & 1 else -size


def _value_at(
    tree: Node,
    point: Point,
    rename: Callable[[str], str],
    *,
    base: int | None,
    real: bool,
) -> Value:
    """Computes the value to 40 digits.

    A small value is computed again with more digits, which exposes rounding errors of
    0.
    """
    values = []
    for digits in (_DIGITS, 3 * _DIGITS):
        with mpmath.workdps(digits + 15):
            value = _Evaluation(point, rename, base, real).value(tree)
        if not mpmath.isfinite(value):
            raise UndefinedError
        if abs(value) > _SMALL:
            return value
        values.append(value)
    first, second = values
    return second if _close(first, second, _DECIMAL_TOLERANCE) else mpmath.mpf(0)


class _Evaluation:
    """An evaluation at a point, at mpmath's working precision."""

    def __init__(
        self,
        point: Point,
        rename: Callable[[str], str],
        base: int | None,
        real: bool,
    ):
        self._point, self._rename = point, rename
        self._base, self._real = base, real

    def value(self, tree: Node) -> Value:
        match tree:
            case Number(number):
                return _number(number)
            case Constant(name):
                return _CONSTANTS[name]()
            case Name(name):
                return self._point[self._rename(name)]
        arguments = [self.value(argument) for argument in tree.arguments]
        if tree.operation == 'log' and len(arguments) == 1 and self._base:
            arguments.append(mpmath.mpf(self._base))
        result = _OPERATIONS[tree.operation](*arguments)
        if self._real and isinstance(result, mpmath.mpc):
            raise UndefinedError
        return result


def _number(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


def _undefined(*_: Value) -> Value:
    raise UndefinedError


def _quotient(above: Value, below: Value) -> Value:
    if not below:
        raise UndefinedError
    return above / below


def _power(base: Value, exponent: Value) -> Value:
    if not base:
        if mpmath.re(exponent) <= 0:
            raise UndefinedError
        return mpmath.mpf(0)
    if abs(exponent) * abs(mpmath.log(abs(base), 2)) > _MOST_BITS:
        raise UndefinedError
    if isinstance(exponent, mpmath.mpf) and exponent == mpmath.floor(exponent):
        return base ** int(exponent)
    return mpmath.power(base, exponent)


def _root(number: Value, degree: Value) -> Value:
    if not degree:
        raise UndefinedError
    real = isinstance(number, mpmath.mpf) and isinstance(degree, mpmath.mpf)
    # An odd root of a negative number is its real root.
    if real and number < 0 and degree == mpmath.floor(degree) and int(degree) % 2:
        return -mpmath.power(-number, 1 / degree)
    return _power(number, 1 / degree)


def _factorial(number: Value) -> Value:
    if abs(number) > _MOST_FACTORIAL:
        raise UndefinedError
    return mpmath.factorial(number)


def _bounded(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """Returns the function, undefined where reducing its argument takes long."""

    @functools.wraps(function)
    def call(number: Value) -> Value:
        if abs(number) > 10**6:
            raise UndefinedError
        return function(number)

    return call


def _logarithm(number: Value, base: Value | None = None) -> Value:
    if not number or (base is not None and base in (0, 1)):
        raise UndefinedError
    return mpmath.log(number) if base is None else mpmath.log(number) / mpmath.log(base)


def _binomial(above: Value, below: Value) -> Value:
    if max(abs(above), abs(below)) > _MOST_FACTORIAL:
        raise UndefinedError
    return mpmath.binomial(above, below)


_CONSTANTS = {
    'pi': lambda: +mpmath.pi,
    'e': lambda: +mpmath.e,
    'i': lambda: mpmath.mpc(0, 1),
    'infinity': _undefined,
}
_OPERATIONS: dict[str, Callable[..., Value]] = {
    '+': lambda *terms: mpmath.fsum(terms),
    '-': lambda a: -a,
    '*': lambda *factors: mpmath.fprod(factors),
    '/': _quotient,
    '^': _power,
    '!': _factorial,
    'binom': _binomial,
    'sqrt': mpmath.sqrt,
    'root': _root,
    'cbrt': lambda a: _root(a, mpmath.mpf(3)),
    'abs': abs,
    'sgn': mpmath.sign,
    'floor': mpmath.floor,
    'ceil': mpmath.ceil,
    'log': _logarithm,
    'ln': _logarithm,
    'lg': lambda a: _logarithm(a, mpmath.mpf(10)),
    'arccot': lambda a: mpmath.atan(_quotient(mpmath.mpf(1), a)),
    **{
        name: _bounded(getattr(mpmath, name))
        for name in ('sin', 'cos', 'tan', 'cot', 'sec', 'csc', 'exp')
    },
    **{
        name: _bounded(getattr(mpmath, name))
        for name in ('sinh', 'cosh', 'tanh', 'coth')
    },
    **{f'arc{name}': getattr(mpmath, f'a{name}') for name in ('sin', 'cos', 'tan')},
}
