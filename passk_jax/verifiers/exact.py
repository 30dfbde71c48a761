r"""Evaluates expressions without variables exactly, as fractions.

Sums, products, quotients, powers, roots of perfect powers, factorials and binomials of
numbers are exact: ``3^{3^3}`` equals 7625597484987, and :math:`1/3^{2023}` differs from
:math:`1/3^{2024}`. Numbers and the work on them are bounded; beyond the bounds
:func:`value` raises. :mod:`passk_jax.verifiers.numeric` handles everything else, such
as ``\sqrt{2}``.

The tolerance is relative. A decimal of at least six places and six significant digits
may stand for a number without a finite decimal: it must be that number rounded or cut
at its last digit (0.166667 or 0.166666 for 1/6; not 0.1667, not 0.166668). A
decimal of at least 15 digits may differ from any number by the error of a double, a
relative 1e-14 (0.30000000000000004 for 0.3). Exact numbers are compared exactly.
"""

import functools
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from passk_jax.verifiers.trees import Apply, Name, Node, Number, names

# Bits of numerator and denominator together: 9,800 digits.
_MOST_BITS = 2**15
# Bits of all intermediate numbers; a tenth of a second.
_MOST_WORK = 2**20
_MOST_COEFFICIENT_BITS = 1000
_MOST_FACTORIAL = 3000
_ROUNDED_DIGITS, _DOUBLE_DIGITS = 6, 15
_DOUBLE_TOLERANCE = Fraction(1, 10**14)

_MOST_DIGITS = 4096
_INTEGER = re.compile(r'[+-]?[0-9]+')
_DECIMAL = re.compile(r'([+-]?)([0-9]*)\.([0-9]*)')
_RATIO = re.compile(r'([+-]?[0-9]+)/([0-9]+)')
_FRACTION = re.compile(
    r'([+-]?)\\[dtc]?frac(?:\{([+-]?[0-9]+)\}|([0-9]))(?:\{([0-9]+)\}|([0-9]))'
)


class TooLargeError(ValueError):
    """A number is too large to be computed exactly."""


def same(gold: Node, answer: Node) -> bool | None:
    """Returns whether two trees are the same number; ``None`` if either is not exact.

    >>> from passk_jax.verifiers.syntax import parse
    >>> same(parse('1/3'), parse('0.333333')), same(parse('1/20!'), parse('1/19!'))
    (True, False)
    """
    right, other = value_or_none(gold), value_or_none(answer)
    if right is None or other is None:
        return None
    return right == other or any(
        isinstance(decimal, Number) and stands_for(decimal, exact)
        for decimal, exact in ((gold, other), (answer, right))
    )


def stands_for(decimal: Number, exact: Fraction) -> bool:
    """Returns whether a decimal is this number rounded, or its double."""
    error = exact - decimal.value
    allowed = _DOUBLE_TOLERANCE * abs(exact)
    if _digits(decimal) >= _DOUBLE_DIGITS and abs(error) <= allowed:
        return True
    endless = exact.denominator
    for factor in (2, 5):
        while endless % factor == 0:
            endless //= factor
    return endless > 1 and is_rounding(decimal, error)


def is_rounding(decimal: Number, error: Any) -> bool:
    """Returns whether a decimal is a number rounded or cut at its last digit.

    Args:
        decimal: a literal; it is exact if it has fewer than six places or six digits.
        error: the number minus the decimal, as a fraction or an ``mpf``.

    >>> is_rounding(Number(Fraction(166667, 10**6), places=6), Fraction(-1, 3 * 10**6))
    True
    """
    places = decimal.places or 0
    if places < _ROUNDED_DIGITS or not is_long(decimal):
        return False
    last_places = error * 10**places * (1 if decimal.value > 0 else -1)
    return bool(-0.5 <= last_places < 1)


def is_long(decimal: Number) -> bool:
    """Returns whether a decimal has so many digits that it may be rounded."""
    return _digits(decimal) >= _ROUNDED_DIGITS


def _digits(decimal: Number) -> int:
    """Counts the significant digits of a decimal; 0 for other literals."""
    if decimal.places is None:
        return 0
    return len(str(int(abs(decimal.value) * 10**decimal.places)))


def value(tree: Node) -> Fraction | None:
    """Evaluates a tree to a rational number; ``None`` if that is not possible here.

    Raises:
        TooLargeError: a number in it is beyond the bounds.
    """
    return _Evaluation().value(tree)


def value_or_none(tree: Node) -> Fraction | None:
    """Does what :func:`value` does; ``None`` for a number beyond the bounds too."""
    try:
        return value(tree)
    except TooLargeError:
        return None


def find_coefficients(tree: Node) -> tuple[str, Fraction, Fraction] | None:
    """Returns x, a and b of a tree ``a x + b`` with a not 0; ``None`` for others.

    Also returns ``None`` if a or b has more than 300 digits.

    >>> from passk_jax.verifiers.trees import Apply, Name, Number
    >>> find_coefficients(Apply('+', (Number(Fraction(3)), Apply('-', (Name('x'),)))))
    ('x', Fraction(-1, 1), Fraction(3, 1))
    """
    if isinstance(tree, Name):
        return tree.name, Fraction(1), Fraction(0)
    if not isinstance(tree, Apply):
        return None
    inner = [x for x in tree.arguments if names(x)]
    values = [value_or_none(x) for x in tree.arguments if not names(x)]
    numbers = [x for x in values if x is not None]
    if len(inner) != 1 or len(numbers) < len(values):
        return None
    if (line := find_coefficients(inner[0])) is None:
        return None
    name, slope, shift = line
    match tree.operation, numbers:
        case '-', []:
            slope, shift = -slope, -shift
        case '+', _:
            shift = sum(numbers, shift)
        case '*', [factor] if factor:
            slope, shift = factor * slope, factor * shift
        case '/', [divisor] if divisor and inner[0] is tree.arguments[0]:
            slope, shift = slope / divisor, shift / divisor
        case _:
            return None
    bits = [max(abs(x.numerator), x.denominator).bit_length() for x in (slope, shift)]
    return (name, slope, shift) if max(bits) <= _MOST_COEFFICIENT_BITS else None


