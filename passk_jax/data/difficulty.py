"""Estimates how difficult each training problem is, and draws problems by that.

A problem teaches nothing while all its responses are right, or all are wrong. So a run
may draw problems in proportion to p (1 - p), the variance of one response with the
chance p of being right: "Learning to Reason at the Frontier of Learnability"
(T. Foster et al., arXiv:2502.12272), which samples responses to choose by. Here p comes
from the steps before, so the choice costs nothing, and a floor keeps every problem in
the draw, because an old estimate may be wrong.

The estimates are a part of the run's memory, beside what its estimator remembers, and
so of its checkpoints. Every host has the same ones, because verdicts are gathered.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from passk_jax.data.batches import Batches
from passk_jax.types import Problem

_NAME = 'difficulty'

RunMemory = dict[str, jax.Array | np.ndarray]
"""What a run remembers: of its estimator, on devices; the estimates, on the host."""


def begin(batches: Batches, *, follow: float) -> dict[str, np.ndarray]:
    """The estimates before any response; none if ``follow`` is 0."""
    return {_NAME: np.zeros((batches.num_problems, 2), np.float32)} if follow else {}


def select_difficulty(memory: RunMemory) -> dict[str, Any]:
    """The estimates in a memory, if any: a later stage has the same problems."""
    return {name: memory[name] for name in memory if name == _NAME}


def without_difficulty(memory: RunMemory) -> dict[str, Any]:
    """All else in a memory."""
    return {name: memory[name] for name in memory if name != _NAME}


def following(batches: Batches, memory: RunMemory, *, follow: float) -> Batches:
    """The batches, drawn by a memory's estimates if it has some.

    A problem is drawn in proportion to the :func:`chances` of ``follow``.
    """
    if _NAME not in memory:
        return batches
    return batches.draw_by_chance(chances(memory[_NAME], follow=follow))


def chances(
    estimates: Float[Array | np.ndarray, 'problems 2'], *, follow: float
) -> Float[np.ndarray, ' problems']:
    """Weights in proportion to which problems are drawn.

        1 - follow + follow * 4 p (1 - p),    p = (right + 1) / (all + 2)

    This p is Laplace's: 1/2 for a problem that was never drawn, so new ones come first.

    Args:
        estimates: numbers of right and of all responses.
        follow: in [0, 1): how far the draw follows the estimates; 0: not at all.

    >>> chances(np.array([[0, 0], [6, 6], [0, 6]]), follow=0.5).tolist()
    [1.0, 0.71875, 0.71875]
    """
    right, total = np.asarray(estimates, np.float64).T
    p = (right + 1) / (total + 2)
    return 1 - follow + follow * 4 * p * (1 - p)


def remember(
    batches: Batches,
    memory: RunMemory,
    problems: Sequence[Problem],
    correct: Bool[np.ndarray, 'P N'],
) -> dict[str, np.ndarray]:
    """The estimates after a step, if the memory has some.

    When a problem is drawn again its old counts are halved, because the policy has
    changed since.

    Args:
        batches: of all problems.
        memory: before the step.
        problems: the step's own P problems. Those that dynamic sampling keeps are
            chosen by their verdicts, and would look better than they are.
        correct: the verdicts on their responses.
    """
    if _NAME not in memory:
        return {}
    counts = [(row.sum(), row.size) for row in correct]
    after, numbers = np.array(memory[_NAME]), batches.numbers(problems)
    after[numbers] = after[numbers] / 2 + np.array(counts, np.float32)
    return {_NAME: after}
