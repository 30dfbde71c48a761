r"""Golds: the right answers of problems, as data files write them.

A file gives the answer alone, at the end of a worked solution (``#### 72``, as in
gsm8k), or in a box. Some files mark problems without a gold by a word. Some write text
with formulas between dollars: ``$10$ minutes`` becomes ``10\text{ minutes}``.
"""

import re

from passk_jax.verifiers.extract import last_box

# Entries that stand for a missing gold, in lower case.
SENTINELS = frozenset(('', 'proof', 'notfound', 'not found', 'nan', 'null', 'n/a'))
_MARK = '####'
# $5 and $6 are dollars: no blank precedes a closing dollar, and no digit follows it.
_FORMULA = re.compile(
    r'(?<!\\)\$\$?(?P<dollars>\s(?:[^$\\]|\\.)*?\s|(?:[^$\\]|\\.)*?(?<!\s))'
    r'\$\$?(?![0-9])'
    r'|(?<!\\)\\\((?P<round>(?:[^\\]|\\[^()])*)\\\)'
    r'|(?<!\\)\\\[(?P<square>(?:[^\\]|\\[^\[\]])*)\\\]',
    re.DOTALL,
)
_DOLLAR = re.compile(r'(?<!\\)\$')
_CURRENCY = re.compile(r'(?:^|(?<=[\s(\[{,;:+-]))\$(?=\s*[0-9.(\\])')
_JOINT = re.compile(r'(\s*,?\s*\b(?:and|or)\b\s*)')
_LETTERS = re.compile(r'[^\W\d_]')
_WORD = re.compile('[A-Za-z]{3,}')
# A text with more words is a sentence, and stays as it is.
_MOST_WORDS = 6


def gold_of(text: str) -> str:
    r"""Extracts the gold from the text of a file.

    >>> gold_of('30+42=72, so\n#### 72'), gold_of(r'Hence $x=\boxed{5}$.'), gold_of('7')
    ('72', '5', '7')
    """
    if _MARK in text:
        text = text.rpartition(_MARK)[2]
    elif r'\boxed' in text:
        text = last_box(text) or text
    return _as_formula(text.strip())


def is_sentinel(gold: str) -> bool:
    """Returns whether a text marks a missing gold: ``proof``, ``notfound``, ``nan``."""
    return gold.strip().strip('$ ').casefold() in SENTINELS


def has_loose_dollar(gold: str) -> bool:
    """Returns whether a dollar neither ends a formula nor precedes an amount."""
    return bool(_DOLLAR.search(_CURRENCY.sub('', gold)))


def _as_formula(text: str) -> str:
    r"""Rewrites text with formulas between delimiters as one formula.

    >>> print(_as_formula('$5$ cm or $6$ cm'))
    5\text{ cm}\text{ or }6\text{ cm}
    """
    formulas = list(_FORMULA.finditer(text))
    outside = _FORMULA.sub('\0', text).split('\0')
    words = _WORD.findall(' '.join(outside))
    if not formulas or _DOLLAR.search(' '.join(outside)) or len(words) > _MOST_WORDS:
        return text
    parts = [_as_text(outside[0])]
    for formula, behind in zip(formulas, outside[1:], strict=True):
        parts += [formula[formula.lastgroup or 0], _as_text(behind)]
    return ''.join(parts).strip()


def _as_text(text: str) -> str:
    r"""Wraps words in ``\text``; "and" and "or" apart from other words."""
    if re.search(r'[\\{}]', text):
        return text
    return ''.join(
        rf'\text{{{part}}}' if _LETTERS.search(part) else part
        for part in _JOINT.split(text)
    )
