"""Checks whether responses have a signal, and explains the likely cause if not.

A step has a signal if a response that is trained has a nonzero advantage. Most
estimators compare the responses to a problem, so equal rewards give none.
"""

import numpy as np

_SHOWN = 300
# Below this share of answers, or of stopped responses, a run warns.
_FEW_ANSWERS = 0.5

_FORM = (
    'the policy does not write answers in the form that the prompt asks for: a format '
    "warm start teaches it (init.kind='warm_start'), or data.few_shot shows it"
)
_LIMIT = 'most responses are cut off: raise sampling.max_response_tokens'
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


def has_answer(parsed: list[list[str]]) -> np.ndarray:
    """Marks responses with an answer: ``[P][N]`` answers to ``[P, N]`` bool."""
    return np.array([[bool(answer) for answer in row] for row in parsed], bool)


def explain_missing_signal(
    correct: np.ndarray,
    parsed: list[list[str]],
    *,
    stopped: float,
    example: str,
    unweighted: bool = False,
) -> str:
    """Explains why responses have no signal or few answers.

    A task may read no answers. Where responses are right without one, missing answers
    are no cause.

    Args:
        correct: ``[P, N]`` bool.
        parsed: ``[P][N]`` the answers read; ``''`` where there is none.
        stopped: the share of responses that a stop token ended.
        example: one of the responses.
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
        what = 'rewards differ, but every advantage that is trained is 0'
        cause = _UNWEIGHTED if stopped > _FEW_ANSWERS else _LIMIT
    elif not answered.any() and not correct.any():
        what, cause = f'no response of {total:,} has an answer', no_form
    elif answered.any() and answered.mean() < _FEW_ANSWERS:
        what = f'only {answered.sum():,} of {total:,} responses have an answer'
        cause = no_form
    elif not correct.any():
        what = f'all {total:,} responses are wrong'
        cause = _HARD if stopped > _FEW_ANSWERS else _LIMIT
        if same:
            what, cause = f'{what}, and to each problem the same', _SAME
    elif correct.all():
        what, cause = f'all {total:,} responses are right', _EASY
    elif several and (correct == correct[:, :1]).all():
        what = 'the responses to each problem are all right or all wrong'
        cause = _SAME if same else _UNIFORM
    else:
        return ''
    shown = example if len(example) <= _SHOWN else f'{example[:_SHOWN]}...'
    return f'{what}. Likely, {cause}. One response: {shown!r}'
