"""Equations and inequalities: the value of a name, the interval of a variable."""

import itertools
import math
import re
from collections.abc import Sequence
from fractions import Fraction

from passk_jax.verifiers import exact
from passk_jax.verifiers.forms import (
    Bracketed,
    Collection,
    Equation,
    Expression,
    Form,
    Inequality,
    Option,
    Quantity,
    Several,
    Union,
    Words,
)
from passk_jax.verifiers.matching import (
    Compare,
    Judge,
    all_of,
    any_of,
    match_in_any_order,
    match_in_order,
)
from passk_jax.verifiers.name_pairs import may_name_one_thing, names_a_function
from passk_jax.verifiers.trees import (
    Apply,
    Constant,
    Name,
    Node,
    Number,
    names,
    negative,
    nodes,
)

# f(x), f^{-1}(x), P(A), m\angle ABC, A_{total}, \text{Area}, AB, dy/dx.
_LONG_NAME = re.compile(
    r"[A-Za-z](?:\^\{?-?1\}?|'+)?(?:_\{?\w+\}?)?\((?:[a-zA-Z](?:,\s*[a-zA-Z])*)\)"
    r'|(?:m\s*)?\\(?:angle|triangle|overline|text)\s*\{?[A-Za-z ]+\}?'
    r'|[A-Z]{2,4}|\\[a-z]+|\|?[A-Z]{2}\|?'
    r'|\\frac\{d[a-z]?(?:\^\{?[2-9]\}?)?(?: ?[a-z])?\}\{d[a-z](?:\^\{?[2-9]\}?)?\}'
)
_COMPLEX = re.compile('[zwZW]|omega')
_INFINITY = Expression(r'\infty', Constant('infinity'))


def is_name(form: Form) -> str | None:
    """Returns the name if a side is one, else ``None``."""
    if isinstance(form, Expression):
        if isinstance(form.tree, Name):
            return form.tree.name
        if _LONG_NAME.fullmatch(form.source):
            return f'{form.source} '
    if isinstance(form, Words):
        return f'{form.text} '
    if isinstance(form, Bracketed):
        # (x, y) = (1, 2)
        parts = [name for name in map(is_name, form.items) if name]
        return ' '.join(parts) if len(parts) == len(form.items) else None
    if isinstance(form, Option) and not form.text:
        return form.letter
    return None


def assigned(equation: Equation) -> str | None:
    """Returns the name to which an equation assigns its last side, else ``None``.

    >>> from passk_jax.verifiers.reading import read
    >>> assigned(read('x=5')), assigned(read('a+b=5'))
    ('x', None)
    """
    name = is_name(equation.items[0])
    if name is None:
        return None
    return name if is_name(equation.items[-1]) != name else None


def value_of(equation: Equation) -> Form:
    """Returns the value of a chain: its last side, or the first of ``5 = x``."""
    first, last = equation.items[0], equation.items[-1]
    turned = len(equation.items) == 2 and is_number(first) and is_name(last)
    return first if turned else last


def is_number(form: Form) -> bool:
    """Returns whether a side has a tree without variables."""
    form = form.value if isinstance(form, Quantity) else form
    return (
        isinstance(form, Expression) and form.tree is not None and not names(form.tree)
    )


def numeric_sides(equation: Equation) -> bool:
    r"""Returns whether all sides are numbers, as in ``0.56 = 56\%``."""
    return all(map(is_number, equation.items))


def difference(equation: Equation) -> Node | None:
    """Subtracts the last side from the first; ``None`` if either has no tree."""
    trees: list[Node] = []
    for form in (equation.items[0], equation.items[-1]):
        if not isinstance(form, Expression) or form.tree is None:
            if not (name := is_name(form)):
                return None
            trees.append(Name(name.strip()))
        else:
            trees.append(form.tree)
    return Apply('+', (trees[0], negative(trees[1])))


