r"""Rewrites sets of numbers: in words, or all real numbers but some.

It is a part of :mod:`normal_form`.

``\text{all integers } n`` is ``\mathbb{Z}``; ``x\in\mathbb{R}, x>2`` is ``x>2``; and
``\mathbb{R}\setminus\{0\}`` is ``(-\infty,0)\cup(0,\infty)``.
"""

import itertools
import re


def _every(kind: str) -> str:
    """Returns a pattern of the words for all numbers of a kind."""
    every = r'(?:(?:for )?(?:all|any|every)(?: possible)?|the set of(?: all)?)'
    numbers = rf'{kind}(?: number| value)?s?(?: of)?'
    return rf'^ *(?:\\text\{{ *)?{every} {numbers} *\}}? *[a-z]? *\}}? *$'


# Before a relation, words that only make a letter real add nothing.
_RELATION = r'(?:\\[nlg]e(?![a-z])|[<>])'
_DECIMAL = re.compile(r'-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)')
_THOUSANDS = re.compile(r'[0-9],[0-9]{3}(?![0-9])')
_NO_NUMBER = re.compile(
    r'[:;|=]|\\(?:in|mid|vert|text|pm|mp|ldots|dots|cdots|infty)(?![a-z])'
)


def _complement(match: re.Match[str]) -> str:
    return _line_without(match[1]) or match[0]


def _unequal(match: re.Match[str]) -> str:
    """Rewrites ``x`` unequal to several numbers as the real line without them."""
    again = rf'(?:,|\\text\{{ *(?:and|or) *\}}) *(?:{match[1]} *\\ne *)?'
    points = re.sub(again, ',', match[2])
    # A single number is a relation, which the forms know.
    if ',' not in points and r'\pm' not in points:
        return match[0]
    return _line_without(points) or match[0]


def _line_without(points: str) -> str:
    """Returns the real line without some numbers as a union of intervals.

    Returns ``''`` for a text that is no list of numbers whose order is known.
    """
    numbers = _ascending(points)
    if not numbers:
        return ''
    pairs = itertools.pairwise(['-\\infty', *numbers, '\\infty'])
    return '\\cup '.join(f'({low},{high})' for low, high in pairs)


def _ascending(text: str) -> list[str]:
    """Reads and sorts numbers between commas; ``[]`` if their order is not known."""
    text = re.sub(r'\\pm *([0-9.]+)', r'\1,-\1', text)
    points = [point.strip() for point in text.split(',')]
    # 1,000 may be one number or two; a condition makes a set of many.
    if '' in points or _THOUSANDS.search(text) or _NO_NUMBER.search(text):
        return []
    if len(points) == 1:
        return points
    if not all(map(_DECIMAL.fullmatch, points)):
        return []
    by_value = {float(point): point for point in points}
    return [by_value[value] for value in sorted(by_value)]


COMMANDS = (
    (
        r'^ *\\text\{ *(?:for )?(?:all|any|every) real(?: numbers?| values?)?(?: of)?'
        rf' *\}} *(?=[a-z] *{_RELATION})',
        '',
    ),
    (
        r'^ *([a-z]) *\\in *\\mathbb *\{R\} *(?:[,;]|\\text\{ *,? *(?:and|with|where'
        rf'|such that) *\}})? *(?=\1 *{_RELATION})',
        '',
    ),
    (_every('real'), r'\\mathbb{R}'),
    (_every('integer'), r'\\mathbb{Z}'),
    (_every('rational'), r'\\mathbb{Q}'),
    (_every('complex'), r'\\mathbb{C}'),
    (
        r'^ *([a-z]) *\\ne *'
        r'((?:[-0-9., a-z]|\\ne|\\pm|\\text\{ *(?:and|or) *\})+)$',
        _unequal,
    ),
    (
        r'^ *(?:[a-z] *\\in *)?\\mathbb *\{R\} *(?:\\setminus|-) *'
        r'\\\{([^{}<>|=]*(?:\{[^{}]*\}[^{}<>|=]*)*)\\\} *$',
        _complement,
    ),
)
"""Pattern -> replacement, in order; they run after synonyms have become one."""
