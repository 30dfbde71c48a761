"""Checks whether responses have a signal, and explains the likely cause if not.

A step has a signal if a response that is trained has a nonzero advantage. Most
estimators compare the responses to a problem, so equal rewards give none.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_MAX_CHARACTERS = 300
# Below this share of answers, or of stopped responses, a run warns.
_FEW_ANSWERS = 0.5

_FORM = (
    'the policy does not write answers in the form that the prompt asks for: a format '
    "warm start teaches it (init.kind='warm_start'), or data.few_shot shows it"
)
_LIMIT = 'half of the responses or more are cut off: raise sampling.max_response_tokens'
_HARD = (
    'the problems are too hard for this policy, or their golds are not what the prompt '
    'asks for: compare this response with its gold'
)
_SAME = 'the policy has collapsed, or the temperature is too low'
_EASY = 'the problems are too easy for this policy'
_UNWEIGHTED = (
    'advantage.name gives no weight to so many right responses, as Pass@k with fewer '
    'than k wrong ones: take a smaller advantage.k, more rollouts or harder problems'
)
_UNIFORM = 'no problem has right and wrong responses: take more rollouts or problems'


class Example(NamedTuple):
    """A response that a warning may show.

    Attributes:
        text: the response.
        answer: the answer read from it; ``''``: none.
        stopped: whether a stop token ended it, or how likely that is.
    """

    text: str
    answer: str
    stopped: float


def list_examples(
    texts: Sequence[Sequence[str]],
    parsed: Sequence[Sequence[str]],
    stopped: np.ndarray,
) -> list[Example]:
    """Lists all ``[P][N]`` responses, with their answers and whether they stopped."""
    return [
        Example(text, answer, float(ended))
        for row in zip(texts, parsed, stopped, strict=True)
        for text, answer, ended in zip(*row, strict=True)
    ]


def has_answer(parsed: list[list[str]]) -> np.ndarray:
    """Marks responses with an answer: ``[P][N]`` answers to ``[P, N]`` bool."""
    return np.array([[bool(answer) for answer in row] for row in parsed], bool)


def explain_missing_signal(
    correct: np.ndarray,
    parsed: list[list[str]],
    *,
    stopped: float,
    examples: Sequence[Example],
    unweighted: bool = False,
) -> str:
    """Explains why responses have no signal or few answers.

    A task may read no answers. Where responses are right without one, missing answers
    are no cause.

    Args:
        correct: ``[P, N]`` bool.
        parsed: ``[P][N]`` the answers read; ``''`` where there is none.
        stopped: the share of responses that a stop token ended.
        examples: responses, at least one. The warning shows the first of the kind that
            it is about.
        unweighted: whether rewards of a problem differ, but no advantage is trained.

    Returns:
        A text for a warning; ``''`` if some problem has right and wrong responses with
        advantages, and most responses have answers.
    """
    answered, total = has_answer(parsed), correct.size
    no_form = _FORM if stopped > _FEW_ANSWERS else _LIMIT
    several = correct.shape[1] > 1
    same = several and answered.any() and all(len(set(row)) == 1 for row in parsed)
    if unweighted:
        observation = 'rewards differ, but every advantage that is trained is 0'
        cause = _UNWEIGHTED if stopped > _FEW_ANSWERS else _LIMIT
    elif not answered.any() and not correct.any():
        observation, cause = f'no response of {total:,} has an answer', no_form
    elif answered.any() and answered.mean() < _FEW_ANSWERS:
        observation = f'only {answered.sum():,} of {total:,} responses have an answer'
        cause = no_form
    elif not correct.any():
        observation = f'all {total:,} responses are wrong'
        cause = _HARD if stopped > _FEW_ANSWERS else _LIMIT
        if same:
            observation, cause = f'{observation}, and to each problem the same', _SAME
    elif correct.all():
        observation, cause = f'all {total:,} responses are right', _EASY
    elif several and (correct == correct[:, :1]).all():
        observation = 'the responses to each problem are all right or all wrong'
        cause = _SAME if same else _UNIFORM
    else:
        return ''
    response = _choose(examples, cause)
    if len(response) > _MAX_CHARACTERS:
        response = f'{response[:_MAX_CHARACTERS]}...'
    return f'{observation}. Likely, {cause}. One response: {response!r}'


def _choose(examples: Sequence[Example], cause: str) -> str:
    """Returns the text of a response that has the cause."""
    if cause == _LIMIT:
        return min(examples, key=lambda x: x.stopped).text
    if cause == _FORM:
        return min(examples, key=lambda x: (bool(x.answer), -x.stopped)).text
    return max(examples, key=lambda x: x.stopped).text
