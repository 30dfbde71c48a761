r"""Remarks after an answer that say which values a letter takes.

``2k+1, k\in\mathbb{Z}`` is ``2k+1``, as are ``2k+1\text{ for all integers }k`` and
``2k+1\text{ where }k\text{ is an integer}``. The letter must occur in the answer. If
gold and answer both have a remark, the two must agree. A remark of the answer alone
must allow all real numbers or be about a usual index, because ``x+1, x\in\mathbb{Z}``
is another function than ``x+1``. Indices may have different letters.
"""

import re

from passk_jax.verifiers.forms import Expression, Form, Restricted, parts
from passk_jax.verifiers.scaling import has_pi
from passk_jax.verifiers.trees import names, rename

_REALS, _NATURALS = 'R', 'N'
_INDICES = frozenset('ijklmnpqrst')
# In a formula with pi, these are indices even without a remark.
_INTEGERS = frozenset('kmn')
# Words for a kind of number -> its symbol; a constant takes any value.
_KINDS = {
    'real': _REALS,
    'integer': 'Z',
    'natural': _NATURALS,
    'positive integer': 'N1',
    'nonnegative integer': 'N0',
    'non-negative integer': 'N0',
    'constant': '',
    'arbitrary constant': '',
    'real constant': '',
}
_KIND = rf'(?P<kind>{"|".join(_KINDS)})(?: number| value)?s?(?: of)?'
_SETS = {'R': _REALS, 'Z': 'Z', 'N': _NATURALS}
_BUILDER = re.compile(
    r'\\\{ *(?P<head>[^|: ][^|:]*[^|: ]) *[|:]'
    r' *(?P<member>[A-Za-z] *\\in(?![a-z]).*?) *\\\}'
)
_POSITIVE = re.compile(r'\^?\{?[+*]\}?|\^\{?\\\*\}?|_\{?(?:>0|\+|\\ge 1)\}?')
_FOR = r'(?:for|where|with)(?: (?:all|any|every|each|some|an?))?'
_MARK = (
    rf'(?:[,;]? *\(|[,;]|[,;]? *\\text\{{ *[,;(]? *{_FOR} *\}}|,? *\\forall(?![a-z]))'
)
_NAME = r'(?P<name>[A-Za-z])(?![A-Za-z])'
_REMARKS = tuple(
    re.compile(rf'(?P<head>.*?[^\s,;(]) *{form} *\)?', re.DOTALL)
    for form in (
        rf'{_MARK} *{_NAME} *\\in *\\mathbb\{{(?P<set>[RZN])\}} *(?P<part>[^()]*)',
        rf'{_MARK} *{_NAME} *(?P<sign>\\ge|>) *(?P<bound>[0-2])',
        rf'[,;]? *\\text\{{ *[,;(]? *{_FOR}(?: {_KIND})? *\}} *{_NAME}',
        rf'[,;]? *\\forall *{_NAME}',
        rf'{_MARK} *{_NAME} *\\text\{{ *(?:is |being )?(?:an? |any )?{_KIND} *\)? *\}}',
    )
)


def split_domain(text: str) -> tuple[str, str, str] | None:
    r"""Splits an answer in normal form from its remark: a letter and its values.

    >>> split_domain(r'2k+1, k\in \mathbb{Z}'), split_domain(r'2n-1, n\ge 1')
    (('2k+1', 'k', 'Z'), ('2n-1', 'n', 'N1'))
    """
    if built := _BUILDER.fullmatch(text):
        text = f'{built["head"]}, {built["member"]}'
    for form in _REMARKS:
        match = form.fullmatch(text)
        if not match or not _is_balanced(match['head']):
            continue
        values = _values(match.groupdict())
        if values is not None:
            return match['head'], match['name'], values
    return None


def _values(groups: dict[str, str | None]) -> str | None:
    if kind := groups.get('set'):
        part = (groups['part'] or '').replace(' ', '')
        if not part:
            return _SETS[kind]
        # "Positive" is a condition if the numbers are real.
        return 'N1' if kind != 'R' and _POSITIVE.fullmatch(part) else None
    if sign := groups.get('sign'):
        least = int(groups['bound'] or 0) + (sign == '>')
        return f'N{least}' if groups['name'] in _INDICES else None
    return _KINDS[groups.get('kind') or 'constant']


def _is_balanced(text: str) -> bool:
    return len(re.findall(r'[(\[{]', text)) == len(re.findall(r'[)\]}]', text))


def concerns(name: str, form: Form) -> bool:
    """Returns whether a letter occurs in an answer."""
    return any(
        isinstance(part, Expression) and part.tree and name in names(part.tree)
        for part in parts(form)
    )


def agree(gold: Form, answer: Form) -> bool:
    """Returns whether the remarks of gold and answer agree."""
    if not isinstance(answer, Restricted):
        return True
    if not isinstance(gold, Restricted):
        return answer.values in ('', _REALS) or answer.name in _INDICES
    values = {gold.values, answer.values}
    return (
        len(values) == 1
        or '' in values
        or (_NATURALS in values and values <= {_NATURALS, 'N0', 'N1'})
    )


def head_of(answer: Form, gold: Form) -> Form:
    """Returns an answer without its remark, with the index of the gold's remark."""
    if not isinstance(answer, Restricted):
        return answer
    form = answer.form
    if not isinstance(gold, Restricted) or not isinstance(form, Expression):
        return form
    letters = {gold.name, answer.name}
    if form.tree is None or len(letters) == 1 or not letters <= _INDICES:
        return form
    if gold.name in names(form.tree):
        return form
    return Expression(form.source, rename(form.tree, answer.name, gold.name))


def rename_index(gold: Expression, answer: Expression) -> Expression:
    r"""Renames an answer's index to the gold's, such as ``2n\pi`` to ``2k\pi``."""
    if gold.tree is None or answer.tree is None or not has_pi(gold.tree):
        return answer
    of_gold, of_answer = names(gold.tree), names(answer.tree)
    new, old = of_gold - of_answer, of_answer - of_gold
    if len(new) == len(old) == 1 and new | old <= _INTEGERS:
        return Expression(answer.source, rename(answer.tree, *old, *new))
    return answer
