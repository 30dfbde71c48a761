r"""Letters of choices: ``A``, ``\text{(C)}``, ``C) 5``, ``E: a text``."""

import re

from passk_jax.verifiers.forms import Option
from passk_jax.verifiers.normal_form import normal_form

_OPTION = re.compile(r'(?:\\text\{\s*)?\(?\s*([A-Z])\s*\)?[.:]?(?:\s*\})?')
_OPTION_TEXT = re.compile(
    r'(?:\\text\{\s*)?(?:\(([A-Z])\)|([A-Z])\s*[).]|([A-Z]):(?=[\s0-9\\])|([A-HJ])\s*-(?=\s))'
    r'\s*[.:]?\s*(\}?)\s*(\S.{0,400})',
    re.DOTALL,
)
_LETTER_AND_TEXT = re.compile(r'^([A-Z])\s*\\text\{\s*([:.)])')
# (A)(B), (A), (B), A) 1 B) 2, A. Or B and A) 1 or B are two letters.
_MORE_LETTERS = re.compile(
    r'\W*(?:[,;/&]|(?:(?i:or|and)\b|\( *[A-Z] *\)|[A-E]\W*$))|.*(?:'
    r'(?<![A-Za-z])\([A-H]\)|(?<![A-Za-z(])[A-H]\)|(?i:\bor|\band|[,;])[ }]*[A-H][.:]'
    r'|[^A-Z\s}][\s}]*\bor[\s}]+[A-H]\W*$)',
    re.DOTALL,
)
_CURVE = re.compile(r'(?=[^{}]*x)(?=[^{}]*y)(?=[^{}]*\^).*=')
_IN_BRACKETS = re.compile(r'\([^()]{2,}\)')


def read_option(text: str) -> Option | None:
    r"""Reads the letter of a choice, perhaps before its text, in normal form.

    >>> read_option('C) 5'), read_option('C) 5 or D) 6')
    (Option(letter='C', text='5'), None)
    """
    if match := _OPTION.fullmatch(text):
        return Option(match[1], '')
    text = _LETTER_AND_TEXT.sub(r'\\text{\1\2', text)
    match = _OPTION_TEXT.fullmatch(text)
    if not match or (text.startswith('(') and text.count('(') == 1 and ',' in text):
        return None
    letter = next(part for part in match.groups()[:4] if part)
    behind = match[6]
    # A - B and C: x^2 + y^2 = 4 are formulas.
    is_difference = match[4] and len(behind) == 1 and behind.isalpha()
    if is_difference or (match[3] and _CURVE.match(behind)):
        return None
    if text.startswith(r'\text{') and not match[5]:
        behind = r'\text{' + behind
    if _MORE_LETTERS.match(_IN_BRACKETS.sub('', behind.replace(r'\text{', ' '))):
        return None
    # E: and C) precede a text; (A) may be a factor.
    if match[1] and not re.match(r'\s|\}|\\text', text[match.start(1) + 2 :]):
        return None
    return Option(letter, normal_form(behind))
