"""Golds: the right answers of problems, as data files have them.

Files have them alone, at the end of a worked solution (``#### 72``, as in gsm8k), or in
a box. Some files mark problems without a gold by a word.
"""

from passk_jax.verifiers.extract import last_box

# Entries that stand for a missing gold, in lower case.
SENTINELS = frozenset(('', 'proof', 'notfound', 'not found', 'nan', 'null', 'n/a'))
_MARK = '####'


def gold_of(text: str) -> str:
    r"""Extracts the gold from the text of a file.

    >>> gold_of('30+42=72, so\n#### 72'), gold_of(r'Hence $x=\boxed{5}$.'), gold_of('7')
    ('72', '5', '7')
    """
    if _MARK in text:
        return text.rpartition(_MARK)[2].strip()
    if r'\boxed' in text:
        return (last_box(text) or text).strip()
    return text.strip()


def is_sentinel(gold: str) -> bool:
    """Returns whether a text marks a missing gold: ``proof``, ``notfound``, ``nan``."""
    return gold.strip().strip('$ ').casefold() in SENTINELS
