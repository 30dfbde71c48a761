"""The curve of any estimator: its own values for each number of correct responses."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from passk_jax.advantages.curves import sum_abs_advantage
from passk_jax.advantages.declarations import INPUTS, Estimator
from passk_jax.advantages.estimators import ESTIMATORS
from passk_jax.advantages.make import make_estimator
from passk_jax.errors import InputError

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
    num_problems, _ = shape = _batch_shape(num_rollouts)
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


def check_signal(name: str, *, num_rollouts: int, **params: Any) -> None:
    """Checks that some response can get an advantage other than 0.

    The estimator gets problems with every number of correct responses, and with
    different lengths, entropies and log-probabilities.

    Args:
        name, num_rollouts, **params: as in :func:`tabulated_curve`.

    Raises:
        ValueError: every advantage is 0, so nothing would be learned.
    """
    make_estimator(name, num_rollouts=num_rollouts, **params)
    row, shape = ESTIMATORS[name], _batch_shape(num_rollouts)
    if not any(a.any() for _, a in _by_count(row, name, shape, params, spread=1.0)):
        described = ''.join(f', advantage.{key}={params[key]!r}' for key in params)
        raise InputError(
            f'advantage.name={name!r}{described} with sampling.{num_rollouts=} gives '
            'every response the advantage 0, however many are right: it learns nothing'
        )


def _batch_shape(num_rollouts: int) -> tuple[int, int]:
    return max(1, min(_MAX_PROBLEMS, _MAX_RESPONSES // num_rollouts)), num_rollouts


@functools.lru_cache(maxsize=1)
def _mean_advantages(
    row: Estimator, name: str, shape: tuple[int, int], params: tuple[tuple[str, Any]]
) -> np.ndarray:
    """Positive and negative ``[2, N + 1]``; cached, because each report draws them."""
    means = np.zeros((2, shape[1] + 1))
    for c, (correct, advantages) in enumerate(
        _by_count(row, name, shape, dict(params))
    ):
        for mean, of in zip(means, (correct, ~correct), strict=True):
            mean[c] = advantages[of].mean() if of.any() else 0.0
    return means


def _by_count(
    row: Estimator,
    name: str,
    shape: tuple[int, int],
    params: Mapping[str, Any],
    *,
    spread: float = 0.0,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """``correct`` and advantages ``[P, N]`` for 0, 1, ... N correct responses.

    Other inputs are their typical value, plus up to ``spread`` times that.
    """
    num_problems, num_rollouts = shape
    estimate = jax.jit(make_estimator(name, num_rollouts=num_rollouts, **params))
    rng, others = np.random.default_rng(0), {}
    ordered = np.tile(np.arange(num_rollouts), (num_problems, 1))
    places = rng.permuted(ordered, axis=1)
    for each in row.reads:
        if each in ('rewards', 'correct', 'key'):
            continue
        size = shape[: len(INPUTS[each].shape.split())]
        others[each] = INPUTS[each].typical * (1 + spread * rng.random(size))
    if 'key' in row.reads:
        others['key'] = jax.random.split(jax.random.key(0), num_problems)
    for c in range(num_rollouts + 1):
        correct = places < c
        advantages = estimate(correct * 1.0, correct, **others)
        yield correct, np.asarray(advantages, np.float64)
