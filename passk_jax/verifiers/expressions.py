"""Evaluates arithmetic exactly, and finds expressions for a target.

The grammar has only the numbers and operators of the puzzles: no names, powers, signs
or calls. So no text can run code or make numbers that grow large.
"""

import dataclasses
import functools
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from passk_jax.verifiers.answers import Wrong

# No puzzle needs more.
_MAX_TEXT = 400
_TOKEN = re.compile(r'[ \t\r\n]*([0-9]{1,6}(?![0-9])|[-+*/()])')
_RANK = {'+': 1, '-': 1, '*': 2, '/': 2}


@dataclasses.dataclass(frozen=True)
class Value:
    """The value of an expression.

    Attributes:
        result: its exact value.
        numbers: the numbers in it, in order.
        steps: the result of each operation, in the order of evaluation.
    """

    result: Fraction
    numbers: tuple[int, ...]
    steps: tuple[Fraction, ...]


def evaluate(text: str, *, number: Callable[[int], Any] = Fraction) -> Value:
    """Evaluates integers joined by ``+ - * /`` and parentheses.

    Args:
        text: the expression.
        number: converts integers; with ``int``, quotients are floats.

    Raises:
        Wrong: the text is anything else, or divides by zero.
        OverflowError: a number too large for Python's division; never with fractions.

    >>> evaluate('8 / (3 - 1)').result
    Fraction(4, 1)
    """
    if len(text) > _MAX_TEXT:
        raise Wrong(f'an expression of more than {_MAX_TEXT} characters')
    values: list[Fraction] = []
    operators: list[str] = []
    numbers: list[int] = []
    steps: list[Fraction] = []
    after_value = False
    for token in _tokens(text):
        if token.isdigit() or token == '(':
            if after_value:
                raise Wrong(f'no operator before {token}')
            if token == '(':
                operators.append(token)
                continue
            values.append(number(int(token)))
            numbers.append(int(token))
            after_value = True
            continue
        if not after_value:
            raise Wrong(f'no number before {token}')
        rank = _RANK.get(token, 0)
        while operators and operators[-1] != '(' and _RANK[operators[-1]] >= rank:
            _apply(operators.pop(), values, steps)
        if token != ')':
            operators.append(token)
            after_value = False
        elif not operators:
            raise Wrong('a parenthesis too many')
        else:
            operators.pop()
    if not after_value:
        raise Wrong('no number at the end')
    while operators:
        if operators[-1] == '(':
            raise Wrong('a parenthesis is not closed')
        _apply(operators.pop(), values, steps)
    return Value(values[0], tuple(numbers), tuple(steps))


def _tokens(text: str) -> list[str]:
    tokens, place = [], 0
    end = len(text.rstrip(' \t\r\n'))
    while place < end:
        match = _TOKEN.match(text, place)
        if not match:
            foreign = text[place:].lstrip(' \t\r\n')[0]
            raise Wrong(f'{foreign!r} does not belong in an expression')
        tokens.append(match[1])
        place = match.end()
    return tokens


def _apply(sign: str, values: list[Fraction], steps: list[Fraction]) -> None:
    right, left = values.pop(), values.pop()
    if sign == '/' and not right:
        raise Wrong('a division by zero')
    operation = {
        '+': operator.add,
        '-': operator.sub,
        '*': operator.mul,
        '/': operator.truediv,
    }[sign]
    values.append(operation(left, right))
    steps.append(values[-1])


@functools.lru_cache(maxsize=4096)
def find(numbers: tuple[int, ...], target: int) -> str | None:
    """Finds an expression with every number once and this value, or ``None``.

    It tries all, in about 10 ms for four numbers and a second for five.
    """
    terms = [(number, 1, str(number)) for number in numbers]
    return _find(terms, target)


def _find(terms: list[tuple[int, int, str]], target: int) -> str | None:
    """Does the work of :func:`find` on terms: numerator, denominator, expression."""
    if len(terms) == 1:
        numerator, denominator, text = terms[0]
        return text if numerator == target * denominator else None
    for i in range(len(terms)):
        for j in range(i):
            remaining = [term for k, term in enumerate(terms) if k not in (i, j)]
            for combination in _combinations(terms[j], terms[i]):
                if text := _find([*remaining, combination], target):
                    return text
    return None


def _combinations(
    first: tuple[int, int, str], second: tuple[int, int, str]
) -> list[tuple[int, int, str]]:
    (a, b, x), (c, d, y) = first, second
    results = [
        (a * d + c * b, b * d, f'({x}+{y})'),
        (a * d - c * b, b * d, f'({x}-{y})'),
        (c * b - a * d, b * d, f'({y}-{x})'),
        (a * c, b * d, f'({x}*{y})'),
    ]
    if c:
        results.append((a * d, b * c, f'({x}/{y})'))
    if a:
        results.append((c * b, d * a, f'({y}/{x})'))
    return results


def without_outer(text: str) -> str:
    """Removes the parentheses around a whole expression of :func:`find`."""
    return text[1:-1] if text.startswith('(') else text
