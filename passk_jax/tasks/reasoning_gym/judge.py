"""Verdicts: the text in the last tags, compared with the answer or given its scorer.

An answer stands between the last ``<answer>`` and the ``</answer>`` after it, without
blanks around it. In a set of ``table.BY_TEXT`` the stored answer is right and no other:
the package's scorer gives 1 to that alone. In one of ``table.SCORED`` an answer is
right if the scorer gives it exactly 1 (scorers.py), in a worker process that needs the
package. What has partial credit, such as a right answer inside a longer text, is wrong.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax.tasks.reasoning_gym.table import SCORED
from passk_jax.types import Verdict
from passk_jax.verifiers.mathematics import FAILURES, MEMORY_BYTES
from passk_jax.verifiers.pool import Judgement, Pool

RIGHT = 'passk_jax.tasks.reasoning_gym.scorers:right'
OPEN, CLOSE = '<answer>', '</answer>'

# A score takes less than 1 ms.
_DEADLINE_S = 5.0
# A board of Sokoban and a response to it take some kB.
_MEMO_SIZE = 2**13
_WRONG = 'not the right answer'


@functools.cache
def shared_pool() -> Pool:
    """The pool of this process, made on first use."""
    return Pool(
        RIGHT,
        workers=1,
        deadline_s=_DEADLINE_S,
        memory_bytes=MEMORY_BYTES,
        memo_size=_MEMO_SIZE,
    )


def judge(
    items: Sequence[Mapping[str, Any]],
    responses: Sequence[str],
    *,
    pool: Pool | None = None,
) -> list[Verdict]:
    """The verdicts on responses.

    Args:
        items: the data of each response's problem.
        responses: whole texts.
        pool: where scorers run; ``None``: :func:`shared_pool`.

    Raises:
        ValueError: the pool does not work; never for what a response is.
    """
    answers = [_answer(response) for response in responses]
    # Responses to one problem share its data.
    texts = {id(item): json.dumps(dict(item)) for item in items}
    pairs = [
        (texts[id(item)], answer)
        for item, answer in zip(items, answers, strict=True)
        if item['set'] in SCORED and answer is not None
    ]
    scored = iter((pool or shared_pool()).judge(pairs) if pairs else ())
    verdicts = []
    for item, answer in zip(items, answers, strict=True):
        if answer is None:
            verdicts.append(Verdict(False, '', f'no {OPEN} that is closed'))
        elif item['set'] in SCORED:
            verdicts.append(_verdict(answer, next(scored)))
        else:
            equal = answer == item['answer'].strip()
            verdicts.append(_verdict(answer, Judgement(equal, None)))
    return verdicts


def _answer(response: str) -> str | None:
    _, opened, text_after = response.rpartition(OPEN)
    answer, closed, _ = text_after.partition(CLOSE)
    return answer.strip() if opened and closed else None


def _verdict(answer: str, judged: Judgement) -> Verdict:
    error = None if judged.correct else FAILURES.get(judged.failure or '', _WRONG)
    return Verdict(judged.correct, answer, error)
