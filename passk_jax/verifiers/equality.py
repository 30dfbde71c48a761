r"""Whether an answer equals the gold, in a worker: values, then math-verify.

Expressions are compared by their values to 40 digits (numeric.py). What has a part that
no reader here knows, such as an integral or ``\mathbb{R}``, is for math-verify 0.9.0,
which also sees pairs whose forms leave a question open. Where it finds two numbers
equal, they have to agree to a millionth, relative: it rounds to six decimals, so that
:math:`10^{-18}` would be :math:`10^{-19}`.

Nothing here is bounded in time or memory: the pool of :mod:`passk_jax.verifiers.pool`
is. Sympy is imported on import.

math-verify is given LaTeX alone. Its other reader, for plain text, passes text to
``eval`` by way of sympy.
"""

import functools
import re
from typing import Any

import math_verify
import sympy

from passk_jax.verifiers import comparison, numeric
from passk_jax.verifiers.forms import Expression
from passk_jax.verifiers.reading import read_normal
from passk_jax.verifiers.trees import Node

_LATEX = (math_verify.LatexExtractionConfig(),)
_TOLERANCE = 1e-6
_APART = re.compile(r'[0-9]\s*[\s"\']\s*[0-9]')


class ParseError(ValueError):
    """math-verify cannot parse an answer."""


class _Values:
    """The judge of expressions that computes their values."""

    _exact = comparison.Exact()

    def same(self, gold: Expression, answer: Expression) -> bool | None:
        result = self._exact.same(gold, answer)
        if result is not None or gold.tree is None or answer.tree is None:
            return result
        return numeric.same(gold.tree, answer.tree)

    def proportional(self, gold: Node, answer: Node) -> bool | None:
        return numeric.proportional(gold, answer)

    def near(self, first: Node, second: Node) -> bool | None:
        return numeric.near(first, second)


def equal(gold: str, answer: str) -> bool:
    """Whether an answer equals the gold; not symmetric.

    Two texts that are the same are equal if math-verify can parse them.

    Args:
        gold: the right answer, in normal form (normal_form.py).
        answer: the one to judge, likewise.

    Raises:
        ParseError: one of them is no LaTeX that math-verify knows, and it takes that.
    """
    if gold == answer:
        return _compare_by_math_verify(gold, answer)
    result = comparison.equal(read_normal(gold), read_normal(answer), _Values())
    return _compare_by_math_verify(gold, answer) if result is None else result


def _compare_by_math_verify(gold: str, answer: str) -> bool:
    # math-verify drops words, such as those of "14 or more", and joins numbers.
    if _words_of(answer) != _words_of(gold) or _APART.search(answer):
        raise ParseError(answer)
    golds, answers = list(_parse_gold(gold)), list(_parse(answer))
    # Without math-verify's time limits, which use SIGALRM: the pool has its own.
    if not math_verify.verify(golds, answers, timeout_seconds=None):
        return False
    values = [_number(parsed) for parsed in (golds, answers)]
    if None in values:
        return True
    # A truth of sympy's is no JSON.
    return bool(abs(values[0] - values[1]) <= _TOLERANCE * abs(values[0]))


def _words_of(text: str) -> list[str]:
    return re.findall(
        '[^\\W\\d_]{2,}', ' '.join(re.findall(r'\\text\{([^{}]*)\}', text))
    )


def _number(parsed: list[Any]) -> Any:
    """The value of what was parsed if it is a number."""
    expression = parsed[0]
    if not isinstance(expression, sympy.Expr) or expression.free_symbols:
        return None
    value = expression.evalf(30)
    return value if value.is_number and value.is_finite else None


def _parse(text: str) -> tuple[Any, ...]:
    parsed = math_verify.parse(f'${text}$', _LATEX, parsing_timeout=None)
    # Beside what was parsed, the list has the text; alone, the text was not parsed.
    if not any(not isinstance(part, str) for part in parsed):
        raise ParseError(text)
    return tuple(parsed)


_parse_gold = functools.lru_cache(maxsize=1024)(_parse)
