"""Evaluates trees at a point, at mpmath's working precision.

It bounds exponents, but not time.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import mpmath

from passk_jax.verifiers.trees import Constant, Name, Node, Number

# Bounds of a power's result and of a factorial's argument.
_MOST_BITS = 2**24
_MOST_FACTORIAL = 10**4

# Exponents up to this many bits lose no digits that count.
_SHORT_EXPONENT = 10

Point = Mapping[str, mpmath.mpf]
Value = mpmath.mpf | mpmath.mpc


class UndefinedError(ArithmeticError):
    """The expression has no value at a point, or one out of bounds."""


class Evaluation:
    """An evaluation at a point, at mpmath's working precision.

    Attributes:
        bits: bits that the operations so far may have lost: sums of terms that are
            far apart or cancel, floors and ceilings, and large exponents.
    """

    def __init__(
        self,
        point: Point,
        rename: Callable[[str], str],
        base: int | None,
        real: bool,
    ):
        self._point, self._rename = point, rename
        self._base, self._real = base, real
        self.bits = 0

    def value(self, tree: Node) -> Value:
        match tree:
            case Number(number):
                return real_number(number)
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
        self.bits += _lost_bits(tree.operation, arguments, result)
        return result


def _lost_bits(operation: str, arguments: Sequence[Value], result: Value) -> int:
    """Counts the bits of the arguments that the result may lose."""
    if operation == '+':
        sizes = [_bits(term) for term in (*arguments, result) if term]
        return max(sizes) - min(sizes) if sizes else 0
    if operation in ('floor', 'ceil'):
        return max(0, _bits(arguments[0]))
    if operation == '^':
        return max(0, _bits(arguments[1]) - _SHORT_EXPONENT)
    return 0


def _bits(number: Value) -> int:
    """Counts the bits before the point; negative for a small number."""
    return int(mpmath.mag(number)) if number and mpmath.isfinite(number) else 0


def real_number(number: Fraction) -> mpmath.mpf:
    """Returns a fraction at the working precision."""
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
    """Makes a function undefined for large arguments, which take long to reduce."""

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
