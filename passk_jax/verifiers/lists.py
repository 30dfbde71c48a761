"""Rules for golds that are lists, tuples, intervals, sets, unions or matrices."""

import itertools
import re
from collections.abc import Sequence

from passk_jax.verifiers.forms import (
    Bracketed,
    Collection,
    Expression,
    Form,
    Inequality,
    Matrix,
    Option,
    Several,
    Union,
    Words,
)
from passk_jax.verifiers.matching import (
    Compare,
    Judge,
    all_of,
    as_sets,
    match_in_any_order,
    match_in_order,
)
from passk_jax.verifiers.named_values import (
    align_solutions,
    match_by_name,
    names_of,
    sort_by_name,
    sort_coordinates,
)
from passk_jax.verifiers.reading import read
from passk_jax.verifiers.relations import are_apart, find_variable, interval
from passk_jax.verifiers.trees import Apply
from passk_jax.verifiers.vocabulary import NO_SOLUTION

# P(1,2), \text{Point }(1,2)
_POINT = re.compile(
    r'(?:\\text\{ *(?:[Tt]he )?(?:[Pp]oint|[Vv]ertex|[Cc]ent(?:er|re)|[Ff]ocus)'
    r'(?: is)?(?: at)? *\} *)?'
    r"(?:[A-Z]'?)? *:? *(?=\()"
)


