r"""Chains: answers of several sides, such as ``x=2+3=5`` and ``\sqrt2\approx1.41``.

Approximate signs split a chain into runs of equal sides. The chain's value is the last
number of the first run with a number. The chain's last side may replace it, if that is
the value rounded. A chain with a false statement is wrong: numbers joined by ``=`` must
be equal, and numbers after ``\approx`` must be near the value. If the value is
rational, a literal must be the value rounded or cut; an integer is near only itself.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from fractions import Fraction

from passk_jax.verifiers import exact
from passk_jax.verifiers.forms import (
    Bracketed,
    Collection,
    Equation,
    Expression,
    Form,
    Matrix,
    Quantity,
    Union,
)
from passk_jax.verifiers.matching import Compare, Judge, all_of, any_of
from passk_jax.verifiers.relations import is_name, is_number, numeric_sides, value_of
from passk_jax.verifiers.trees import Apply, Constant, Name, Node, Number, names, nodes
from passk_jax.verifiers.units import DEGREE, PERCENT, RADIAN, Unit

_HALF = Fraction(1, 2)
# Units that a bare number does not stand for.
_SCALED = (PERCENT, DEGREE, RADIAN)


def compare_chain(
    gold: Form, answer: Equation, compare: Compare, judge: Judge, near: Compare
) -> bool | None:
    """Compares the gold with the value of a chain.

    Args:
        gold: a form other than an equation.
        answer: the chain.
        compare: compares two forms.
        judge: judges numbers.
        near: compares two sides roughly.
    """
    answer = _with_letter(answer)
    runs = _runs(answer)
    if len(runs) == 1:
        sides = answer.items if numeric_sides(answer) else (value_of(answer),)
        equal_to_gold = any_of(compare(gold, side) for side in sides)
    else:
        value, last = _value(runs), answer.items[-1]
        equal_to_gold = compare(gold, value)
        if last is not value and is_number(value) and is_number(last):
            rounded = all_of((compare(gold, last), _is_rounded(value, last, judge)))
            equal_to_gold = any_of((equal_to_gold, rounded))
    about = [compare(gold, side) for side in runs[0] if _concerns(side, gold)]
    if not _concerns(answer.items[0], gold) and _is_about_multiple(gold, answer):
        return False
    return all_of((equal_to_gold, holds(answer, compare, judge, near), *about))


def _with_letter(chain: Equation) -> Equation:
    r"""Reads the ``e`` of ``e=\frac12`` or the ``i`` of ``i=5`` as a letter."""
    match chain.items[0]:
        case Expression(source, Constant('e' | 'i' as letter)) if chain.signs[0] == '=':
            first = Expression(source, Name(letter))
            return dataclasses.replace(chain, items=(first, *chain.items[1:]))
    return chain


def _is_about_multiple(gold: Form, answer: Equation) -> bool:
    """Returns whether a chain has the value of a multiple of a letter: ``2x=5``.

    Questions do want multiples of matrices and vectors, and lengths with a name, as in
    ``2r=d=5``.
    """
    first, *between, _ = answer.items
    if isinstance(gold, Matrix | Bracketed) or any(map(is_name, between)):
        return False
    if not isinstance(first, Expression) or first.tree is None:
        return False
    return not first.source.endswith('%') and _is_multiple(first.tree)


def _is_multiple(tree: Node) -> bool:
    r"""Returns whether a tree is a letter times a number, but no ``2\pi r``."""
    match tree:
        case Apply('-', (x,)):
            return isinstance(x, Name) or _is_multiple(x)
        case Apply('/', (x, number)) if not names(number):
            return isinstance(x, Name) or _is_multiple(x)
        # In f(2), the letter is first.
        case Apply('*', (*numbers, Name())):
            return not any(names(x) or x == Constant('pi') for x in numbers)
    return False


def _concerns(side: Form, gold: Form) -> bool:
    """Returns whether a side has only letters of the gold, as in ``0=x+1``.

    Roots, absolute values and the like do not count: a question may say that its letter
    is positive or whole.
    """
    if not isinstance(gold, Expression) or gold.tree is None or not names(gold.tree):
        return False
    if not isinstance(side, Expression) or side.tree is None:
        return False
    return names(side.tree) <= names(gold.tree) and all(
        map(_is_rational_function, nodes(side.tree))
    )


def _is_rational_function(node: Node) -> bool:
    match node:
        case Apply('^', (_, exponent)):
            return isinstance(exponent, Number) and exponent.value.denominator == 1
        case Apply(operation, _):
            return operation in '+-*/'
    return True


def holds(
    chain: Equation, compare: Compare, judge: Judge, near: Compare
) -> bool | None:
    """Returns whether the numbers of a chain are equal, or near, as the signs say."""
    runs = _runs(chain)
    equal_sides = (pair for run in runs for pair in _pairs(run))
    results = [compare(*pair) for pair in equal_sides]
    value = _value(runs)
    behind = itertools.dropwhile(lambda run: value not in run, runs)
    for run in itertools.islice(behind, 1, None):
        sides = [side for side in run if is_number(side)]
        results += [_is_near(value, side, judge, near) for side in sides]
    return all_of(results)


def _runs(chain: Equation) -> list[list[Form]]:
    """Splits the sides of a chain at its approximate signs."""
    runs = [[chain.items[0]]]
    for sign, side in zip(chain.signs, chain.items[1:], strict=True):
        if sign in ('=', r'\equiv'):
            runs[-1].append(side)
        else:
            runs.append([side])
    return runs


def _value(runs: list[list[Form]]) -> Form:
    """Returns the last number of the first run with a number.

    Without numbers, it is the first of the runs' last sides that is no name.
    """
    for run in runs:
        if numbers := [side for side in run if is_number(side)]:
            return numbers[-1]
    values = [run[-1] for run in runs if not is_name(run[-1])]
    return values[0] if values else runs[-1][-1]


def _pairs(run: list[Form]) -> Iterator[tuple[Form, Form]]:
    """Yields constants that must be equal: neighbours, and the first with each."""
    sides = [side for side in run if _is_constant(side)]
    yield from itertools.pairwise(sides)
    yield from ((sides[0], side) for side in sides[2:])


def _is_constant(form: Form) -> bool:
    if isinstance(form, Bracketed | Collection | Union):
        return all(map(_is_constant, form.items))
    return is_number(form)


def _is_near(value: Form, side: Form, judge: Judge, near: Compare) -> bool | None:
    match _convert_to_one_unit(value, side):
        case (tree, other) if _is_rational(tree) and _printed(other):
            return _lies_near(tree, other, judge)
        case (tree, other) if (printed := _printed(other)) and printed[1] < 1:
            return any_of((near(value, side), _lies_near(tree, other, judge)))
    return near(value, side)


def _is_rounded(value: Form, side: Form, judge: Judge) -> bool | None:
    """Returns whether a side is a number rounded; decimals do not round to integers."""
    match _convert_to_one_unit(value, side):
        case (Number(), Number(_, None)):
            return False
        case (tree, _) if _is_rational(tree, integer=True):
            return False
        case (tree, other) if _printed(other):
            return _lies_near(tree, other, judge)
    return False


def _lies_near(tree: Node, side: Node, judge: Judge) -> bool | None:
    """Returns whether a number is another, rounded or cut to its printed places."""
    printed = _printed(side)
    if printed is None:
        return None
    number, unit = printed
    if unit == 1 and _is_rational(tree, integer=True):
        return judge.lies_between(number, tree, number)
    # Only a number that is not a literal may be cut, and only to a decimal.
    cut = _HALF if unit == 1 or isinstance(tree, Number) else 1
    below, above = (_HALF, cut) if number > 0 else (cut, _HALF)
    return judge.lies_between(number - below * unit, tree, number + above * unit)


def _printed(tree: Node) -> tuple[Fraction, Fraction] | None:
    """Returns a literal's value and the unit of its last digit, else ``None``."""
    match tree:
        case Number(number, None) if number.denominator == 1:
            return number, Fraction(1)
        case Number(number, int(places)):
            return number, Fraction(1, 10**places)
        case Apply('*', (Number() as digits, Apply('^', (Number(ten), Number(power))))):
            printed = _printed(digits)
            if printed and ten == 10 and power.denominator == 1 and abs(power) < 400:
                scale = ten ** int(power)
                return printed[0] * scale, printed[1] * scale
    return None


