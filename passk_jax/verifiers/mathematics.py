r"""Verdicts on mathematics: the last box, exact numbers, then math-verify in the pool.

1. Only the content of the last ``\boxed{...}`` counts. On a whole response math-verify
   would read ``\boxed{1} then \boxed{204}`` as 1204.
2. Texts and numbers are compared exactly (exact.py).
3. An answer that is too long or too deep, or names too large a number, is wrong
   (``exact.refusal``).
4. math-verify 0.9.0 decides the rest (equality.py), in worker processes.

What that accepts beyond equality, all of it math-verify's (for gold ``g``):

* units and text: ``5 cm``, ``5\text{ cm}``, ``\$5`` and ``90^\circ`` for 5 and 90;
* an equation for its right side: ``x=204`` and even ``203=204`` for 204;
* decimals rounded to six places: 0.333333 for 1/3, but not 0.3333;
* ``\{1,2\}`` for the pair (1,2) and the reverse, ``\{204\}`` and ``[204]`` for 204;
* unevaluated terms: ``203+1`` for 204.

Unlike the whole of math-verify this rejects ``204\%`` for 204, which only its reader of
plain text accepts, prose without a box, and a box that is not closed. It rejects
``-1<x<1`` for (-1,1), as math-verify does.
"""

import functools
import importlib.util
from collections.abc import Sequence

from passk_jax.errors import InputError
from passk_jax.runtime.cores import usable_cores
from passk_jax.types import Verdict
from passk_jax.verifiers import exact
from passk_jax.verifiers.extract import last_box
from passk_jax.verifiers.pool import CRASH, PARSE_FAILURE, TIMEOUT, Pool

# An answer of a benchmark takes 1.2 ms at the median and 80 ms at the 99th percentile.
DEADLINE_S = 5.0
MEMORY_BYTES = 2**31
# More would wait for the parent, which feeds them all.
MAX_WORKERS = 16
EQUALITY = 'passk_jax.verifiers.equality:equal'

_PACKAGES = ('math_verify', 'latex2sympy2_extended', 'antlr4', 'sympy')
_UNEQUAL = 'not equal to the right answer'
# What failed -> what the verdict says.
FAILURES = {
    TIMEOUT: 'the comparison took too long',
    CRASH: 'the comparison crashed or took too much memory',
    PARSE_FAILURE: 'the answer cannot be parsed',
}


@functools.cache
def shared_pool() -> Pool:
    """The pool of this process, made on first use."""
    workers = min(len(usable_cores()), MAX_WORKERS)
    return Pool(
        EQUALITY, workers=workers, deadline_s=DEADLINE_S, memory_bytes=MEMORY_BYTES
    )


def check_packages() -> None:
    """Raises ValueError if a package that judges is missing; imports none."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f'verdicts on mathematics need {missing}, which are not installed: '
            f'pip install math-verify==0.9.0 antlr4-python3-runtime==4.11.0'
        )


def judge(
    golds: Sequence[str], responses: Sequence[str], *, pool: Pool | None = None
) -> list[Verdict]:
    """The verdicts on responses.

    Args:
        golds: the right answer to each response's problem.
        responses: whole texts.
        pool: where math-verify runs; ``None``: :func:`shared_pool`.

    Raises:
        ValueError: the pool does not work; never for what a response is.
    """
    answers = [last_box(response) for response in responses]
    boxed = [(g, a) for g, a in zip(golds, answers, strict=True) if a is not None]
    verdicts = iter(compare(boxed, pool=pool))
    unboxed = Verdict(False, '', r'no \boxed{...}, or one that is not closed')
    return [unboxed if answer is None else next(verdicts) for answer in answers]


def compare(
    pairs: Sequence[tuple[str, str]], *, pool: Pool | None = None
) -> list[Verdict]:
    """The verdicts on answers that were read already.

    Args:
        pairs: a right answer and the one to judge, LaTeX without dollars.
        pool: as for :func:`judge`, and so are the errors.
    """
    decided = {pair: _verdict(*pair) for pair in dict.fromkeys(pairs)}
    # Repeats are left in: failures are counted by response.
    open_pairs = [pair for pair in pairs if decided[pair] is None]
    if open_pairs:
        texts = [tuple(map(exact.normalized, pair)) for pair in open_pairs]
        judgements = (pool or shared_pool()).judge(texts)
        for pair, judged in zip(open_pairs, judgements, strict=True):
            error = FAILURES.get(judged.failure, _UNEQUAL)
            error = None if judged.correct else error
            decided[pair] = Verdict(judged.correct, pair[1].strip(), error)
    return [decided[pair] for pair in pairs]


def _verdict(gold: str, answer: str) -> Verdict | None:
    """The verdict without computer algebra; ``None`` if it takes that."""
    parsed = answer.strip()
    if not exact.normalized(answer):
        return Verdict(False, '', 'an empty box')
    equal = exact.equal(gold, answer)
    if equal is not None:
        return Verdict(equal, parsed, None if equal else _UNEQUAL)
    if reason := exact.refusal(exact.normalized(answer)):
        # Such a text may be as long as the response.
        return Verdict(False, parsed[:512], reason)
    return None
