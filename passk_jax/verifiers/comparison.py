"""Compares two forms: the gold's form decides what counts.

A comparison returns True, False, or ``None`` if the judge of expressions cannot decide.
In the parent, the judge is exact arithmetic (:class:`Exact`). In a worker, it computes
values to 40 digits, and math-verify decides the rest (equality.py).
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from passk_jax.verifiers import exact
from passk_jax.verifiers.chains import compare_chain, holds
from passk_jax.verifiers.clock import clock_rule
from passk_jax.verifiers.congruences import congruence_rule, remainder_of
from passk_jax.verifiers.domains import agree, head_of, rename_index
from passk_jax.verifiers.forms import (
    Based,
    Bracketed,
    Clock,
    Collection,
    Congruence,
    Equation,
    Expression,
    Form,
    Inequality,
    Matrix,
    Option,
    Quantity,
    Ratio,
    Restricted,
    Several,
    Union,
    Unread,
    Words,
)
from passk_jax.verifiers.lists import (
    bracketed_rule,
    collection_rule,
    letters_of,
    matrix_rule,
    several_rule,
    union_rule,
)
from passk_jax.verifiers.matching import (
    NEAR,
    Compare,
    Judge,
    all_of,
    any_of,
    match_in_any_order,
    match_in_order,
)
from passk_jax.verifiers.named_values import spread
from passk_jax.verifiers.reading import read, read_as_list
from passk_jax.verifiers.relations import equation_rule, inequality_rule
from passk_jax.verifiers.scaling import (
    combined,
    convert_beside,
    convert_to_radians,
    has_pi,
    integer,
    quotient,
    times,
)
from passk_jax.verifiers.tokens import literal
from passk_jax.verifiers.trees import Name, Node, names
from passk_jax.verifiers.units import (
    DEGREE,
    MONEY,
    PERCENT,
    RADIAN,
    are_opposite,
    letter_of,
    spell_scale,
)
from passk_jax.verifiers.vocabulary import NO_SOLUTION, SYNONYMS

# ab_{16} may be a product.
_SMALL_DIGITS = re.compile(r'[0-9a-z]+_(?:\{[0-9]+\}|[0-9]+)')
# Blanks, except between two numbers.
_BLANK = re.compile(r'(?<![0-9])\s+|\s+(?![0-9])')
_LETTER_BEHIND = re.compile(
    r'(?<=[0-9.])\s*([a-zA-Z])$|(?<=[0-9.})])\s*(?:\\text\{ *(k) *\})? *\\(Omega)$'
)
_UNIT_BEHIND = re.compile(r'^-?[0-9.,]+\s*(?:[msgL]|\\Omega)$')
# The letter of a choice and its value: C (12).
_LETTER_BEFORE = re.compile(
    r'([A-Z]) *(?:\\text\{ *)?\((?=[^()]*[0-9])[^()A-Z]*\) *\}?'
)
# 2e-7: 2e less 7, or a number as programs write it.
_EITHER = re.compile(r'(-?)([0-9]+e-[1-9][0-9]{0,3})')
# -100,100 is rather plus or minus 100 than one number.
_BOTH_SIGNS = re.compile(r'-([0-9]{3}),\1')
_SINGLE = (Expression, Quantity, Ratio, Equation)


class Exact:
    """The judge of the parent, which compares exact numbers and equal trees."""

    def same(self, gold: Expression, answer: Expression) -> bool | None:
        """Compares two expressions; see :class:`Judge`."""
        if gold == answer or _squeezed(gold.source) == _squeezed(answer.source):
            return True
        if gold.tree is None or answer.tree is None:
            return None
        if gold.tree == answer.tree:
            return True
        return exact.same(gold.tree, answer.tree)

    def proportional(self, gold: Node, answer: Node) -> bool | None:
        """Compares two trees up to a factor; see :class:`Judge`."""
        return True if gold == answer else None

    def near(self, first: Node, second: Node) -> bool | None:
        """Compares two numbers roughly; see :class:`Judge`."""
        value, other = exact.value_or_none(first), exact.value_or_none(second)
        if value is None or other is None:
            return None
        return abs(value - other) <= NEAR * abs(value)

    def lies_between(self, low: Fraction, tree: Node, high: Fraction) -> bool | None:
        """Compares a number with two bounds; see :class:`Judge`."""
        value = exact.value_or_none(tree)
        return None if value is None else low <= value <= high


def _squeezed(text: str) -> str:
    return _BLANK.sub('', text)


def equal(gold: Form, answer: Form, judge: Judge) -> bool | None:
    """Returns whether an answer equals the gold; not symmetric."""
    if gold == answer:
        return True
    compare = functools.partial(equal, judge=judge)
    match gold, answer:
        case (Restricted(), _) | (_, Restricted()):
            heads = head_of(gold, gold), head_of(answer, gold)
            return compare(*heads) if agree(gold, answer) else False
        case (Bracketed() | Matrix(), Bracketed()) | (Bracketed(), Matrix()):
            pass
        case (Bracketed('[', (item,)), _):
            return compare(item, answer)
        case (_, Bracketed('[', (item,))):
            return compare(gold, item)
        case (Option(), Equation(_, items)) if len(_options(items)) > 1:
            return False
    if isinstance(gold, Unread) or isinstance(answer, Unread):
        return None
    match gold, answer:
        # 30,150 may be one number or two.
        case (Several(items) | Collection(items) | Bracketed(_, items), _):
            if len(items) > 1 and (several := read_as_list(answer)):
                return compare(gold, several)
        case (Expression(text), Several(items, '')) if several := read_as_list(gold):
            if not all(isinstance(item, Expression) for item in items):
                return False
            any_order = _BOTH_SIGNS.fullmatch(text)
            match_items = match_in_any_order if any_order else match_in_order
            return match_items(several.items, items, compare)
    match answer:
        case Several((first, Inequality(_, (Expression(_, Name(name)), _), (r'\ne',)))):
            # x + 1, x \ne 1: the answer, and where it is defined.
            if not isinstance(gold, Several) and name in _names(gold):
                return compare(gold, first)
        case Several(items, 'or') if isinstance(gold, _SINGLE):
            # 1/4 or 0.25, but not 25 or 0.25 for 25 per cent.
            twice = (compare(items[0], item) for item in items[1:])
            return all_of((*(compare(gold, item) for item in items), *twice))
    if isinstance(gold, Bracketed | Several | Equation):
        gold, answer = spread(gold), spread(answer)
    if isinstance(answer, Equation):
        near = functools.partial(_near, judge=judge)
        if not isinstance(gold, Equation):
            return compare_chain(gold, answer, compare, judge, near)
        truth = holds(answer, compare, judge, near)
        return all_of((truth, equation_rule(gold, answer, compare, judge)))
    if isinstance(answer, Option) and answer.text and not isinstance(gold, Option):
        return compare(gold, read(answer.text))
    return _RULES[type(gold)](gold, answer, compare, judge)


def _names(form: Form) -> frozenset[str]:
    items = form.items if isinstance(form, Equation) else (form,)
    trees = [item.tree for item in items if isinstance(item, Expression)]
    return frozenset(name for tree in trees if tree for name in names(tree))


def _expression(
    gold: Expression, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    match answer:
        case Expression(source, _):
            if gold.tree and not names(gold.tree) and _UNIT_BEHIND.search(source):
                # If the gold is a number, 5m has a unit.
                return compare(gold, _with_unit(answer))
            pairs = [(g, a) for g in _readings(gold) for a in _readings(answer)]
            pairs += [(g, rename_index(g, a)) for g, a in pairs]
            return any_of(judge.same(*pair) for pair in dict.fromkeys(pairs))
        case Quantity(value, unit):
            letter = letter_of(unit)
            if letter and letter in _names(gold):
                # If the gold is 5s, 5 s is a product.
                product = combined('*', value, Expression(letter, Name(letter)))
                return compare(gold, product)
            return _number_and_quantity(gold, answer, compare)
        case Collection((item,)) | Union((item,)):
            return compare(gold, item)
        case Ratio((above, below)):
            return compare(gold, quotient(above, below))
        case Clock((above, below), ''):
            return compare(gold, quotient(integer(above), integer(below)))
        case Congruence():
            remainder = remainder_of(answer)
            return compare(gold, remainder) if remainder else False
        case Words(text) | Option(text, ''):
            return _letters(gold.source) == text.casefold()
        case Bracketed() | Inequality() | Collection() | Union():
            # A gold that only math-verify reads may be a set: \mathbb{R}.
            return None if gold.tree is None else False
    return False


def _readings(form: Expression) -> list[Expression]:
    """Returns the readings of an expression; ``2e-7`` is a difference or a number."""
    match = _EITHER.fullmatch(form.source)
    if not match:
        return [form]
    number = literal(match[2])
    minus = -1 if match[1] else 1
    written = dataclasses.replace(number, value=minus * number.value)
    return [form, Expression(f'{form.source} written', written)]


def _number_and_quantity(
    number: Expression, quantity: Quantity, compare: Compare
) -> bool | None:
    """Compares a number without a unit and one with it; either may be the gold."""
    value, unit = quantity.value, quantity.unit
    if unit.dimension == PERCENT:
        return any_of(
            (compare(number, value), compare(number, times(value, Fraction(1, 100))))
        )
    if unit.dimension == DEGREE and number.tree and has_pi(number.tree):
        return compare(number, convert_to_radians(value))
    # 5 million is 5,000,000 without a unit; 5 cm is 5.
    if unit.factor != 1 and (not unit.dimension or unit.dimension in MONEY):
        scale = unit.factor if unit.factor > 1 else 1
        return compare(number, times(value, Fraction(scale)))
    return compare(number, value)


def _letters(source: str) -> str:
    return ''.join(sign for sign in source if sign not in '{} ').casefold()


def _quantity(
    gold: Quantity, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    match answer:
        case Quantity():
            return _same_unit(gold, answer, compare)
        case Expression(source, _):
            if gold.unit.dimension in MONEY and spell_scale(source) != source:
                return compare(gold, read(spell_scale(source)))
            # If the gold is 7 hours, 7 h has a unit.
            if gold.unit.dimension and _LETTER_BEHIND.search(source):
                quantity = _with_unit(answer)
                return isinstance(quantity, Quantity) and compare(gold, quantity)
            return _number_and_quantity(answer, gold, compare)
    return compare(gold.value, answer)


def _with_unit(form: Expression) -> Form:
    """Reads the last letter as a unit, if it is one."""
    return read(_LETTER_BEHIND.sub(r'\\text{ \1\2\3}', form.source))


def _same_unit(gold: Quantity, answer: Quantity, compare: Compare) -> bool | None:
    """Compares two values with units, perhaps of different sizes."""
    if are_opposite(gold.unit, answer.unit):
        return False
    units = [dataclasses.replace(form.unit, sense='') for form in (gold, answer)]
    dimensions = {unit.dimension for unit in units}
    if dimensions == {DEGREE, RADIAN}:
        return compare(*map(_convert_degrees, (gold, answer)))
    if units[0] != units[1] and len(dimensions) > 1 and '' not in dimensions:
        return False
    bare = [unit for unit in units if not unit.dimension]
    # 12 ways are things without a size; 5 million has a size.
    if units[0] == units[1] or (bare and all(unit.factor == 1 for unit in bare)):
        return compare(gold.value, answer.value)
    return compare(*(times(form.value, form.unit.factor) for form in (gold, answer)))


def _convert_degrees(form: Quantity) -> Form:
    in_degrees = form.unit.dimension == DEGREE
    return convert_to_radians(form.value) if in_degrees else form.value


def _based(gold: Based, answer: Form, compare: Compare, judge: Judge) -> bool | None:
    if isinstance(answer, Expression) and _SMALL_DIGITS.fullmatch(answer.source):
        return gold == read(answer.source.upper())
    return False


def _ratio(gold: Ratio, answer: Form, compare: Compare, judge: Judge) -> bool | None:
    match answer:
        case Clock(numbers, ''):
            answer = Ratio(tuple(map(integer, numbers)))
        case Expression() if len(gold.items) == 2:
            return compare(quotient(*gold.items), answer)
    if not isinstance(answer, Ratio) or len(gold.items) != len(answer.items):
        return False
    first = gold.items[0], answer.items[0]
    return all_of(
        compare(combined('*', item, first[1]), combined('*', other, first[0]))
        for item, other in zip(gold.items[1:], answer.items[1:], strict=True)
    )


def _near(first: Form, second: Form, judge: Judge) -> bool | None:
    """Compares two numbers roughly, in one unit; other sides always count as near."""
    pairs = itertools.product(
        convert_beside(second, first), convert_beside(first, second)
    )
    return any_of(_near_numbers(*pair, judge) for pair in pairs)


def _near_numbers(first: Form, second: Form, judge: Judge) -> bool | None:
    trees = [form.tree for form in (first, second) if isinstance(form, Expression)]
    match [tree for tree in trees if tree is not None and not names(tree)]:
        case [number, other]:
            return judge.near(number, other)
    return True


def _options(items: Iterable[Form]) -> set[str]:
    return {item.letter for item in items if isinstance(item, Option)}


def _option(gold: Option, answer: Form, compare: Compare, judge: Judge) -> bool | None:
    match answer:
        case Option(letter, _):
            return gold.letter == letter
        case Expression(source, _) if len(source) == 1:
            return source.upper() == gold.letter
        case Expression(source, _) if match := _LETTER_BEFORE.fullmatch(source):
            return match[1] == gold.letter
        case Words(text):
            return text in (gold.letter.casefold(), f'({gold.letter.casefold()})')
    return compare(read(gold.text), answer) if gold.text else False


def _words(gold: Words, answer: Form, compare: Compare, judge: Judge) -> bool | None:
    match answer:
        case Words(text):
            texts = {gold.text, text}
            return len(texts) == 1 or any(texts <= words for words in SYNONYMS)
        case Expression(source, _):
            return _letters(source) == gold.text.replace(' ', '')
        case Option(letter, ''):
            return gold.text == letter.casefold()
        case Several(items):
            # A, C, D for ACD.
            return gold.text == letters_of(items)
        case Collection((item,)):
            return compare(gold, item)
        case Collection(()):
            return gold.text in NO_SOLUTION
    return False


def _never(gold: Form, answer: Form, compare: Compare, judge: Judge) -> bool | None:
    return None


_RULES: dict[type, Callable[..., bool | None]] = {
    Expression: _expression,
    Quantity: _quantity,
    Based: _based,
    Bracketed: bracketed_rule,
    Several: several_rule,
    Collection: collection_rule,
    Union: union_rule,
    Ratio: _ratio,
    Clock: clock_rule,
    Congruence: congruence_rule,
    Equation: equation_rule,
    Inequality: inequality_rule,
    Matrix: matrix_rule,
    Option: _option,
    Words: _words,
    Unread: _never,
}
