"""CurveRL, which reads the pass rates of earlier steps, and its memory.

The **memory** of an estimator maps the names of its ``remembered`` inputs to arrays;
most have none: ``{}``. ``AdvantageFn.begin_memory`` makes it, and :func:`remember` adds
each step's problems. Checkpoints store it, beside the estimates of
:mod:`passk_jax.data.difficulty`.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from passk_jax.advantages.declarations import Inputs

Memory = dict[str, Array]


def curverl(inputs: Inputs, *, window: int) -> Float[Array, 'P N']:
    """Weighs a problem by its rank in recent pass rates: CurveRL (arXiv:2605.24331).

        A_i = w(c) (R_i - c / N),    w(c) = n_c / (n_1 + ... + n_c)

    c responses to the problem are correct; R_i is 1 for those and else 0. n_c problems
    of the last ``window`` steps had c correct responses. In a histogram as fine as N
    allows, with density f and distribution function F of pass rates, w is f / (F N). It
    follows log F(p) / N: problems that are harder than recent ones weigh more. If all
    pass rates are equally frequent, this is ``maxrl`` / N.

    As in the authors' code, problems whose responses are all correct or all wrong are
    not counted and get 0. So does a problem whose c is not in the history. An empty
    history, as at the first step, is replaced by the batch. So call this on a whole
    step, not on micro-batches.

    Args:
        inputs: the last row of ``history`` is the previous step's.
        window: how many steps to look back, at most.

    >>> history = jnp.array([[5, 3, 1, 0, 5]])
    >>> correct = jnp.arange(4) < jnp.array([[1], [2]])
    >>> print(curverl(Inputs(correct=correct, history=history), window=1))
    [[ 0.75  -0.25  -0.25  -0.25 ]
     [ 0.125  0.125 -0.125 -0.125]]
    """
    correct, num_rollouts = inputs.correct, inputs.correct.shape[-1]
    counts = np.arange(num_rollouts + 1)
    mixed = (counts > 0) & (counts < num_rollouts)
    late = jnp.where(mixed, inputs.history[-window:].sum(axis=0), 0)
    current = jnp.where(mixed, count_problems(correct), 0)
    density = jnp.where(late.any(), late, current)
    weights = density / jnp.maximum(jnp.cumsum(density), 1)
    num_correct = jnp.sum(correct, axis=-1, keepdims=True)
    return weights[num_correct] * (correct - num_correct / num_rollouts)


def count_problems(correct: Bool[Array, 'P N']) -> Int[Array, 'C']:
    """Counts the problems with 0, 1, ... N correct responses."""
    return jnp.bincount(jnp.sum(correct, axis=-1), length=correct.shape[-1] + 1)


def remember(memory: Memory, correct: Bool[Array, 'P N']) -> Memory:
    """Returns the memory after a step.

    Args:
        memory: before the step.
        correct: the responses to the step's own problems that were rewarded as correct.
            Take them before dynamic sampling: it drops problems without an advantage,
            so the memory would never see a new pass rate.

    >>> remember({'history': jnp.array([[1, 0, 1]])}, jnp.array([[True, False]]))
    {'history': Array([[0, 1, 0]], dtype=int32)}
    """
    if 'history' not in memory:
        return {}
    newest = count_problems(correct).astype(jnp.int32)[None]
    return {'history': jnp.concatenate([memory['history'][1:], newest])}
