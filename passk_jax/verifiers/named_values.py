"""Lists of named values, such as ``x=1, y=2`` and ``(x,y)=(1,2)``."""

import re
from collections.abc import Sequence

from passk_jax.verifiers.forms import Bracketed, Collection, Equation, Form, Several
from passk_jax.verifiers.matching import Compare, all_of, match_in_order
from passk_jax.verifiers.relations import assigned

# Letters of coordinates, also without y.
_COORDINATES = frozenset('xyz')
_ALPHABET = 'abcdefghijklmnopqrstuvwxyz'
_INDEXED = re.compile(r'([A-Za-z]+)_.*')


def group_solutions(items: Sequence[Form], *, indices: bool = True) -> Several | None:
    """Groups ``x=1, y=2, x=2, y=1`` by solutions: runs that give every name a value.

    Args:
        items: a flat list.
        indices: whether ``x_1`` and ``x_2`` are different names.

    Returns:
        The solutions, joined by "or"; ``None`` for one name or one solution.
    """
    names = [assigned(item) if isinstance(item, Equation) else None for item in items]
    letters = [name if indices else name.partition('_')[0] for name in names if name]
    count = len(set(letters))
    if len(letters) < len(items) or not 1 < count < len(items):
        return None
    starts = range(0, len(items), count)
    if any(len(set(letters[x : x + count])) < count for x in starts):
        return None
    solutions = (sort_by_name(items[x : x + count]) for x in starts)
    return Several(tuple(Several(tuple(solution)) for solution in solutions), 'or')


def align_solutions(gold: Several, answer: Form) -> tuple[Several, Form]:
    """Groups the flat one of two lists by solutions if the other has tuples or groups.

    ``x_1=1, y_1=2, x_2=2, y_2=1`` may then equal ``(1,2), (2,1)``.
    """
    if not isinstance(answer, Several | Collection):
        return gold, answer
    if _has_groups(answer.items):
        return group_solutions(gold.items, indices=False) or gold, answer
    if _has_groups(gold.items):
        return gold, group_solutions(answer.items, indices=False) or answer
    return gold, answer


def _has_groups(items: Sequence[Form]) -> bool:
    return all(isinstance(item, Bracketed | Several | Collection) for item in items)


def spread(form: Form) -> Form:
    """Returns ``(x,y)=(1,2)`` as ``x=1, y=2``, and other forms as they are."""
    match form:
        case Equation(
            _, (Bracketed('(', names, ')'), Bracketed('(', values, ')')), ('=',)
        ):
            if assigned(form) and len(names) == len(values):
                pairs = zip(names, values, strict=True)
                return Several(tuple(Equation('', pair, ('=',)) for pair in pairs))
    return form


def names_of(items: Sequence[Form]) -> list[str]:
    """Returns the names of items; ``[]`` unless all have different names.

    Indices alone are no difference: ``x_1=1, x_2=2`` are two solutions.
    """
    names = [assigned(item) for item in items if isinstance(item, Equation)]
    plain = [name.casefold() for name in names if name]
    if len(set(plain)) < len(items) or len(items) < 2:
        return []
    indexed = [_INDEXED.fullmatch(name) for name in plain]
    letters = {match[1] for match in indexed if match}
    return [] if all(indexed) and len(letters) == 1 else plain


def match_by_name(
    golds: Sequence[Form], answers: Sequence[Form], compare: Compare
) -> bool | None:
    """Compares named items with others: by name if the names match, else in order."""
    if len(golds) != len(answers):
        return False
    by_name = dict(zip(names_of(answers), answers, strict=False))
    names = names_of(golds)
    if set(names) == set(by_name):
        return all_of(map(compare, golds, (by_name[name] for name in names)))
    return match_in_order(golds, answers, compare)


def sort_coordinates(items: Sequence[Form]) -> Sequence[Form]:
    """Sorts values named x, y and z; other items stay in their order."""
    return sort_by_name(items) if _COORDINATES.issuperset(names_of(items)) else items


def sort_by_name(items: Sequence[Form]) -> Sequence[Form]:
    """Sorts coordinates: ``y=2, x=1`` by name, ``n=5, k=2`` as written.

    Only x, y and z and neighbours in the alphabet have an order.
    """
    names = names_of(items)
    ordered = sorted(names)
    if not names or any(len(name) > 1 for name in names):
        return items
    if ''.join(ordered) not in _ALPHABET and not _COORDINATES.issuperset(names):
        return items
    by_name = dict(zip(names, items, strict=True))
    return [by_name[name] for name in ordered]
