"""Judges all responses of a batch to one puzzle at once, on arrays.

1. The host finds each answer, parses it as the puzzle's ``check`` does, and pads it and
   its problem to one of a few shapes. An answer that cannot be parsed is wrong. The
   claim that there is no solution goes to ``check``.
2. The rule, a pure function of one problem and one answer, judges all rows of the same
   shape together.

The verdicts are those of :meth:`~passk_jax.tasks.enigmata.puzzle.AnyPuzzle.verdict` by
the strict rule, without the reason.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Int32

from passk_jax import sharding
from passk_jax.tasks.enigmata.puzzle import AnyPuzzle, Data
from passk_jax.verifiers import answers
from passk_jax.verifiers.answers import Wrong

# Padding outside a problem or after an answer; no puzzle has this number.
PAD = np.iinfo(np.int32).min

_MIN_ROWS = 64


class ArrayRule(NamedTuple):
    """The rule of a puzzle on arrays.

    Attributes:
        problem: returns the arrays of a problem, as nested sequences of integers.
        answer: returns the array of an answer, also nested; raises ``Wrong`` if it
            cannot be parsed, and may for any other mistake.
        judge: judges ``(*problem, answer)``, padded int32 arrays.
        room: the minimum length to which the first axis of an answer is padded.
    """

    problem: Callable[[Data], tuple[Any, ...]]
    answer: Callable[[Data, str], Any]
    judge: Callable[..., Bool[Array, '']]
    room: int = 1


def verify(
    puzzle: AnyPuzzle,
    rule: ArrayRule,
    problems: Sequence[Data],
    responses: Sequence[str],
) -> tuple[np.ndarray, list[str]]:
    """Judges B responses on this process's first device.

    Args:
        puzzle: the puzzle of all problems.
        rule: its rule.
        problems: B problems; one that occurs several times as an object is encoded
            once.
        responses: one to each.

    Returns:
        ``[B]`` bool, and the answers, truncated to ``answers.MAX_ANSWER`` characters.
    """
    pairs = zip(problems, responses, strict=True)
    texts = [puzzle.read_answer(data, response) for data, response in pairs]
    correct = np.zeros(len(texts), bool)
    encoded: dict[int, tuple[np.ndarray, ...]] = {}
    # Rows with arrays of the same shapes.
    alike: dict[Any, list[tuple[int, tuple[np.ndarray, ...]]]] = {}
    for row, (data, answer) in enumerate(zip(problems, texts, strict=True)):
        if not answer or len(answer) > answers.MAX_ANSWER:
            continue
        try:
            if puzzle.none and answers.claims(answer, puzzle.none):
                puzzle.check(data, answer)
                correct[row] = True
                continue
            read = padded(rule.answer(data, answer), room=rule.room)
        except Wrong:
            continue
        if id(data) not in encoded:
            encoded[id(data)] = tuple(padded(array) for array in rule.problem(data))
        arrays = (*encoded[id(data)], read)
        shapes = tuple(array.shape for array in arrays)
        alike.setdefault(shapes, []).append((row, arrays))
    for group in alike.values():
        rows, arrays = zip(*group, strict=True)
        correct[list(rows)] = _judge(rule.judge, arrays)
    return correct, [answer[: answers.MAX_ANSWER] for answer in texts]


def padded(values: Any, *, room: int = 1) -> Int32[np.ndarray, '...']:
    """Makes an array of integers, each axis padded with ``PAD`` to a power of two.

    >>> padded([[1, 2, 3]], room=2)[:, 2:].tolist() == [[3, PAD], [PAD, PAD]]
    True
    """
    array = np.asarray(values, np.int32)
    shape = [power_of_two(size) for size in array.shape]
    shape[:1] = [max(room, size) for size in shape[:1]]
    result = np.empty(shape, np.int32)
    result.fill(PAD)
    result[tuple(map(slice, array.shape))] = array
    return result


def power_of_two(count: int) -> int:
    """Returns the least power of two that is at least ``count``."""
    return 1 << max(count - 1, 0).bit_length()


def _judge(
    judge: Callable[..., Any], rows: Sequence[tuple[np.ndarray, ...]]
) -> np.ndarray:
    # Few numbers of rows, so that a run compiles only a few programs.
    spare = max(power_of_two(len(rows)), _MIN_ROWS) - len(rows)
    batch = [np.stack(column) for column in zip(*rows, *[rows[0]] * spare, strict=True)]
    device = jax.local_devices()[0]
    # Each process uses one device here, even if the caller has set a larger mesh.
    with jax.set_mesh(sharding.one_device_mesh(device)):
        correct = _compiled(judge)(*jax.device_put(batch, device))
    return jax.device_get(correct)[: len(rows)]


@functools.cache
def _compiled(judge: Callable[..., Any]) -> Callable[..., Bool[Array, 'B']]:
    return jax.jit(jax.vmap(judge))
