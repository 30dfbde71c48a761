"""A check for golds that the verifier cannot parse.

A gold is the right answer of a problem. If the verifier cannot parse it, no response
can equal it, and a run would train for hours on a reward of 0.
"""

import collections
import itertools
from collections.abc import Sequence

from absl import logging

from passk_jax.errors import InputError
from passk_jax.tasks import Task
from passk_jax.tasks.abilities import Golds
from passk_jax.types import Problem

_NUM_EXAMPLES, _MAX_CHARACTERS = 3, 60


def check_golds(
    task: Task, problems: Sequence[Problem], *, split: str, max_share: float
) -> None:
    """Warns of golds that cannot be parsed, for each category.

    Args:
        task: the task; one without the ability ``Golds`` has no golds to check.
        problems: the problems of a split.
        split: the split's name, for messages.
        max_share: the largest allowed share of unparsed golds in a category.

    Raises:
        InputError: a category exceeds ``max_share``.
    """
    if not isinstance(task, Golds):
        return
    unparsed = task.unparsed_golds(problems)
    if not unparsed:
        return
    totals = collections.Counter(problem.category for problem in problems)
    by_category = collections.defaultdict(list)
    for place, gold in unparsed.items():
        by_category[problems[place].category].append(gold)
    for category, golds in by_category.items():
        examples = ', '.join(
            repr(gold[:_MAX_CHARACTERS])
            for gold in itertools.islice(golds, _NUM_EXAMPLES)
        )
        total, share = totals[category], len(golds) / totals[category]
        message = (
            f'{split} problems: {len(golds)} of {total} golds of {category} cannot be '
            f'parsed, so that no response could equal them, for example {examples}'
        )
        if share > max_share:
            raise InputError(
                f'{message}: name the field that has the answer alone '
                f'(task.params.answer_field), leave such problems out, or set '
                f'verifier.max_unparsed_golds={max_share:g} to at least {share:.2g}'
            )
        logging.warning('%s', message)