def _clear_fractions(tree: Node) -> Node:
    """Multiplies by the denominators with names: ``y - 1/x`` becomes ``x y - 1``."""
    fractions = (
        node
        for node in nodes(tree)
        if isinstance(node, Apply) and node.operation == '/'
    )
    below = dict.fromkeys(node.arguments[1] for node in fractions)
    factors = tuple(node for node in below if names(node))
    return Apply('*', (tree, *factors)) if factors else tree


def interval(inequality: Inequality) -> tuple[str, Form] | None:
    r"""Returns the variable and its interval; ``None`` for other sides or signs.

    >>> from passk_jax.verifiers.reading import read
    >>> name, values = interval(read(r'1 \le x < 2'))
    >>> name, values.opening, values.closing
    ('x', '[', ')')
    """
    items, signs = inequality.items, inequality.signs
    if signs[0] in ('>', r'\ge'):
        turned = {'>': '<', r'\ge': r'\le'}
        items, signs = items[::-1], tuple(turned.get(s, '') for s in signs[::-1])
    if len(items) == 2 and signs == (r'\ne',) and is_number(items[1]):
        name = is_name(items[0])
        parts = (
            Bracketed('(', (_minus_infinity(), items[1]), ')'),
            Bracketed('(', (items[1], _INFINITY), ')'),
        )
        return (name, Union(parts)) if name else None
    if not set(signs) <= {'<', r'\le'}:
        return None
    strict = signs[0] == '<'
    if len(items) == 2 and (values := _read_distance(*items, strict=strict)):
        return values
    if len(items) == 2 and is_name(items[0]) and is_number(items[1]):
        items, signs = (_minus_infinity(), *items), ('<', *signs)
    elif len(items) == 2:
        items, signs = (*items, _INFINITY), (*signs, '<')
    if len(items) != 3 or not (name := is_name(items[1])):
        return None
    low, _, high = items
    if not is_number(low) or not is_number(high):
        return None
    opening = '[' if signs[0] == r'\le' else '('
    closing = ']' if signs[1] == r'\le' else ')'
    return name, Bracketed(opening, (low, high), closing)


def _read_distance(less: Form, more: Form, *, strict: bool) -> tuple[str, Form] | None:
    r"""Returns the variable of ``|2x - 6| < 4`` or ``4 < |2x - 6|``, and its set.

    The set is an interval, here ``(1, 5)``, or a union of two. Returns ``None`` if
    there is no such absolute value, if the other side has a minus and may be negative,
    and for a name of complex numbers.
    """
    side, bound = (more, less) if is_number(less) else (less, more)
    if not (isinstance(side, Expression) and isinstance(bound, Expression)):
        return None
    if bound.tree is None or not is_number(bound) or '-' in bound.source:
        return None
    match side.tree:
        case Apply('abs', (inside,)):
            line = exact.find_coefficients(inside)
        case _:
            return None
    if line is None or _COMPLEX.match(line[0]):
        return None
    name, slope, shift = line
    center = -shift / slope
    distance = Apply('/', (bound.tree, Number(abs(slope))))
    low, high = (
        # Equal sources would count as equal numbers.
        Expression(
            f'{center} {sign} ({bound.source})/({abs(slope)})',
            Apply('+', (Number(center), far)),
        )
        for sign, far in (('-', negative(distance)), ('+', distance))
    )
    opening, closing = '()' if strict else '[]'
    if side is less:
        return name, Bracketed(opening, (low, high), closing)
    below = Bracketed('(', (_minus_infinity(), low), closing)
    return name, Union((below, Bracketed(opening, (high, _INFINITY), ')')))


def find_variable(items: Sequence[Form]) -> str | None:
    """Returns the variable that every item bounds, in lower case, if it is one."""
    bounds = [
        interval(form) if isinstance(form, Inequality) else None for form in items
    ]
    names = {bound[0].casefold() if bound else None for bound in bounds}
    return names.pop() if len(names) == 1 else None


