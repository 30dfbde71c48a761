r"""Compares two expressions by their values to 40 digits, at several points.

Two polynomials that agree at random points are equal, with a negligible chance of
error; so are the elementary functions of answers. Constants need no point. Exact
expressions are compared to a relative 1e-30, and to as many more digits as the terms of
their sums are apart: ``e^{100}-1`` differs from ``e^{100}``. Beyond a bound of digits,
they are equal only if they have the same terms. A decimal may stand for the other
number as in exact.py. Inside an expression, a decimal of six digits is accurate to a
relative millionth.

Points have positive and negative coordinates. Only points count at which both sides are
defined and, without ``i``, real. So ``\sqrt{ab}`` equals ``\sqrt a\sqrt b``, and
``\sqrt{x^2}`` differs from ``x``. ``\log`` without a base is natural or of base ten,
whichever makes the two equal.

For worker processes: exponents are bounded, time is not.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath

from passk_jax.verifiers import exact
from passk_jax.verifiers.evaluation import (
    Evaluation,
    Point,
    UndefinedError,
    Value,
    real_number,
)
from passk_jax.verifiers.matching import NEAR
from passk_jax.verifiers.trees import (
    Apply,
    Constant,
    Node,
    Number,
    names,
    nodes,
    sort_arguments,
)

_DIGITS = 40
_TOLERANCE = mpmath.mpf(10) ** -30
# Digits by which the terms of sums are apart. Up to _FEW need no more precision. Values
# with more than these limits are left out: roots, other numbers, with variables.
_FEW = 12
_MOST_OF_ROOTS, _MOST_OF_NUMBERS, _MOST_WITH_NAMES = 16_000, 3_000, 1_500
_ROOTS = frozenset(('+', '-', '*', '/', '^', '!', 'binom', 'sqrt', 'root', 'cbrt'))
_BITS_PER_DIGIT = 3.32
# The tolerance for expressions with a decimal of six digits or more.
_DECIMAL_TOLERANCE = mpmath.mpf(10) ** -6
# Smaller values may be rounding errors of 0, and are computed with more digits.
_SMALL = mpmath.mpf(10) ** -25
_LEAST_POINTS = 4


@dataclasses.dataclass(frozen=True)
class _Sample:
    """Values of two expressions at some points.

    Attributes:
        pairs: the values.
        digits: the digits beyond 30 to which they are compared.
        is_enough: False if a point was left out because it needs too many digits.
    """

    pairs: Sequence[tuple[Value, Value]]
    digits: int
    is_enough: bool

    @property
    def tolerance(self) -> mpmath.mpf:
        return _TOLERANCE * mpmath.mpf(10) ** -self.digits


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
    sample = _values(gold, answer, None)
    for first, second in sample.pairs:
        if not first or not second:
            if first or second:
                return False
            continue
        with mpmath.workdps(_DIGITS + sample.digits):
            ratios.append(first / second)
    if len(ratios) < _LEAST_POINTS and (names(gold) or names(answer)):
        return _same_terms(gold, answer, sample)
    return bool(ratios) and all(
        _close(ratios[0], ratio, sample.tolerance) for ratio in ratios
    )


def near(first: Node, second: Node) -> bool | None:
    """Returns whether one number is near another; ``None`` if either has no value."""
    for one, other in _values(first, second, None).pairs:
        return bool(abs(one - other) <= real_number(NEAR) * abs(one))
    return None


def lies_between(low: Fraction, tree: Node, high: Fraction) -> bool | None:
    """Returns whether a real number is between bounds; ``None`` if it has no value."""
    for number, _ in _values(tree, tree, None).pairs:
        real = abs(mpmath.im(number)) < _TOLERANCE
        with mpmath.workdps(_DIGITS):
            bounds = real_number(low), real_number(high)
        return bool(real and bounds[0] <= mpmath.re(number) <= bounds[1])
    return None


def _same(gold: Node, answer: Node, base: int | None) -> bool | None:
    sample = _values(gold, answer, base)
    for first, second in sample.pairs:
        if not _agree(gold, answer, first, second, sample.tolerance):
            return False
    constants = not (names(gold) or names(answer))
    if len(sample.pairs) >= (1 if constants else _LEAST_POINTS):
        return True
    return _same_terms(gold, answer, sample)


def _same_terms(gold: Node, answer: Node, sample: _Sample) -> bool | None:
    """Compares terms if points were left out for their digits, else ``None``."""
    return None if sample.is_enough else sort_arguments(gold) == sort_arguments(answer)


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
                return rounded or _close(first, second, tolerance)
    if _has_decimal(gold) or _has_decimal(answer):
        tolerance = _DECIMAL_TOLERANCE
    return _close(first, second, tolerance)


def _close(first: Value, second: Value, tolerance: mpmath.mpf) -> bool:
    size = max(abs(first), abs(second))
    return abs(first - second) <= tolerance * size


def _has_decimal(tree: Node) -> bool:
    return any(isinstance(node, Number) and exact.is_long(node) for node in nodes(tree))


def _uses_log(tree: Node) -> bool:
    return any(
        isinstance(node, Apply) and node.operation == 'log' and len(node.arguments) == 1
        for node in nodes(tree)
    )


def _values(gold: Node, answer: Node, base: int | None) -> _Sample:
    """Computes the values of both sides at the points that count."""
    rename = _same_case(names(gold), names(answer))
    variables = sorted({rename(name) for name in names(gold) | names(answer)})
    real = bool(variables) and not any(
        node == Constant('i') for tree in (gold, answer) for node in nodes(tree)
    )
    at = functools.partial(_values_at, (gold, answer), rename, base=base, real=real)
    points = _points(variables)
    if variables and (_is_rounded(gold) or _is_rounded(answer)):
        points += _whole_points(variables)
    samples = [at(point, 0) for point in points]
    most = min(map(_most_digits, (gold, answer)))
    few = [sample for sample in samples if sample and sample[2] <= most]
    digits = max((digits for _, _, digits in few), default=0)
    enough = len(few) == sum(map(bool, samples))
    if digits <= _FEW:
        return _Sample([(one, other) for one, other, _ in few], 0, enough)
    points = [p for p, s in zip(points, samples, strict=True) if s in few]
    again = filter(None, (at(point, digits) for point in points))
    return _Sample([(one, other) for one, other, _ in again], digits, enough)


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


def _is_rounded(tree: Node) -> bool:
    rounds = ('floor', 'ceil')
    return any(isinstance(x, Apply) and x.operation in rounds for x in nodes(tree))


def _whole_points(variables: Sequence[str]) -> list[Point]:
    """Returns points of small whole numbers, where floors differ from ceilings."""
    return [
        {
            name: mpmath.mpf(2 + (number + 5 * place) % 9)
            for place, name in enumerate(variables)
        }
        for number in range(8)
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


def _most_digits(tree: Node) -> int:
    if names(tree):
        return _MOST_WITH_NAMES
    roots = all(
        node.operation in _ROOTS
        if isinstance(node, Apply)
        else isinstance(node, Number)
        for node in nodes(tree)
    )
    return _MOST_OF_ROOTS if roots else _MOST_OF_NUMBERS


def _values_at(
    trees: tuple[Node, Node],
    rename: Callable[[str], str],
    point: Point,
    more: int,
    *,
    base: int | None,
    real: bool,
) -> tuple[Value, Value, int] | None:
    """Computes two values and the digits that they may lose; ``None`` if undefined.

    Args:
        trees: the expressions.
        rename: from a variable to its name in the point.
        point: a coordinate for each variable.
        more: digits beyond 40; it computes with twice as many, as some may be lost.
        base: of ``\\log`` without a base.
        real: whether a value that is not real is undefined.
    """
    evaluations = [Evaluation(point, rename, base, real) for _ in trees]
    try:
        first, second = (
            _value_at(tree, evaluation, 2 * more)
            for tree, evaluation in zip(trees, evaluations, strict=True)
        )
    except (ArithmeticError, ValueError):
        return None
    bits = max(evaluation.bits for evaluation in evaluations)
    return first, second, int(bits / _BITS_PER_DIGIT)


def _value_at(tree: Node, evaluation: Evaluation, more: int) -> Value:
    """Computes the value to 40 digits, and some more.

    A small value is computed again with more digits, which exposes rounding errors of
    0.
    """
    values = []
    for digits in (_DIGITS, 3 * _DIGITS):
        with mpmath.workdps(digits + more + 15):
            value = evaluation.value(tree)
        if not mpmath.isfinite(value):
            raise UndefinedError
        if abs(value) > _SMALL:
            return value
        values.append(value)
    first, second = values
    return second if _close(first, second, _DECIMAL_TOLERANCE) else mpmath.mpf(0)
