"""The curve of any estimator, and what follows from it: weight, objective and scale.

It is computed from the estimator's own values for each number of correct responses, so
a new row of the table needs no more code.
"""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from passk_jax.advantages.curve_weight import (
    Numbers,
    as_float64,
    objective_of_curve,
    weight_of_curve,
)
from passk_jax.advantages.curves import sum_abs_advantage
from passk_jax.advantages.declarations import INPUTS, AdvantageFn
from passk_jax.advantages.make import make_estimator
from passk_jax.errors import InputError

# Enough responses for a smooth curve where groups are drawn.
_MIN_PROBLEMS, _MAX_PROBLEMS, _MAX_RESPONSES = 4, 64, 1024


def tabulated_curve(name: str, *, num_rollouts: int, **params: Any) -> dict[str, Any]:
    """Evaluates an estimator for every number of correct responses.

    For each number c from 0 to N, the estimator gets a batch of problems with c correct
    responses in random places and rewards of 0 and 1; an estimator that pools problems
    gets all of them in one batch. Lengths, entropies and log-probabilities are equal;
    each problem has its own random key. The curve is the mean over the batch. Every
    call uses the same places and keys.

    Args:
        name: a name of ``ESTIMATORS``.
        num_rollouts: N.
        **params: as for ``make_estimator``.

    Returns:
        ``name`` with the parameters; ``note``, how the curve was made; and lists over
        c: ``accuracy``, ``positive`` and ``negative`` (the mean advantages of correct
        and wrong responses, 0 if there are none), ``eta`` (the sum of absolute
        advantages) and ``weight`` (of the curve, at this accuracy as success
        probability).

    Raises:
        ValueError: as ``make_estimator``.
    """
    estimate = make_estimator(name, num_rollouts=num_rollouts, **params)
    row = estimate.estimator
    positive, negative = _mean_curve(estimate)
    counts = np.arange(num_rollouts + 1)
    eta = sum_abs_advantage(counts, positive, negative, num_rollouts=num_rollouts)
    inputs = {input_name: INPUTS[input_name] for input_name in row.reads}
    equal = [
        input_name for input_name, x in inputs.items() if x.typical and not x.remembered
    ]
    how = (
        f'Each point is the mean over {_batch_size(estimate)} problems with that share '
        f'of right responses, in random places{", with equal " if equal else ""}'
        f'{" and ".join(equal)}.'
    )
    if row.pools_problems is None and _pools_problems(estimate):
        how += (
            ' It depends on the other problems of a step; here, all shares of right '
            'responses are equally frequent.'
        )
    if not row.centered:
        how += ' It is not centered: the advantages of a problem need not sum to 0.'
    described = ', '.join(f'{key}={value}' for key, value in params.items())
    return {
        'name': f'{name} ({described})' if described else name,
        'note': f'{how} {row.note}'.strip(),
        'accuracy': (counts / num_rollouts).tolist(),
        'positive': positive.tolist(),
        'negative': negative.tolist(),
        'eta': np.asarray(eta).tolist(),
        'weight': weight_of_curve(positive, negative, counts / num_rollouts).tolist(),
    }


def effective_weight(
    name: str, *, num_rollouts: int, p: Numbers | float, **params: Any
) -> Numbers:
    """Computes the weight of a curve on the gradient of the success probability.

        omega(p) = E[ positive(c' + 1) - negative(c') ],    c' ~ Bin(N - 1, p)

    It is exact up to the rounding of the advantages (``curve_weight.py`` has the
    theorem). Learning rates differ by it: at N = 32 and p = 0.1 it is 3.1 for GRPO, 9.6
    for MaxRL and 0.8 for Pass@8.

    Args:
        name, num_rollouts, **params: as for :func:`tabulated_curve`.
        p: success probabilities in ``[0, 1]``, a number or an array.

    Returns:
        omega, in the shape of ``p``: float64 in NumPy; for a traced ``p``, its dtype or
        float32, with errors of 4e-5 at N = 1024.

    Raises:
        ValueError: as ``make_estimator``; a probability that is not traced is outside
            ``[0, 1]``; or the estimator is not a curve: advantages also depend on
            chance, order, other inputs, other problems or earlier steps.
            :func:`tabulated_curve` has the weight of the mean.

    >>> round(float(effective_weight('maxrl', num_rollouts=32, p=0.1)), 1)
    9.6
    """
    estimate = make_estimator(name, num_rollouts=num_rollouts, **params)
    return weight_of_curve(*_exact_curve(estimate), p)


def implied_objective(
    name: str, *, num_rollouts: int, p: Numbers | float, **params: Any
) -> Numbers:
    """Computes the objective that a curve climbs: F' = omega and F(0) = 0.

    Arguments, result and errors are those of :func:`effective_weight`.

    >>> round(float(implied_objective('canonical_k', num_rollouts=8, k=2, p=0.5)), 6)
    0.75
    """
    estimate = make_estimator(name, num_rollouts=num_rollouts, **params)
    return objective_of_curve(*_exact_curve(estimate), p)


