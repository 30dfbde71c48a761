r"""Compares the values of two LaTeX expressions to two decimals, in worker processes.

As in :mod:`passk_jax.verifiers.equality`, nothing here bounds time or memory.
"""

import re

from latex2sympy2_extended import latex2sympy

_COMMAND = re.compile(r'\\[a-z]+')
_LETTER = re.compile(r'[^\W\d_]')
_DECIMALS = 2


def equal(gold: str, answer: str) -> bool:
    """Tells whether two numbers, or lists of numbers, are equal when rounded.

    Raises the parser's exception if one is not a number.

    >>> equal('(1,\\\\frac{1}{3})', '(1,0.333)'), equal('2018.0005', '2018')
    (True, True)
    """
    one, other = _parts(gold), _parts(answer)
    if one and other and one[0] == other[0]:
        golds, answers = one[1:], other[1:]
        return len(golds) == len(answers) and all(
            a == b or _rounded(a) == _rounded(b)
            for a, b in zip(golds, answers, strict=True)
        )
    return _rounded(gold) == _rounded(answer)


def _parts(text: str) -> list[str] | None:
    """Returns the bracket and the parts of a list of several parts."""
    text = text.strip()
    if text[:1] + text[-1:] not in ('()', '[]') or ',' not in text:
        return None
    return [text[0], *text[1:-1].split(',')]


def _rounded(text: str) -> float:
    # The parser reads other letters as factors; times 0 they would be a number.
    if set(_LETTER.findall(_COMMAND.sub('', text))) - {'e'}:
        raise ValueError('a name')
    number = latex2sympy(text)
    # pyrefly: ignore[bad-argument-type]  # The package has no types: any expression.
    return round(float(number), _DECIMALS)
