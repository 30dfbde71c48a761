"""Estimates of each training problem's difficulty, and draws of problems by them.

A problem teaches nothing while all its responses are right or all are wrong. So a run
may draw problems in proportion to p (1 - p), the variance of a response that is right
with probability p: "Learning to Reason at the Frontier of Learnability" (T. Foster et
al., arXiv:2502.12272). The paper samples responses to estimate p. Here p comes from
earlier steps at no cost. A floor keeps every problem in the draw, because an old
estimate may be wrong.

The estimates are a part of the run's memory, and so of its checkpoints. Verdicts are
gathered, so every host has the same estimates.
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
"""A run's memory: the estimator's state, on devices, and the estimates, on the host."""


def begin(batches: Batches, *, follow: float) -> dict[str, np.ndarray]:
    """Returns the estimates before any response; none if ``follow`` is 0."""
    return {_NAME: np.zeros((batches.num_problems, 2), np.float32)} if follow else {}


def select_difficulty(memory: RunMemory) -> dict[str, Any]:
    """Returns the estimates in a memory, if any; they stay valid in later stages."""
    return {name: memory[name] for name in memory if name == _NAME}


def without_difficulty(memory: RunMemory) -> dict[str, Any]:
    """Returns a memory without the estimates."""
    return {name: memory[name] for name in memory if name != _NAME}


def following(batches: Batches, memory: RunMemory, *, follow: float) -> Batches:
    """Returns the batches, drawn by :func:`chances` if the memory has estimates."""
    if _NAME not in memory:
        return batches
    return batches.draw_by_chance(chances(memory[_NAME], follow=follow))


def chances(
    estimates: Float[Array | np.ndarray, 'problems 2'], *, follow: float
) -> Float[np.ndarray, ' problems']:
    """Computes the weight with which each problem is drawn.

        1 - follow + follow * 4 p (1 - p),    p = (right + 1) / (all + 2)

    This is Laplace's p: 1/2 for a problem that was never drawn, so new ones come first.

    Args:
        estimates: numbers of right responses and of all responses.
        follow: in [0, 1): how strongly the draw follows the estimates; 0 ignores them.

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
    """Updates the estimates after a step, if the memory has some.

    A problem that is drawn again has its old counts halved, because the policy has
    changed since.

    Args:
        batches: batches of all problems.
        memory: the memory before the step.
        problems: the step's own P problems. The problems that dynamic sampling selects
            would bias the estimates, because it selects by verdicts.
        correct: the verdicts on their responses.
    """
    if _NAME not in memory:
        return {}
    counts = [(row.sum(), row.size) for row in correct]
    after, numbers = np.array(memory[_NAME]), batches.numbers(problems)
    after[numbers] = after[numbers] / 2 + np.array(counts, np.float32)
    return {_NAME: after}
