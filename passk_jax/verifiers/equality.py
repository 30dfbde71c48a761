r"""Compares an answer with the gold in a worker: by values, then by math-verify.

Expressions are compared by their values to 40 digits (numeric.py). math-verify 0.9.0
judges pairs with a part that no reader here knows, such as an integral or
``\mathbb{Z}``, and pairs whose forms leave the question open. Two numbers that it finds
equal must also agree to a relative millionth: it rounds to six decimals, so that
:math:`10^{-18}` would equal :math:`10^{-19}`.

The pool of :mod:`passk_jax.verifiers.pool` bounds time and memory. This module imports
sympy.

math-verify gets LaTeX only: its reader of plain text passes text to ``eval``, by way of
sympy.
"""

import functools
import re
from typing import Any

import math_verify
import sympy

from passk_jax.verifiers import comparison, numeric
from passk_jax.verifiers.forms import Expression
from passk_jax.verifiers.reading import read_normal

_LATEX = (math_verify.LatexExtractionConfig(),)
_TOLERANCE = 1e-6
# In \int_0^6 1 dx, the bound is 6, not 61.
_BOUND = re.compile(
    r'(\\(?:int|sum|prod) *_ *(?:[0-9A-Za-z]|\{[^{}]*\}) *\^ *)([0-9])(?= +[0-9])'
)
_DIVISOR_OF_LETTERS = re.compile(r'\\gcd[^0-9]*[A-Za-z]|lcm\}?\W*[A-Za-z]')
_APART = re.compile(r'[0-9]\s*(?:[\s"\']|\\text\{[^{}]*\})\s*[0-9]')


class ParseError(ValueError):
    """math-verify cannot parse an answer."""


class _Values:
    """The judge of the worker, which computes the values of expressions."""

    _exact = comparison.Exact()
    proportional = staticmethod(numeric.proportional)
    near = staticmethod(numeric.near)
    lies_between = staticmethod(numeric.lies_between)

    def same(self, gold: Expression, answer: Expression) -> bool | None:
        result = self._exact.same(gold, answer)
        if result is not None or gold.tree is None or answer.tree is None:
            return result
        return numeric.same(gold.tree, answer.tree)


def equal(gold: str, answer: str) -> bool:
    """Returns whether an answer equals the gold; not symmetric.

    Equal texts are equal answers only if math-verify can parse them.

    Args:
        gold: the right answer, in normal form (normal_form.py).
        answer: the answer to judge, in normal form.

    Raises:
        ParseError: math-verify is needed, and cannot parse one of them.
    """
    if gold == answer:
        return _compare_by_math_verify(gold, answer)
    result = comparison.equal(read_normal(gold), read_normal(answer), _Values())
    return _compare_by_math_verify(gold, answer) if result is None else result


def _compare_by_math_verify(gold: str, answer: str) -> bool:
    gold, answer = (_BOUND.sub(r'\1{\2}', text) for text in (gold, answer))
    # sympy takes letters as having no common divisor.
    if any(map(_DIVISOR_OF_LETTERS.search, (gold, answer))):
        raise ParseError(answer)
    # math-verify would drop words ("14 or more"), marks (9', 9?), and join numbers.
    alike = _words_of(answer) == _words_of(gold) and _marks(answer) == _marks(gold)
    if not alike or _APART.search(answer):
        raise ParseError(answer)
    golds, answers = list(_parse_gold(gold)), list(_parse(answer))
    # math-verify's own time limits use SIGALRM, as the pool's do.
    if not math_verify.verify(golds, answers, timeout_seconds=None):
        return False
    values = [_number(parsed) for parsed in (golds, answers)]
    if None in values:
        return True
    # sympy's booleans cannot be written as JSON.
    return bool(abs(values[0] - values[1]) <= _TOLERANCE * abs(values[0]))


def _words_of(text: str) -> list[str]:
    return re.findall(
        '[^\\W\\d_]{2,}', ' '.join(re.findall(r'\\text\{([^{}]*)\}', text))
    )


def _marks(text: str) -> list[str]:
    """Returns primes, subscripts of numbers, dots and question marks."""
    return re.findall(r"'|(?<=[0-9])_|\?|\.\.\.|\\ldots", text)


def _number(parsed: list[Any]) -> Any:
    """Returns the value of the parsed expression if it is a number."""
    expression = parsed[0]
    if not isinstance(expression, sympy.Expr) or expression.free_symbols:
        return None
    value: Any = expression.evalf(30)
    return value if value.is_number and value.is_finite else None


def _parse(text: str) -> tuple[Any, ...]:
    parsed = math_verify.parse(f'${text}$', _LATEX, parsing_timeout=0)
    # The list also has the text; a list of text alone means that nothing was parsed.
    if not any(not isinstance(part, str) for part in parsed):
        raise ParseError(text)
    return tuple(parsed)


_parse_gold = functools.lru_cache(maxsize=1024)(_parse)