def matching_scale(name: str, *, num_rollouts: int, p: float, **params: Any) -> float:
    """Computes the factor that gives advantages the weight of GRPO's at p.

    Steps of the two then have equal size on problems of that success probability. At
    other p they differ by the shape of the weight. Optimizers that rescale gradients,
    such as AdamW, undo a part of it.

    Args:
        name, num_rollouts, **params: as for :func:`tabulated_curve`. If the estimator
            is not a curve, its mean is scaled.
        p: a success probability in (0, 1).

    Raises:
        ValueError: as ``make_estimator``; ``p`` is not in (0, 1); the weight at p is
            not positive, or too small for a float32 factor; GRPO's is 0, as with one
            response; or the weight depends on earlier steps or on which answers are
            equal.

    >>> matching_scale('pass_at_1', num_rollouts=8, p=0.1)
    1.0
    """
    probability = as_float64(p)
    if probability.ndim or not 0 < probability < 1:
        raise InputError(f'{p=} must be a number in (0, 1)')
    estimate = make_estimator(name, num_rollouts=num_rollouts, **params)
    _refuse_memory(estimate)
    # There are no typical answers, so the weight must not depend on them.
    curve_of = _exact_curve if 'answers' in estimate.estimator.reads else _mean_curve
    weight = float(weight_of_curve(*curve_of(estimate), p))
    grpo = make_estimator('pass_at_1', num_rollouts=num_rollouts)
    grpo_weight = float(weight_of_curve(*_mean_curve(grpo), p))
    scale = grpo_weight / weight if weight > 0 else 0.0
    # Advantages are float32.
    if not 0 < scale <= float(np.finfo(np.float32).max):
        raise InputError(
            f'{name} with {num_rollouts=} has the weight {weight:g} at {p=}: no '
            f'scale makes it that of pass_at_1, {grpo_weight:g}'
        )
    return scale


def check_signal(name: str, *, num_rollouts: int, **params: Any) -> None:
    """Checks that advantages are finite, and not all of them 0.

    The estimator gets problems with every number of correct responses, and with various
    lengths, entropies and log-probabilities. Raises ValueError if all advantages are 0,
    so that nothing would be learned, or if one is not finite.
    """
    estimate = make_estimator(name, num_rollouts=num_rollouts, **params)
    # What is not declared is tried where all problems have few right responses too.
    pooled = bool(estimate.estimator.pools_problems)
    by_count = _estimate_by_count(estimate, spread=1.0, pooled=pooled)
    advantages = np.concatenate([estimated for _, estimated in by_count])
    described = ''.join(f', advantage.{key}={params[key]!r}' for key in params)
    if not np.isfinite(advantages).all():
        raise InputError(
            f'advantage.name={name!r}{described} with sampling.{num_rollouts=} gives '
            'some responses advantages that are not finite'
        )
    if not advantages.any():
        raise InputError(
            f'advantage.name={name!r}{described} with sampling.{num_rollouts=} gives '
            'every response the advantage 0, however many are right: it learns nothing'
        )


def _batch_size(estimate: AdvantageFn) -> int:
    reads = estimate.estimator.reads
    if any(INPUTS[name].shape == 'P' and name != 'key' for name in reads):
        # The estimator may compare problems, or treat a share of them differently.
        return _MAX_PROBLEMS
    # Several problems show whether advantages depend on more than c.
    num_problems = _MAX_RESPONSES // estimate.num_rollouts
    return min(_MAX_PROBLEMS, max(_MIN_PROBLEMS, num_problems))


def _mean_curve(estimate: AdvantageFn) -> tuple[np.ndarray, np.ndarray]:
    """Computes positive and negative ``[N + 1]``, means over typical inputs."""
    means, _ = _means(estimate)
    return means[0], means[1]


def _exact_curve(estimate: AdvantageFn) -> tuple[np.ndarray, np.ndarray]:
    """Computes positive and negative ``[N + 1]`` of an estimator that is a curve."""
    _refuse_memory(estimate)
    if _pools_problems(estimate):
        raise InputError(
            f'{estimate.name} has no fixed weight: it depends on the rewards of other '
            'problems of a step; tabulated_curve has the weight in a step in which '
            'all shares of right responses are equally frequent'
        )
    # The curve is a constant, even where a caller traces p.
    with jax.ensure_compile_time_eval():
        means, scatter = _means(estimate, spread=1.0)
    if np.any(scatter > 1e-5 * np.maximum(np.abs(means), 1e-3)):
        raise InputError(
            f'{estimate.name} is not a curve: equally correct responses, of problems '
            f'with equally many right ones, get different advantages; tabulated_curve '
            f'has the weight of their mean'
        )
    return means[0], means[1]


