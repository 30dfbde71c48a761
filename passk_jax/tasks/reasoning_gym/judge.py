"""Judges the text in the last tags, by the stored answer or by the package's scorer.

The answer is the text between the last ``<answer>`` and the ``</answer>`` after it,
without surrounding white space. In a set of ``table.BY_TEXT`` only the stored answer is
right, because the package's scorer gives 1 to no other. In a set of ``table.SCORED`` an
answer is right if the scorer gives it exactly 1 (scorers.py); the scorer runs in a
worker process that needs the package. An answer with partial credit, such as a right
answer inside a longer text, is wrong.
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
# A Sokoban board and a response to it take some kB.
_MEMO_SIZE = 2**13
_WRONG = 'not the right answer'


@functools.cache
def shared_pool() -> Pool:
    """Returns the pool of this process; makes it on first use."""
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
    """Judges responses.

    Args:
        items: the data of each response's problem.
        responses: complete texts.
        pool: runs the scorers; ``None``: :func:`shared_pool`.

    Raises:
        ValueError: the pool fails; never because of a response.
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
