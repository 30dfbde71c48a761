"""Lists of named values, such as ``x=1, y=2`` and ``(x,y)=(1,2)``."""

import re
from collections.abc import Sequence

from passk_jax.verifiers.forms import Bracketed, Equation, Form, Several
from passk_jax.verifiers.matching import Compare, all_of, match_in_order
from passk_jax.verifiers.relations import assigned

# Letters of coordinates, also without y.
_COORDINATES = frozenset('xyz')
_ALPHABET = 'abcdefghijklmnopqrstuvwxyz'
_INDEXED = re.compile(r'([A-Za-z]+)_.*')
_INDEX = re.compile(r'_.*')


def group_solutions(items: Sequence[Form]) -> Several | None:
    """Groups ``x=1, y=2, x=2, y=1`` by solutions: runs that give every name a value.

    Returns ``None`` for one name or one solution. Indices make no other name: ``x_1=1,
    y_1=2, x_2=2, y_2=1`` are two solutions.
    """
    names = [assigned(item) if isinstance(item, Equation) else None for item in items]
    letters = [_INDEX.sub('', name.casefold()) for name in names if name]
    count = len(set(letters))
    if len(letters) < len(items) or not 1 < count < len(items):
        return None
    groups = [items[x : x + count] for x in range(0, len(items), count)]
    by_group = [letters[x : x + count] for x in range(0, len(items), count)]
    if any(len(set(some)) < count for some in by_group):
        return None
    return Several(tuple(Several(tuple(sort_by_name(x))) for x in groups), 'or')


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
