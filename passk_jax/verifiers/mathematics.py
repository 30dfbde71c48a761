r"""Verdicts on mathematics: the last box, its form, exact numbers, then the pool.

1. Only the content of the last ``\boxed{...}`` counts. On a whole response math-verify
   would read ``\boxed{1} then \boxed{204}`` as 1204.
2. Gold and answer are rewritten in one spelling (normal_form.py) and read by form
   (forms.py). The gold's form decides what counts (comparison.py); numbers are compared
   exactly (exact.py).
3. Worker processes decide the rest: by values to 40 digits (numeric.py), and by
   math-verify 0.9.0 if no reader here knows a part (equality.py).
4. An answer is wrong if it has more than 512 characters, too large a number or too
   many nested operations, unless it is the gold's text.

Strict and lenient choices; docs/tasks.md gives reasons:

==========================================  ==========================================
right                                       wrong
==========================================  ==========================================
``5 cm``, ``5\text{ cm}``, ``\$5`` for 5     5 m for 5 cm, ``2t`` or ``2s`` for 2
``6\text{ m s}^{-1}`` for 6 m/s and for 6   6 m for 6 m/s
50, ``50\%``, 0.5, ``\frac12`` for ``50\%``  0.5 for 50
``x=5``, ``a+b=5``, ``2+3=5`` for 5          ``2x=5``; ``4=5``; 5 for ``a+b=5``
``x>0, x\ne1`` for ``(0,1)\cup(1,\infty)``   ``x>0``
0.333333 for 1/3 (rounded or cut)           0.3333; 203.9999999 for 204
``7.5\mathrm{e}{-5}`` for ``7.5e-5``
``2,1`` and ``\{1,2\}`` for ``1,2``          ``(2,1)`` for ``1,2``; 1,2 for 1,1,2
``30,150`` for ``30, 150`` and for 30150     30150 for ``30, 150``
``1,2`` for ``(1,2)``                        ``\{1,2\}`` for ``(1,2)`` and the reverse
``\{204\}``, ``[204]`` for 204
``[[1],[2]]`` for a column, ``[1,2]`` for    ``[1,2]`` for a column
a row
``1\le x\le2`` for ``[1,2]``                ``-1<x<1`` for ``(-1,1)``, a point perhaps
``|x|>1`` for ``x<-1`` or ``x>1``           ``|z|<1`` for ``-1<z<1``, a disk perhaps
``66_{8}`` for ``66_8``                      66 for ``66_8``, ``52_8`` for 52
``6:8`` and 3/4 for ``3:4``                  2:15 for 4:30, a time
``C)  5``, ``(C)``, ``c`` for the option C    another letter
``$5$ cm`` for 5                            ``$5$ cm$``; ``$5$ $000$`` for 5000
``14:00``, 2:00 and 2 PM for 2 p.m.         2 a.m. for it; ``10am``, a product
``x\equiv 10\pmod 7`` for ``3 \pmod 7``     3 alone; ``2x\equiv 3\pmod 7``
``(-\infty,\infty)``, all reals for          ``\mathbb{Q}``
``\mathbb{R}``; undefined for DNE
``X+C`` for ``x+c``: case, if it is no       ``XSQL`` for ``LQSX``
difference elsewhere
==========================================  ==========================================
"""

import dataclasses
import functools
import importlib.util
import re
from collections.abc import Sequence

from passk_jax.errors import InputError
from passk_jax.types import Verdict
from passk_jax.verifiers import exact
from passk_jax.verifiers.comparison import Exact, equal
from passk_jax.verifiers.extract import last_box
from passk_jax.verifiers.forms import Expression, Form, is_deep, is_read
from passk_jax.verifiers.formulas import join_answer
from passk_jax.verifiers.golds import gold_of, has_loose_dollar, is_sentinel
from passk_jax.verifiers.normal_form import normal_form
from passk_jax.verifiers.pool import CRASH, PARSE_FAILURE, TIMEOUT, Pool, num_workers
from passk_jax.verifiers.reading import MOST_CHARACTERS, read, read_normal
from passk_jax.verifiers.splitting import depths