class _Evaluation:
    """An evaluation with a budget of work."""

    def __init__(self):
        self._work = _MOST_WORK

    def value(self, tree: Node) -> Fraction | None:
        if isinstance(tree, Number):
            return self._bounded(tree.value)
        if not isinstance(tree, Apply) or tree.operation not in _OPERATIONS:
            return None
        arguments = []
        for argument in tree.arguments:
            number = self.value(argument)
            if number is None:
                return None
            arguments.append(number)
        if tree.operation in '+*':
            # Step by step, so that each intermediate number is bounded.
            step = operator.add if tree.operation == '+' else operator.mul
            return functools.reduce(lambda a, b: self._bounded(step(a, b)), arguments)
        result = _OPERATIONS[tree.operation](*arguments)
        return None if result is None else self._bounded(result)

    def _bounded(self, number: Fraction) -> Fraction:
        bits = number.numerator.bit_length() + number.denominator.bit_length()
        self._work -= bits
        if bits > _MOST_BITS or self._work < 0:
            raise TooLargeError(f'a number of more than {_MOST_BITS} bits')
        return number


def _quotient(above: Fraction, below: Fraction) -> Fraction | None:
    return above / below if below else None


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator > 1:
        root = _root(base, Fraction(exponent.denominator))
        return None if root is None else _power(root, Fraction(exponent.numerator))
    if base == 0:
        return Fraction(0) if exponent > 0 else None
    bits = base.numerator.bit_length() + base.denominator.bit_length() - 2
    if bits * abs(exponent.numerator) > _MOST_BITS:
        raise TooLargeError('a power too large')
    if abs(base) == 1:
        return base if exponent.numerator % 2 else Fraction(1)
    return base**exponent.numerator


def _root(number: Fraction, degree: Fraction) -> Fraction | None:
    """Computes a root if it is rational; ``None`` for a negative number."""
    n = degree.numerator
    if degree.denominator > 1 or not 1 <= n <= 64 or number < 0:
        return None
    above, below = (_integer_root(part, n) for part in number.as_integer_ratio())
    return None if above is None or below is None else Fraction(above, below)


def _integer_root(number: int, n: int) -> int | None:
    if number < 2:
        return number
    # Newton's iteration from above falls until it reaches the floor of the root.
    root = 1 << -(-number.bit_length() // n)
    while (step := ((n - 1) * root + number // root ** (n - 1)) // n) < root:
        root = step
    return root if root**n == number else None


def _factorial(number: Fraction) -> Fraction | None:
    if number.denominator > 1 or number < 0:
        return None
    if number > _MOST_FACTORIAL:
        raise TooLargeError('a factorial too large')
    return Fraction(math.factorial(number.numerator))


def _binomial(above: Fraction, below: Fraction) -> Fraction | None:
    if above.denominator > 1 or below.denominator > 1 or min(above, below) < 0:
        return None
    if above > _MOST_FACTORIAL:
        raise TooLargeError('a binomial too large')
    return Fraction(math.comb(above.numerator, below.numerator))


_OPERATIONS: dict[str, Callable[..., Fraction | None]] = {
    '+': operator.add,
    '-': operator.neg,
    '*': operator.mul,
    '/': _quotient,
    '^': _power,
    '!': _factorial,
    'binom': _binomial,
    'sqrt': lambda a: _root(a, Fraction(2)),
    'root': _root,
    'cbrt': lambda a: _root(a, Fraction(3)),
    'abs': abs,
    'floor': lambda a: Fraction(math.floor(a)),
    'ceil': lambda a: Fraction(math.ceil(a)),
}


def rational(text: str) -> Fraction | None:
    r"""Reads a text that is an integer, a decimal or a fraction of integers.

    ``-3``, ``033``, ``0.5``, ``.5``, ``204.``, ``3/4``, ``\frac{3}{4}``, ``\dfrac34``,
    in ASCII digits. Returns ``None`` for anything else, such as ``1+1``.

    >>> rational('033'), rational('1+1')
    (Fraction(33, 1), None)
    """
    if len(text) > _MOST_DIGITS:
        return None
    if _INTEGER.fullmatch(text):
        return Fraction(int(text))
    if match := _DECIMAL.fullmatch(text):
        sign, before, behind = match.groups()
        if not before + behind:
            return None
        return Fraction(int(f'{sign}{before}{behind}'), 10 ** len(behind))
    if match := _RATIO.fullmatch(text):
        return _ratio(*match.groups())
    if match := _FRACTION.fullmatch(text):
        sign, *digits = match.groups()
        above, below = (digits[0] or digits[1]), (digits[2] or digits[3])
        number = _ratio(above, below)
        return -number if number is not None and sign == '-' else number
    return None


def _ratio(above: str, below: str) -> Fraction | None:
    return Fraction(int(above), int(below)) if int(below) else None