def bracketed_rule(
    gold: Bracketed, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with a tuple or an interval: items in order, and brackets.

    Items with names match by name, or as coordinates.
    """
    is_tuple = (gold.opening, gold.closing) == ('(', ')')
    match answer:
        case Bracketed():
            if (gold.opening, gold.closing) != (answer.opening, answer.closing):
                return False
            if names_of(gold.items):
                return match_by_name(gold.items, answer.items, compare)
            return match_in_order(gold.items, sort_coordinates(answer.items), compare)
        case Several(items) if is_tuple:
            return match_in_order(gold.items, sort_by_name(items), compare)
        case Collection((Bracketed() as item,)) if is_tuple:
            return compare(gold, item)
        case Collection(items) if is_tuple and names_of(items):
            return compare(gold, Several(items))
        case Inequality() if _is_interval(gold):
            answer_interval = interval(answer)
            return (
                None if answer_interval is None else compare(gold, answer_interval[1])
            )
        case Union((item,)):
            return compare(gold, item)
        case Matrix():
            rows = _rows_of_lists(gold)
            return bool(rows) and compare(Matrix(rows), answer)
        case Expression(_, Apply('binom', items)) if is_tuple:
            # C(10,3), which may be a point.
            parts = [Expression(str(item), item) for item in items]
            return match_in_order(gold.items, parts, compare)
        case Expression(source, None):
            point = _POINT.match(source) if is_tuple else None
            tail = read(source[point.end() :]) if point and point[0] else None
            return compare(gold, tail) if isinstance(tail, Bracketed) else None
    return False


def _is_interval(gold: Bracketed) -> bool:
    """Returns whether brackets or an infinite end mark an interval, not a point."""
    ends = [form.source for form in gold.items if isinstance(form, Expression)]
    return '[' in gold.opening or ']' in gold.closing or any('infty' in e for e in ends)


def several_rule(
    gold: Several, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with a list: items and repeats, in any order except a tuple's.

    If the gold's items have different names, items match by name, or in order.
    """
    gold, answer = align_solutions(gold, answer)
    match answer:
        case _ if names_of(gold.items):
            return _match_named(gold, answer, compare)
        case Several() if _is_joined_otherwise(gold, answer):
            return False
        case Several(items) | Collection(items):
            return match_in_any_order(gold.items, items, compare)
        case Bracketed(opening, items, closing) if opening + closing in ('()', '[]'):
            return match_in_order(gold.items, items, compare)
        case Union(items) if _all_inequalities(gold.items):
            return match_in_any_order(gold.items, items, compare)
        case Inequality() if gold.joint != 'and':
            # One inequality for two: |x| > 1.
            match find_variable(gold.items), interval(answer):
                case str(name), (other, Union(items)) if name == other.casefold():
                    return match_in_any_order(gold.items, items, compare)
        case Words(text) | Expression(text, _):
            # ACD for A, C, D.
            return letters_of(gold.items) == text.replace(' ', '').casefold()
    return False


def _match_named(gold: Several, answer: Form, compare: Compare) -> bool | None:
    """Compares an answer with values of different names; a set must name its values."""
    match answer:
        case Several(_, 'or') if gold.joint != 'or':
            return False
        case Several(items) | Bracketed('(', items, ')'):
            return match_by_name(gold.items, items, compare)
        case Collection(items) if names_of(items):
            return match_by_name(gold.items, items, compare)
    return False


def _is_joined_otherwise(gold: Several, answer: Several) -> bool:
    """Returns whether inequalities have "and" instead of "or", or the reverse."""
    if not _all_inequalities((*gold.items, *answer.items)):
        return False
    if gold.joint and answer.joint:
        return gold.joint != answer.joint
    pairs = itertools.combinations(answer.items, 2)
    return answer.joint == 'and' and any(are_apart(*pair) for pair in pairs)


def _all_inequalities(items: Sequence[Form]) -> bool:
    return all(isinstance(form, Inequality) for form in items)


def letters_of(items: Sequence[Form]) -> str | None:
    """Joins the letters of options in lower case; ``None`` unless all are letters."""
    letters = [x.letter for x in items if isinstance(x, Option) and not x.text]
    return ''.join(letters).casefold() if len(letters) == len(items) else None


def collection_rule(
    gold: Collection, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with a set: items in any order, repeats as one."""
    match answer:
        case Collection(items) | Several(items):
            return as_sets(gold.items, items, compare)
        case Bracketed('(', items, ')') if names_of(gold.items):
            return match_in_order(sort_by_name(gold.items), items, compare)
        case Words(text) if not gold.items:
            return text in NO_SOLUTION
        case Expression(_, None):
            return None
    return compare(gold.items[0], answer) if len(gold.items) == 1 else False


def union_rule(
    gold: Union, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with a union: parts in any order."""
    match answer:
        case Union(items):
            return match_in_any_order(gold.items, items, compare)
        case Several(items) if all(isinstance(form, Bracketed) for form in items):
            return match_in_any_order(gold.items, items, compare)
        case Several(items, joint) if _all_inequalities(items):
            if joint == 'and':
                return False
            parts = [interval(form) for form in items if isinstance(form, Inequality)]
            intervals = [part[1] for part in parts if part is not None]
            if len(intervals) < len(items):
                return None
            return match_in_any_order(gold.items, intervals, compare)
        case Inequality():
            answer_interval = interval(answer)
            return (
                None if answer_interval is None else compare(gold, answer_interval[1])
            )
        case Expression(_, None) | Bracketed() | Collection():
            return None
    return False


def matrix_rule(
    gold: Matrix, answer: Form, compare: Compare, judge: Judge
) -> bool | None:
    """Compares an answer with a matrix: entries in their places; rows may be lists."""
    if isinstance(answer, Expression) and answer.tree is None:
        return None
    rows: Sequence[Sequence[Form]] = ()
    if isinstance(answer, Matrix):
        rows = answer.items
    elif isinstance(answer, Bracketed) and answer.opening == '[':
        # [1,2] and [[1,2]] are a row.
        rows = _rows_of_lists(answer) or [answer.items]
    if len(rows) != len(gold.items):
        return False
    return all_of(
        match_in_order(row, other, compare)
        for row, other in zip(gold.items, rows, strict=True)
    )


def _rows_of_lists(form: Bracketed) -> tuple[tuple[Form, ...], ...]:
    """Returns the rows of ``[[1,2],[3,4]]``; ``()`` for other forms."""
    rows = tuple(item.items for item in form.items if isinstance(item, Bracketed))
    return rows if len(rows) == len(form.items) and form.opening == '[' else ()