def conjunction(items: Sequence[Form]) -> Inequality | None:
    r"""Joins two bounds of a variable: ``x > 1`` and ``x < 2`` are ``1 < x < 2``.

    Returns ``None`` unless there are a lower bound and a larger upper bound.
    """
    bounds = {}
    for form in items if len(items) == 2 else ():
        bound = interval(form) if isinstance(form, Inequality) else None
        if bound is None or not isinstance(bound[1], Bracketed):
            return None
        first, last = bound[1].items
        if last == _INFINITY and is_number(first):
            bounds['low'] = bound[0], first, bound[1].opening
        elif first == _minus_infinity() and is_number(last):
            bounds['high'] = bound[0], last, bound[1].closing
    if len(bounds) < 2 or bounds['low'][0] != bounds['high'][0]:
        return None
    (name, low, opening), (_, high, closing) = bounds['low'], bounds['high']
    if not (isinstance(low, Expression) and isinstance(high, Expression)):
        return None
    if low.tree is None or high.tree is None:
        return None
    least, most = exact.value_or_none(low.tree), exact.value_or_none(high.tree)
    if least is None or most is None or least >= most:
        return None
    signs = (r'\le' if opening == '[' else '<', r'\le' if closing == ']' else '<')
    middle = Expression(name, Name(name))
    source = f'{low.source} {signs[0]} {name} {signs[1]} {high.source}'
    return Inequality(source, (low, middle, high), signs)


def without_points(items: Sequence[Form]) -> Form | None:
    r"""Takes points out of an interval: ``0 < x < 3, x \ne 1`` has two parts.

    Returns ``None`` for other items, or if the order of several points is not known.

    >>> from passk_jax.verifiers.reading import read
    >>> read(r'x > 0, x \ne 1') == read(r'(0, 1) \cup (1, \infty)')
    True
    """
    holes = [x for x in items if isinstance(x, Inequality) and x.signs == (r'\ne',)]
    places = [i for i, x in enumerate(items) if x in holes]
    constraints = items[: places[0]] or items[places[-1] + 1 :] if places else ()
    # In x > 0, x \ne 1, 2 there are two points.
    points = [x.items[1] for x in holes]
    points += [x for x in items if x not in holes and x not in constraints]
    domain = constraints[0] if len(constraints) == 1 else conjunction(constraints)
    name, ends = None, domain
    if isinstance(domain, Inequality):
        name, ends = interval(domain) or (None, None)
    letters = {is_name(hole.items[0]) for hole in holes} | {name}
    if not isinstance(ends, Bracketed) or len(ends.items) != 2:
        return None
    if len(letters - {None}) != 1 or not all(map(is_number, points)):
        return None
    low, high = ends.items
    points = _between(low, points, high)
    bounds = itertools.pairwise([low, *points, high])
    opening = [ends.opening, *'(' * len(points)]
    closing = [*')' * len(points), ends.closing]
    parts = map(Bracketed, opening, bounds, closing)
    return Union(tuple(parts)) if points else None


def _between(low: Form, points: Sequence[Form], high: Form) -> list[Form]:
    """Sorts points between two ends; a single one may have an unknown place."""
    ranks = [rank for rank in map(_rank, (low, *points, high)) if rank is not None]
    if len(ranks) < len(points) + 2:
        return list(points) if len(points) == 1 else []
    first, *between, last = ranks
    by_rank = dict(zip(between, points, strict=True))
    return [by_rank[rank] for rank in sorted(by_rank) if first < rank < last]


def _rank(form: Form) -> Fraction | float | None:
    """Returns a value by which ends are ordered; ``None`` if it is not rational."""
    if form in (_INFINITY, _minus_infinity()):
        return math.inf if form == _INFINITY else -math.inf
    if not isinstance(form, Expression) or form.tree is None:
        return None
    return exact.value_or_none(form.tree)


