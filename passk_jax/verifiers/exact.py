r"""Answers that need no computer algebra: equal texts, and numbers.

A number is an integer, a decimal or a fraction of integers, with a sign: ``-3``,
``033``, ``0.5``, ``.5``, ``204.``, ``3/4``, ``\frac{3}{4}``, ``\dfrac34``. Digits are
ASCII. Everything else is for :mod:`passk_jax.verifiers.equality`.
"""

import re
from fractions import Fraction

_MOST_DIGITS = 40
_MOST_CHARACTERS = 512
_MOST_BRACES = 200

_INTEGER = re.compile(r'[+-]?[0-9]+')
_DECIMAL = re.compile(r'([+-]?)([0-9]*)\.([0-9]*)')
_RATIO = re.compile(r'([+-]?[0-9]+)/([0-9]+)')
_FRACTION = re.compile(
    r'([+-]?)\\[dtc]?frac(?:\{([+-]?[0-9]+)\}|([0-9]))(?:\{([0-9]+)\}|([0-9]))'
)
_LONG_NUMBER = re.compile(rf'[0-9]{{{_MOST_DIGITS + 1}}}')
_LARGE_FACTORIAL = re.compile(r'[0-9]{5}[\s)}\]]*!')
_FACTORIAL_OF_FACTORIAL = re.compile(r'![\s)}\]]+!')
# A power whose exponent, digits so far, is a power: 9^9^9, 9^{9^9}, 9**9**9.
_TOWER = re.compile(r'[0-9)]\s*(?:\^|\*\*)[\s{(+-]*[0-9]+[\s})]*(?:\^|\*\*)')


def equal(gold: str, answer: str) -> bool | None:
    """Whether two answers are equal; ``None`` if that takes computer algebra.

    Two integers are decided here. A fraction and a decimal that differ may still be
    equal as math-verify rounds, so they are not.

    Args:
        gold, answer: LaTeX without dollars.

    >>> equal('33', '033'), equal('3/4', '0.75'), equal('3', '4'), equal('x', 'y')
    (True, True, False, None)
    """
    gold, answer = normalized(gold), normalized(answer)
    if gold == answer:
        return True
    numbers = rational(gold), rational(answer)
    if None in numbers:
        return None
    if numbers[0] == numbers[1]:
        return True
    integers = all(_INTEGER.fullmatch(text) for text in (gold, answer))
    return False if integers else None


def normalized(answer: str) -> str:
    """An answer without dollars and blanks around it."""
    answer = answer.strip()
    if len(answer) > 1 and answer[0] == answer[-1] == '$':
        answer = answer.strip('$').strip()
    return answer


def rational(text: str) -> Fraction | None:
    """The number that a text is; ``None`` for anything else or more than 40 digits."""
    if len(text) > 2 * _MOST_DIGITS + 16 or _LONG_NUMBER.search(text):
        return None
    if _INTEGER.fullmatch(text):
        return Fraction(int(text))
    if match := _DECIMAL.fullmatch(text):
        sign, whole, part = match.groups()
        if not whole + part:
            return None
        return Fraction(int(f'{sign}{whole}{part}'), 10 ** len(part))
    if match := _RATIO.fullmatch(text):
        return _ratio(*match.groups())
    if match := _FRACTION.fullmatch(text):
        sign, *digits = match.groups()
        above, below = (digits[0] or digits[1]), (digits[2] or digits[3])
        number = _ratio(above, below)
        return -number if number is not None and sign == '-' else number
    return None


def _ratio(above: str, below: str) -> Fraction | None:
    return Fraction(int(above), int(below)) if int(below) else None


def refusal(answer: str) -> str | None:
    """Why computer algebra should not see an answer; ``None``: it may.

    The pool ends what takes too long; this saves it most of that time.
    """
    if len(answer) > _MOST_CHARACTERS:
        return f'longer than {_MOST_CHARACTERS} characters'
    if '$' in answer.replace(r'\$', ''):
        return 'a dollar inside the answer'
    if answer.count('{') > _MOST_BRACES:
        return f'more than {_MOST_BRACES} braces'
    if _LONG_NUMBER.search(answer):
        return f'a number of more than {_MOST_DIGITS} digits'
    if _LARGE_FACTORIAL.search(answer) or _FACTORIAL_OF_FACTORIAL.search(answer):
        return 'a factorial too large'
    if _TOWER.search(answer):
        return 'a tower of powers'
    return None
