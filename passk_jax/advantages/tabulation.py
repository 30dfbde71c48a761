"""The curve of any estimator: its own values for each number of correct responses."""

import functools
from typing import Any

import jax
import numpy as np

from passk_jax.advantages.curves import sum_abs_advantage
from passk_jax.advantages.declarations import INPUTS, Estimator
from passk_jax.advantages.estimators import ESTIMATORS
from passk_jax.advantages.make import make_estimator

# Batches large enough for a smooth curve where groups are drawn, and no larger.
_MAX_PROBLEMS, _MAX_RESPONSES = 64, 1024


def tabulated_curve(name: str, *, num_rollouts: int, **params: Any) -> dict[str, Any]:
    """Evaluates an estimator for every number of correct responses.

    For each number c from 0 to N, the estimator gets a batch of problems that all have
    c correct responses, in random places, with rewards of 0 and 1. Lengths, entropies
    and log-probabilities are equal; each problem has its own random key. The curve is
    the mean over the batch. Every call uses the same places and keys.

    Args:
        name: a name of ``ESTIMATORS``.
        num_rollouts: N.
        **params: as ``make_estimator`` takes them.

    Returns:
        ``name``, with the parameters; ``note``, which says how the curve was made;
        and lists over c: ``accuracy``, ``positive`` and ``negative`` (the mean
        advantage of correct and of wrong responses, 0 if there are none) and ``eta``
        (the sum of absolute advantages, of these two).

    Raises:
        ValueError: as ``make_estimator``.
    """
    make_estimator(name, num_rollouts=num_rollouts, **params)
    row = ESTIMATORS[name]
    num_problems = max(1, min(_MAX_PROBLEMS, _MAX_RESPONSES // num_rollouts))
    shape = (num_problems, num_rollouts)
    positive, negative = _mean_advantages(row, name, shape, tuple(params.items()))
    counts = np.arange(num_rollouts + 1)
    eta = sum_abs_advantage(counts, positive, negative, num_rollouts=num_rollouts)
    equal = [each for each in row.reads if INPUTS[each].typical]
    how = (
        f'Each point is the mean over {num_problems} problems with that share of right '
        f'responses, in random places{", with equal " if equal else ""}'
        f'{" and ".join(equal)}.'
    )
    described = ', '.join(f'{key}={value}' for key, value in params.items())
    return {
        'name': f'{name} ({described})' if described else name,
        'note': f'{how} {row.note}'.strip(),
        'accuracy': (counts / num_rollouts).tolist(),
        'positive': positive.tolist(),
        'negative': negative.tolist(),
        'eta': np.asarray(eta).tolist(),
    }


@functools.lru_cache(maxsize=1)
def _mean_advantages(
    row: Estimator, name: str, shape: tuple[int, int], params: tuple[tuple[str, Any]]
) -> np.ndarray:
    """Positive and negative ``[2, N + 1]``; cached, because each report draws them."""
    num_problems, num_rollouts = shape
    estimate = jax.jit(make_estimator(name, num_rollouts=num_rollouts, **dict(params)))
    others: dict[str, Any] = {
        each: np.full(shape[: len(INPUTS[each].shape.split())], INPUTS[each].typical)
        for each in row.reads
        if each not in ('rewards', 'correct')
    }
    if 'key' in others:
        others['key'] = jax.random.split(jax.random.key(0), num_problems)
    ordered = np.tile(np.arange(num_rollouts), (num_problems, 1))
    places = np.random.default_rng(0).permuted(ordered, axis=1)
    means = np.zeros((2, num_rollouts + 1))
    for c in range(num_rollouts + 1):
        correct = places < c
        advantages = np.asarray(estimate(correct * 1.0, correct, **others), np.float64)
        for mean, of in zip(means, (correct, ~correct), strict=True):
            mean[c] = advantages[of].mean() if of.any() else 0.0
    return means