def are_apart(first: Form, second: Form) -> bool:
    r"""Returns whether no value of a variable satisfies both of two bounds.

    >>> from passk_jax.verifiers.reading import read
    >>> are_apart(read('x<1'), read('x>2')), are_apart(read('x<1'), read('x>0'))
    (True, False)
    """
    if not (isinstance(first, Inequality) and isinstance(second, Inequality)):
        return False
    match interval(first), interval(second):
        case (name, Bracketed(_, ends)), (other, Bracketed(_, limits)) if name == other:
            lower, upper = (ends, limits) if ends[1] == _INFINITY else (limits, ends)
            bounds = lower[1] == _INFINITY and upper[0] == _minus_infinity()
            return bounds and conjunction((first, second)) is None
    return False


def _minus_infinity() -> Expression:
    return Expression(r'-\infty', negative(Constant('infinity')))


_TURNED = {'<': '>', '>': '<', r'\le': r'\ge', r'\ge': r'\le', r'\ne': r'\ne'}


def equation_rule(
    gold: Equation, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with an equation, up to factors, or with a name's value."""
    name = assigned(gold)
    if not isinstance(answer, Equation):
        if name is not None:
            return compare(gold.items[-1], answer)
        if numeric_sides(gold):
            return any_of(compare(side, answer) for side in gold.items)
        return None if isinstance(answer, Several | Bracketed) else False
    if all(map(is_name, (*gold.items, *answer.items))):
        same = match_in_any_order(gold.items, answer.items, compare)
        # AB = BC = CD is no value of AB.
        if same or len(gold.items) > 2:
            return same
    # Between a name and its value, an answer may have any formula.
    chains = (gold,) if name else (gold, answer)
    simple = all_of(_has_two_sides(equation, compare) for equation in chains)
    if not simple:
        same = match_in_any_order(gold.items, answer.items, compare)
        return same if simple is False else None
    other = assigned(answer)
    if name and other and may_name_one_thing(name, other):
        return compare(gold.items[-1], answer)
    if numeric_sides(gold) and numeric_sides(answer):
        return any_of(compare(side, answer) for side in gold.items)
    tree, other_tree = difference(gold), difference(answer)
    if tree is None or other_tree is None:
        return None
    pairs = [(tree, other_tree)]
    if names(tree) == names(other_tree) and len(names(tree)) > 1:
        pairs.append((_clear_fractions(tree), _clear_fractions(other_tree)))
    return any_of(judge.proportional(*pair) for pair in dict.fromkeys(pairs))


def _has_two_sides(equation: Equation, compare: Compare) -> bool | None:
    """Returns whether sides between say no more; they do in ``x = 2y = 3z``."""
    first, *between, last = equation.items
    if is_number(last):
        return True
    return all_of(
        names_a_function(is_name(first), is_name(x))
        or any_of((compare(first, x), compare(last, x)))
        for x in between
    )


def inequality_rule(
    gold: Inequality, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with an inequality: by a variable's interval, or by sides."""
    gold_interval = interval(gold)
    match answer:
        case Inequality():
            other = interval(answer)
            if gold_interval is None or other is None:
                return _same_order(gold, answer, compare)
            if gold_interval[0].casefold() != other[0].casefold():
                return False
            return compare(gold_interval[1], other[1])
        case Several(items) if gold_interval and isinstance(gold_interval[1], Union):
            if find_variable(items) != gold_interval[0].casefold():
                return False
            return compare(gold_interval[1], answer)
        case Bracketed() | Union() | Collection():
            return None if gold_interval is None else compare(gold_interval[1], answer)
    return None if isinstance(answer, Expression) and answer.tree is None else False


def _same_order(gold: Inequality, answer: Inequality, compare: Compare) -> bool | None:
    """Compares sides in order, from either end; ``None`` unless they are equal."""
    turned = tuple(_TURNED[sign] for sign in reversed(answer.signs))
    results = []
    if gold.signs == answer.signs:
        results.append(match_in_order(gold.items, answer.items, compare))
    if gold.signs == turned:
        results.append(match_in_order(gold.items, answer.items[::-1], compare))
    return True if any(results) else None
