r"""Answers in words: dates, numbers in words, words that introduce an answer.

``\text{June }20`` and ``20th of June`` are ``jun 20``; ``twenty-five`` is 25;
``\text{There are }5`` is 5.
"""

import re

from passk_jax.verifiers.vocabulary import MONTHS

_TEXT = re.compile(r'\\text\{([^{}]*)\}')
_ORDINAL = r'(?:\^?\{?(?:st|nd|rd|th)\}?)?'
# Jan., January
_MONTH = '|'.join(rf'{name[:3]}(?:{name[3:]}|\.)?' for name in MONTHS)
_MONTH = rf'(?P<month>{_MONTH})'
_DAY = rf'(?P<day>[0-9]{{1,2}}){_ORDINAL}'
_YEAR = r'(?:,? (?P<year>[0-9]{4}))?'
_DATES = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf'{_MONTH} (?:the )?{_DAY}{_YEAR}',
        rf'(?:the )?{_DAY} (?:of )?{_MONTH}{_YEAR}',
    )
)
# It ends with a verb before a number or a formula. Words that doubt, deny or compare
# introduce no answer.
_INTRODUCTION = re.compile(
    r'(\\text\{\s*)?(?:(?:the\s+)?(?:(?:correct|final)\s+)?(?:answer|option|choice)'
    r'(?:\s+is|\s*:)?(?=[\s(:{])|(?:therefore|thus|hence|so)\b,?|答案?(?:[是为]|(?=:))'
    # Like \approx before an answer.
    r'|(?:about|approximately|approx\.?|roughly|大?约)(?=[\s}]*(?:[-0-9.(]|\\(?!text)))'
    # A label, as in Total: 3. A minimum may stand beside a maximum.
    r'|(?:(?:total|final|exact)\s+)?(?:value|total|sum|result|ans|number)\s*:'
    r'(?=[\s}]*[^\sA-Za-z}])'
    r'|(?!(?:[^{}]*[ {])?(?:not?|wrong|incorrect|other|or|than|if|when)\b)'
    r'(?:there|the [a-z -]{1,60}) (?:are|is|equals)(?: exactly| only)?'
    r'(?=[\s:]*(?:\}\s*(?!\\text)|[^\sA-Za-z:}])))[\s:]*',
    re.IGNORECASE,
)


def introduction(text: str) -> re.Match[str] | None:
    r"""Finds the words before an answer; group 1 is a ``\text{`` that stays open."""
    return _INTRODUCTION.match(text)


def date_of(text: str) -> str | None:
    r"""Returns a date in one spelling.

    >>> date_of(r'\text{June }20'), date_of('the 20th of June, 2024'), date_of('20')
    ('jun 20', 'jun 20 2024', None)
    """
    plain = ' '.join(_TEXT.sub(r' \1 ', text).split()).replace(' ,', ',')
    for form in _DATES:
        if match := form.fullmatch(plain):
            parts = match['month'][:3].lower(), str(int(match['day'])), match['year']
            return ' '.join(part for part in parts if part)
    return None
