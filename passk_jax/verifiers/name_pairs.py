"""Whether two names may be of one value."""

import re

# A letter with an index, a prime, an argument or another letter.
_FORMULA_NAME = re.compile(r"[A-Za-z](?:[_^'(].*|[A-Za-z]?)")
_NUMBERED = re.compile(r'[A-Za-z]_[0-9]+')
_SQUEEZED = re.compile(r'[\s{}]|\\(?:text|triangle)(?![a-z])|\\(?=[a-z])')
_OF_INDEX = re.compile(r'([A-Za-z])\((\w)\)')


def may_name_one_thing(name: str, other: str) -> bool:
    """Returns whether two names may be of one value, as Area and A, or f(x) and y.

    >>> may_name_one_thing('f(x)', 'f '), may_name_one_thing('a_n', 'a_{n+1}')
    (True, False)
    """
    if name.casefold() == other.casefold():
        return True
    name, other = (_SQUEEZED.sub('', x) for x in (name, other))
    if max(len(name), len(other)) < 2:
        return False
    if '_' in name + other:
        name, other = (_OF_INDEX.sub(r'\1_\2', x) for x in (name, other))
    short, long = sorted((name, other), key=len)
    # AB and AC, a_n and a_{n+1} are two; f(x) is f, S_n is S, and roots are numbered at
    # will.
    is_part = long.startswith((f'{short}(', f'{short}_'))
    if is_part or all(_NUMBERED.fullmatch(x) for x in (name, other)):
        return True
    formulas = all(_FORMULA_NAME.fullmatch(x) for x in (name, other))
    return name == other or not (formulas and name[0] == other[0])


def names_a_function(name: str | None, other: str | None) -> bool:
    """Returns whether two names are of a function's value, as ``y`` and ``f(x)``."""
    return bool(name and other) and '(' in f'{name}{other}'
