r"""Golds: the right answers of problems, as data files write them.

A file gives the answer alone, at the end of a worked solution (``#### 72``, as in
gsm8k), or in a box. Some files mark problems without a gold by a word. Some write text
with formulas between dollars: ``$10$ minutes`` becomes ``10\text{ minutes}``.
"""

import re

from passk_jax.verifiers.extract import last_box
from passk_jax.verifiers.formulas import join_gold

# Entries that stand for a missing gold, in lower case.
SENTINELS = frozenset(('', 'proof', 'notfound', 'not found', 'nan', 'null', 'n/a'))
_MARK = '####'
_DOLLAR = re.compile(r'(?<!\\)\$')
_CURRENCY = re.compile(r'(?:^|(?<=[\s(\[{,;:+-]))\$(?=\s*[0-9.(\\])')


def gold_of(text: str) -> str:
    r"""Extracts the gold from the text of a file.

    >>> gold_of('30+42=72, so\n#### 72'), gold_of(r'Hence $x=\boxed{5}$.'), gold_of('7')
    ('72', '5', '7')
    """
    if _MARK in text:
        text = text.rpartition(_MARK)[2]
    elif r'\boxed' in text:
        text = last_box(text) or text
    return join_gold(text.strip())


def is_sentinel(gold: str) -> bool:
    """Returns whether a text marks a missing gold: ``proof``, ``notfound``, ``nan``."""
    return gold.strip().strip('$ ').casefold() in SENTINELS


def has_loose_dollar(gold: str) -> bool:
    """Returns whether a dollar neither ends a formula nor precedes an amount."""
    return bool(_DOLLAR.search(_CURRENCY.sub('', gold)))
