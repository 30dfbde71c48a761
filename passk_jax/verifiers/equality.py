r"""Whether two LaTeX expressions are equal, by math-verify; for worker processes only.

Nothing here is bounded in time or memory: the pool of :mod:`passk_jax.verifiers.pool`
is. Sympy is imported on import.

math-verify is given LaTeX alone. Its other reader, for plain text, passes text to
``eval`` by way of sympy.
"""

import functools
from typing import Any

import math_verify

_LATEX = (math_verify.LatexExtractionConfig(),)


class ParseError(ValueError):
    """math-verify cannot parse an answer."""


def equal(gold: str, answer: str) -> bool:
    """Whether an answer equals the right one; not symmetric.

    Args:
        gold: the right answer, LaTeX without dollars.
        answer: the one to judge, likewise.

    Raises:
        ParseError: one of them is no LaTeX that math-verify knows.
    """
    # Without math-verify's time limits, which use SIGALRM: the pool has its own.
    return bool(
        math_verify.verify(
            list(_parse_gold(gold)), list(_parse(answer)), timeout_seconds=None
        )
    )


def _parse(text: str) -> tuple[Any, ...]:
    found = math_verify.parse(f'${text}$', _LATEX, parsing_timeout=None)
    # Beside what was parsed, the list has the text; alone, the text was not parsed.
    if not any(not isinstance(each, str) for each in found):
        raise ParseError(text)
    return tuple(found)


_parse_gold = functools.lru_cache(maxsize=1024)(_parse)