# An answer of a benchmark takes 1.2 ms at the median and 80 ms at the 99th percentile.
DEADLINE_S = 5.0
MEMORY_BYTES = 2**31
EQUALITY = 'passk_jax.verifiers.equality:equal'

_PACKAGES = ('math_verify', 'latex2sympy2_extended', 'antlr4', 'sympy')
_UNEQUAL = 'not equal to the right answer'
_TOO_LONG = f'longer than {MOST_CHARACTERS} characters'
# Characters of an answer before it is rewritten in normal form.
_MOST_READ = 4096
_MOST_DEPTH = 40
# Characters of a gold in a message.
_MAX_CHARACTERS = 60
# Words outside of \text in a gold that is read by form; other golds have at most one.
_MOST_WORDS = 6
_WORD = re.compile('[A-Za-z]{3,}')
_COMMAND = re.compile(r'\\text\{[^{}]*\}|\\[A-Za-z]+(?:\{[a-z]+\})?')
# Kind of failure -> the verdict's error.
FAILURES = {
    TIMEOUT: 'the comparison took too long',
    CRASH: 'the comparison crashed or took too much memory',
    PARSE_FAILURE: 'the answer cannot be parsed',
}


@functools.cache
def shared_pool() -> Pool:
    """Returns the pool of this process, made on first use."""
    return Pool(
        EQUALITY,
        workers=num_workers(),
        deadline_s=DEADLINE_S,
        memory_bytes=MEMORY_BYTES,
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
    """Judges responses.

    Args:
        golds: the right answer to each response's problem.
        responses: whole texts.
        pool: where math-verify runs; ``None``: :func:`shared_pool`.

    Raises:
        ValueError: the pool does not work; no text of a response raises.
    """
    answers = [last_box(response) for response in responses]
    boxed = [(g, a) for g, a in zip(golds, answers, strict=True) if a is not None]
    verdicts = iter(compare(boxed, pool=pool))
    unboxed = Verdict(False, '', r'no \boxed{...}, or one that is not closed')
    return [unboxed if answer is None else next(verdicts) for answer in answers]


def judge_one(gold: str, response: str, *, pool: Pool | None = None) -> Verdict:
    """Judges one response; the error names the gold if the gold is at fault.

    Arguments and errors are those of :func:`judge`.
    """
    (verdict,) = judge([gold], [response], pool=pool)
    suspect = verdict.error in (FAILURES[PARSE_FAILURE], _UNEQUAL)
    if not suspect or not unparsed([gold], pool=pool):
        return verdict
    error = f'the gold {gold[:_MAX_CHARACTERS]!r} cannot be parsed'
    return dataclasses.replace(verdict, error=error)


def compare(
    pairs: Sequence[tuple[str, str]], *, pool: Pool | None = None
) -> list[Verdict]:
    """Judges answers that are already extracted.

    Args:
        pairs: a gold and the answer to judge, LaTeX without dollars.
        pool: as for :func:`judge`, which lists the errors too.
    """
    verdicts = {pair: _verdict(*pair) for pair in dict.fromkeys(pairs)}
    decided = {pair: verdict for pair, verdict in verdicts.items() if verdict}
    # With repeats, because the pool counts failures by response.
    open_pairs = [pair for pair in pairs if pair not in decided]
    if open_pairs:
        texts = [
            (_normal_gold(gold), _normal_answer(answer)) for gold, answer in open_pairs
        ]
        judgements = (pool or shared_pool()).judge(texts)
        for pair, judged in zip(open_pairs, judgements, strict=True):
            reason = FAILURES[judged.failure] if judged.failure else _UNEQUAL
            error = None if judged.correct else reason
            decided[pair] = Verdict(judged.correct, pair[1].strip(), error)
    return [decided[pair] for pair in pairs]


def unparsed(golds: Sequence[str], *, pool: Pool | None = None) -> list[int]:
    """Finds golds that no answer but their own text could equal.

    A gold must be read by form and be equal to itself in brackets. If no reader here
    knows it, math-verify must parse it. Sentences are no golds, nor is text with a
    dollar that neither ends a formula nor precedes an amount.

    Args:
        golds: right answers.
        pool: as for :func:`judge`, which lists the errors too.

    Returns:
        Their places, in order.
    """
    places: dict[str, list[int]] = {}
    for place, gold in enumerate(golds):
        places.setdefault(_normal_gold(gold), []).append(place)
    open_golds, failed = [], []
    for gold in places:
        form = read_normal(gold)
        if not gold or has_loose_dollar(gold) or _is_prose(gold, form):
            failed.append(gold)
        elif not is_read(form):
            open_golds.append(gold)
        # A number such as 1,500 would be a pair in brackets.
        elif ',' not in gold and equal(form, read(f'({gold})'), Exact()) is False:
            failed.append(gold)
    if open_golds:
        # For two equal texts, a worker says whether it can parse them.
        pairs = [(gold, gold) for gold in open_golds]
        judgements = (pool or shared_pool()).judge(pairs)
        failed += [
            gold
            for gold, judged in zip(open_golds, judgements, strict=True)
            if not judged.correct
        ]
    return sorted(place for gold in failed for place in places[gold])


def _is_prose(gold: str, form: Form) -> bool:
    """Returns whether a gold is sentences, or longer than any answer that is read."""
    most_words = _MOST_WORDS if is_read(form) else 1
    words = _WORD.findall(_COMMAND.sub(' ', gold))
    return len(gold) > MOST_CHARACTERS or len(words) > most_words


@functools.lru_cache(maxsize=2**14)
def _normal_gold(gold: str) -> str:
    return normal_form(gold_of(gold))


def _normal_answer(answer: str) -> str:
    return normal_form(join_answer(answer))


def _verdict(gold: str, answer: str) -> Verdict | None:
    """Judges without a worker; returns ``None`` if a worker must decide."""
    parsed = answer.strip()
    if is_sentinel(gold):
        return Verdict(
            False, parsed[:MOST_CHARACTERS], f'the gold {gold!r} is no answer'
        )
    if parsed and parsed == gold.strip():
        return Verdict(True, parsed, None)
    if len(parsed) > _MOST_READ:
        return Verdict(False, parsed[:MOST_CHARACTERS], _TOO_LONG)
    texts = _normal_gold(gold), _normal_answer(answer)
    if not texts[1]:
        return Verdict(False, '', 'an empty box')
    if texts[0] == texts[1]:
        return Verdict(True, parsed, None)
    if reason := refusal(texts[1]):
        return Verdict(False, parsed[:MOST_CHARACTERS], reason)
    form_of_gold, form = map(read_normal, texts)
    result = equal(form_of_gold, form, Exact())
    if result is None and _too_large(form) and not _too_large(form_of_gold):
        return Verdict(False, parsed, 'a number too large')
    if result is None and is_deep(form) and not is_deep(form_of_gold):
        return Verdict(False, parsed, 'too many operations inside one another')
    return (
        None
        if result is None
        else Verdict(result, parsed, None if result else _UNEQUAL)
    )


def refusal(answer: str) -> str | None:
    """Returns why an answer in normal form is not read; ``None`` if it is."""
    if len(answer) > MOST_CHARACTERS:
        return _TOO_LONG
    if '$' in answer.replace(r'\$', '').removeprefix('$'):
        return 'a dollar inside the answer'
    if max(depths(answer), default=0) > _MOST_DEPTH:
        return f'brackets more than {_MOST_DEPTH} deep'
    return None


def _too_large(form: Form) -> bool:
    """Returns whether a number is beyond the bounds of exact arithmetic."""
    if not isinstance(form, Expression) or form.tree is None:
        return False
    try:
        exact.value(form.tree)
    except exact.TooLargeError:
        return True
    return False
