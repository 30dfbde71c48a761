"""Reads numbers in English words: ``two thousand five hundred and one``."""

import re

from passk_jax.verifiers.vocabulary import NUMBERS

_SCALES = {'billion': 10**9, 'million': 10**6, 'thousand': 10**3, 'hundred': 10**2}
# At most this many hundreds: twelve hundred. Of others at most 999.
_MOST_HUNDREDS = 99
_HYPHEN = re.compile('(?<=[a-z])-(?=[a-z])')


def read_number(words: str) -> int | None:
    """Returns a number below 10^12 in words; ``None`` for other words.

    >>> read_number('two thousand five hundred and one'), read_number('a million')
    (2501, 1000000)
    >>> read_number('five six'), read_number('two hundred apples')
    (None, None)
    """
    words = _HYPHEN.sub(' ', words.lower())
    return 100 if words == 'hundred' else _read(words)


def negate(match: re.Match[str]) -> str:
    """Rewrites ``minus`` and a number, group 1, in digits; other words stay."""
    number = match[1] if match[1][0] in '.0123456789' else read_number(match[1])
    return match[0] if number is None else f'-{number}'


def _read(words: str) -> int | None:
    """Reads a count, the largest scale, perhaps ``and``, and the smaller remainder."""
    for name, scale in _SCALES.items():
        before, sign, after = words.partition(f' {name}')
        if not sign or (after and not after.startswith(' ')):
            continue
        count = 1 if before == 'a' else _read(before)
        remainder = _read(after.strip().removeprefix('and ')) if after else 0
        if not count or remainder is None or (after and not 0 < remainder < scale):
            return None
        most = _MOST_HUNDREDS if name == 'hundred' else 999
        return count * scale + remainder if count <= most else None
    return int(NUMBERS[words]) if words in NUMBERS else None