def _is_rational(tree: Node, *, integer: bool = False) -> bool:
    number = exact.value_or_none(tree)
    return number is not None and (number.denominator == 1 or not integer)


def _convert_to_one_unit(value: Form, side: Form) -> tuple[Node, Node] | None:
    """Returns the trees of two numbers, the first in the unit of the second."""
    trees: list[Node] = []
    units: list[Unit] = []
    for form in (value, side):
        inner = form.value if isinstance(form, Quantity) else form
        if not isinstance(inner, Expression) or inner.tree is None:
            return None
        trees.append(inner.tree)
        units.append(form.unit if isinstance(form, Quantity) else Unit(''))
    dimensions = [unit.dimension for unit in units]
    if units[0] == units[1]:
        return trees[0], trees[1]
    factor = {PERCENT: Fraction(1, 100)}
    factors = [factor.get(unit.dimension, unit.factor) for unit in units]
    percent = set(dimensions) == {'', PERCENT}
    if dimensions[0] != dimensions[1] and '' in dimensions and not percent:
        # 5 may stand for 5 cm, but not for 5 degrees.
        unit = max(units, key=lambda unit: unit.dimension)
        bare = unit.dimension not in _SCALED and Fraction(1) in factors
        return (trees[0], trees[1]) if bare else None
    if dimensions[0] != dimensions[1] and not percent:
        return None
    scale = factors[0] / factors[1]
    if isinstance(trees[0], Number):
        return Number(trees[0].value * scale, trees[0].places), trees[1]
    return Apply('*', (trees[0], Number(scale))), trees[1]
