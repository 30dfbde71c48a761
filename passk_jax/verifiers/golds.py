r"""The right answers of problems: what stands for them in files, and what is none.

Files keep them alone, at the end of a worked solution (``#### 72``, as gsm8k does), or
in a box. Some mark problems without one by a word.
"""

from passk_jax.verifiers.extract import last_box

# What stands where a problem has no right answer, in small letters.
SENTINELS = frozenset(('', 'proof', 'notfound', 'not found', 'nan', 'null', 'n/a'))
_MARK = '####'


def gold_of(text: str) -> str:
    r"""The gold in the text of a file.

    >>> gold_of('30+42=72, so\n#### 72'), gold_of(r'Hence $x=\boxed{5}$.'), gold_of('7')
    ('72', '5', '7')
    """
    if _MARK in text:
        return text.rpartition(_MARK)[2].strip()
    if r'\boxed' in text:
        return (last_box(text) or text).strip()
    return text.strip()


def is_sentinel(gold: str) -> bool:
    """Whether a gold stands for none: ``proof``, ``notfound``, ``nan``, ``null``."""
    return gold.strip().strip('$ ').casefold() in SENTINELS