def _refuse_memory(estimate: AdvantageFn) -> None:
    """Refuses an estimator whose weight changes in a run."""
    if estimate.estimator.has_memory:
        raise InputError(
            f'{estimate.name} has no fixed weight: it depends on the pass rates of '
            'earlier steps, which change during a run'
        )


@functools.lru_cache(maxsize=16)
def _pools_problems(estimate: AdvantageFn) -> bool:
    """Returns whether advantages depend on the rewards of other problems of the step.

    If the row does not declare it, a problem with each number of correct responses is
    tried beside others that are all wrong, and beside others that are all right.
    """
    if estimate.estimator.pools_problems is not None:
        return estimate.estimator.pools_problems
    num_rollouts, rng = estimate.num_rollouts, np.random.default_rng(0)
    # A majority, so that they decide a median too.
    num_others = 3
    inputs = _typical_inputs(estimate, 1 + num_others, spread=1.0, rng=rng)
    tried = []
    with jax.ensure_compile_time_eval():
        for others_right in (False, True):
            correct = np.full((1 + num_others, num_rollouts), others_right)
            for num_correct in range(num_rollouts + 1):
                correct[0] = np.arange(num_rollouts) < num_correct
                advantages = _estimate(estimate, correct * 1.0, correct, **inputs)
                tried.append(np.asarray(advantages)[0])
    beside_wrong, beside_right = np.split(np.array(tried), 2)
    return not np.allclose(
        beside_wrong, beside_right, rtol=1e-5, atol=1e-8, equal_nan=True
    )


@functools.lru_cache(maxsize=16)
def _means(
    estimate: AdvantageFn, *, spread: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Computes positive and negative ``[2, N + 1]``, and the range of each.

    Cached, because each report draws the curves of all stages.
    """
    means = np.zeros((2, estimate.num_rollouts + 1))
    scatter = np.zeros_like(means)
    pooled = _pools_problems(estimate)
    by_count = _estimate_by_count(estimate, spread=spread, pooled=pooled)
    # The gap of a curve may be far smaller than its two advantages.
    with jax.enable_x64(estimate.estimator.reads == ('correct',)):
        for c, (correct, advantages) in enumerate(by_count):
            for i, of in enumerate((correct, ~correct)):
                if of.any():
                    means[i, c] = advantages[of].mean()
                    scatter[i, c] = np.ptp(advantages[of])
    return means, scatter


def _estimate_by_count(
    estimate: AdvantageFn, *, spread: float, pooled: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields ``correct`` and advantages ``[P, N]`` for 0, 1, ... N correct responses.

    Other inputs have their typical value, plus up to ``spread`` times that. ``pooled``
    problems are in one batch.
    """
    num_rollouts, num_problems = estimate.num_rollouts, _batch_size(estimate)
    rng = np.random.default_rng(0)
    ordered = np.tile(np.arange(num_rollouts), (num_problems, 1))
    places = rng.permuted(ordered, axis=1)
    batches = [places < c for c in range(num_rollouts + 1)]
    if pooled:
        batches, num_problems = [np.concatenate(batches)], len(batches) * num_problems
    inputs = _typical_inputs(estimate, num_problems, spread=spread, rng=rng)
    for correct in batches:
        advantages = _estimate(estimate, correct * 1.0, correct, **inputs)
        advantages = np.asarray(advantages, np.float64)
        # Each part has one count.
        num_counts = len(correct) // len(places)
        yield from zip(
            np.split(correct, num_counts), np.split(advantages, num_counts), strict=True
        )


def _typical_inputs(
    estimate: AdvantageFn,
    num_problems: int,
    *,
    spread: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Makes the inputs but rewards and verdicts, with up to ``spread`` times more."""
    memory = estimate.begin_memory()
    inputs: dict[str, Any] = {
        k: np.full(x.shape, INPUTS[k].typical) for k, x in memory.items()
    }
    shape = num_problems, estimate.num_rollouts
    for name in estimate.estimator.reads:
        if name in ('rewards', 'correct', 'key', *memory):
            continue
        size = shape[: len(INPUTS[name].shape.split())]
        values = INPUTS[name].typical * (1 + spread * rng.random(size))
        inputs[name] = values.astype(INPUTS[name].dtype)
    if 'key' in estimate.estimator.reads:
        inputs['key'] = jax.random.split(jax.random.key(0), num_problems)
    return inputs


@functools.partial(jax.jit, static_argnums=0)
def _estimate(estimator: AdvantageFn, *arrays: Any, **inputs: Any) -> jax.Array:
    return estimator(*arrays, **inputs)
