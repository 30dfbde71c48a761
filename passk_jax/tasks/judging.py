"""Judges batches of responses with a function that judges some or one.

A response on which the function raises is wrong and counts as a crash: an error of ours
at one of millions of responses must not end a run, which would meet it again when it is
resumed.
"""

import dataclasses
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from passk_jax import plugins
from passk_jax.errors import InputError
from passk_jax.types import Problem, Verdict, Verdicts
from passk_jax.verifiers.pool import CRASH

Shape = tuple[int, int]
"""Problems and responses to each."""
Judge = Callable[[list[Problem], list[str]], list[Verdict]]
"""A function that judges responses, each with its problem."""

RAISED = 'the verifier raised an error'
"""The error of a verdict on a response on which a task's code raised."""
# A verdict may fail on all responses of a run.
_MOST_LOGGED = 50


def judge_together(
    problems: Sequence[Problem],
    responses: Sequence[Sequence[str]],
    *,
    judge: Judge,
    failures: Mapping[str, str],
) -> Verdicts:
    """Judges ``[P][N]`` responses to P problems in one call, with rewards 0 and 1.

    A response that makes ``judge`` raise is wrong and counts as a crash.

    Args:
        problems, responses: as for :meth:`Task.verify`.
        judge: returns the verdicts on ``P * N`` responses, each with its problem.
        failures: kind of failure of the verifier -> the error of its verdicts.

    Raises:
        ValueError: the problems have different numbers of responses.
        InputError: ``judge`` raises it.
    """
    shape = shape_of(problems, responses)
    repeated = [problem for problem in problems for _ in range(shape[1])]
    texts = [text for row in responses for text in row]
    failures = {**failures, CRASH: failures.get(CRASH, RAISED)}
    verdicts = judge_all(judge, repeated, texts, crashed=failures[CRASH])
    correct = np.array([v.correct for v in verdicts], bool).reshape(shape)
    parsed = np.array([v.parsed for v in verdicts], object).reshape(shape)
    errors = np.array([v.error for v in verdicts], object).reshape(shape)
    failed = {kind: errors == text for kind, text in failures.items()}
    return Verdicts(correct.astype(np.float32), correct, parsed.tolist(), failed)


def judge_all(
    judge: Judge,
    problems: list[Problem],
    texts: list[str],
    *,
    crashed: str = RAISED,
) -> list[Verdict]:
    """Judges responses, one at a time if ``judge`` raises on all of them.

    One on which it still raises is wrong, with the error ``crashed``.
    """
    try:
        return judge(problems, texts)
    except InputError:
        raise
    except Exception:
        if len(texts) == 1:
            message = 'wrong, because its verdict failed: %.200r\n%s'
            values = texts[0], traceback.format_exc()
            logging.log_first_n(logging.ERROR, message, _MOST_LOGGED, *values)
            return [Verdict(False, '', crashed)]
        return [
            judge_all(judge, [problem], [text], crashed=crashed)[0]
            for problem, text in zip(problems, texts, strict=True)
        ]


def judge_singly(verdict: Callable[[Problem, str], Verdict]) -> Judge:
    """Makes a judge of many responses from the function that judges one.

    The judge raises InputError, with the function's name, if it returns no verdict.
    """

    def judge(problems: list[Problem], texts: list[str]) -> list[Verdict]:
        pairs = zip(problems, texts, strict=True)
        return [checked(verdict(*pair), verdict) for pair in pairs]

    return judge


def checked(value: Any, verdict: Callable[..., Verdict]) -> Verdict:
    """Returns the value; InputError with the function's name if it is no verdict."""
    if not (
        isinstance(value, Verdict)
        and isinstance(value.correct, bool | np.bool_)
        and isinstance(value.parsed, str)
    ):
        raise InputError(
            f'{plugins.where(verdict)} returned {value!r}; it must return a '
            'Verdict(correct, parsed, error) of a bool, a text and a text or None'
        )
    if isinstance(value.correct, bool):
        return value
    return dataclasses.replace(value, correct=bool(value.correct))


def check_verdicts(value: Any, verify: Callable[..., Verdicts], shape: Shape) -> None:
    """Checks shapes and types of verdicts on ``[P, N]`` responses.

    Raises:
        InputError: rewards are no numbers, ``correct`` has other values than bools, or
            an answer is no text. The message has the name of ``verify``.
    """
    if problem := _problem_of(value, shape):
        raise InputError(
            f'{plugins.where(verify)} returned {problem}; it must return the Verdicts '
            f'on all responses: arrays of numbers and of bools, of shape {shape}, and '
            'lists of texts'
        )


def _problem_of(value: Any, shape: Shape) -> str:
    """Describes what is wrong with verdicts; ``''``: nothing."""
    if not isinstance(value, Verdicts):
        return f'a {type(value).__name__}'
    bools = {'correct': value.correct, **value.failures}
    for name, array in {'rewards': value.rewards, **bools}.items():
        if not isinstance(array, np.ndarray):
            return f'{name} of type {type(array).__name__}'
        if array.shape != shape:
            return f'{name} of shape {array.shape}'
        if array.dtype.kind not in ('b' if name in bools else 'buif'):
            return f'{name} of type {array.dtype}'
    lists = isinstance(value.parsed, list) and all(
        isinstance(row, list) for row in value.parsed
    )
    if not lists or [len(row) for row in value.parsed] != [shape[1]] * shape[0]:
        return 'answers of another shape'
    unread = [x for row in value.parsed for x in row if not isinstance(x, str)]
    return f'the answer {unread[0]!r}' if unread else ''


def shape_of(problems: Sequence[Problem], responses: Sequence[Sequence[str]]) -> Shape:
    """Returns (P, N); ValueError unless each of P problems has N responses."""
    shape = len(problems), len(responses[0]) if len(responses) else 0
    if [len(row) for row in responses] != [shape[1]] * shape[0]:
        raise InputError(f'{shape[0]} problems need as many rows of equal length')
    return shape
