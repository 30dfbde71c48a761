"""Dynamic sampling (DAPO, arXiv:2503.14476): problems that teach nothing make room.

A problem without a signal is one whose advantages are all exactly 0: all its rewards
are equal, or its estimator gives the others no weight either (Pass@k where fewer than k
responses are wrong). It is told by the advantages and not by a deviation of rewards,
whose rounding may be taken for a signal. Then, in a step:

1. the step's own problems are answered, ``batches[step]``, as without all this;
2. round r = 1, 2, ... answers the whole batch ``step * max_rounds + r - 1`` of another
   order of the same problems (``Batches.reordered``), and those with a signal take the
   places of those without, both in the order of their batches;
3. it ends when every place has a signal or after ``max_rounds``. What is left without
   a signal stays, adds no gradient, and counts in the normalizer as in any other step.

So the problems are a function of (seed, step, policy): a resumed run draws the same. A
problem that was tried in the step already is passed over: its address, and so its
noise, would be the same. Every round is of one shape: nothing compiles twice.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax import rollout
from passk_jax.rollout import Answers
from passk_jax.setup import Setup
from passk_jax.types import Problem, Rollouts


@dataclasses.dataclass(frozen=True)
class Draw:
    """Problems and the responses to them, on the devices and as the host has them."""

    problems: list[Problem]
    rollouts: Rollouts
    answers: Answers


Estimate = Callable[[Draw], jax.Array]


def refill(
    setup: Setup,
    first: Draw,
    estimate: Estimate,
    draw: Callable[[int], Draw],
    *,
    max_rounds: int,
) -> tuple[Draw, jax.Array, dict[str, float]]:
    """Replaces the problems of ``first`` that have no signal.

    Args:
        setup: the run's fixed parts.
        first: the step's own problems, answered.
        estimate: the advantages ``[P, N]`` of a draw.
        draw: answers the problems of round r = 1, 2, ...; as many as ``first`` has.
        max_rounds: rounds after the first draw, at most.

    Returns:
        The filled batch, its advantages, and what became of the problems:
        ``sampling_rounds`` (draws; 1: no more than the step's own),
        ``problems_with_signal`` of the batch, and of all different problems drawn
        ``drawn_with_signal`` (share) and ``drawn_reward`` (mean), which alone are of
        problems that were not selected by how they were answered.
    """
    batch, advantages, rounds = first, estimate(first), 1
    live = has_signal(advantages)
    signals, rewards = [live.copy()], [first.answers.verdicts.rewards]
    tried = {problem.id for problem in first.problems}
    while not live.all() and rounds <= max_rounds:
        extra = draw(rounds)
        rounds += 1
        new = np.array([problem.id not in tried for problem in extra.problems])
        tried |= {problem.id for problem in extra.problems}
        useful = has_signal(estimate(extra)) & new
        signals.append(useful[new])
        rewards.append(extra.answers.verdicts.rewards[new])
        places, rows = np.flatnonzero(~live), np.flatnonzero(useful)
        count = min(len(places), len(rows))
        source = np.full(len(live), -1, np.int32)
        source[places[:count]] = rows[:count]
        batch = merge(setup, batch, extra, source)
        # Again, of the whole: an estimator may compare problems with each other.
        advantages = estimate(batch)
        live = has_signal(advantages)
    return (
        batch,
        advantages,
        {
            'sampling_rounds': float(rounds),
            'problems_with_signal': float(live.sum()),
            'drawn_with_signal': float(np.concatenate(signals).mean()),
            'drawn_reward': float(np.concatenate(rewards).mean()),
        },
    )


def has_signal(advantages: jax.Array) -> np.ndarray:
    """``[P]`` bool: which problems have an advantage that is not 0."""
    return (rollout.fetch(advantages) != 0).any(axis=1)


def merge(setup: Setup, old: Draw, new: Draw, source: np.ndarray) -> Draw:
    """``old`` with row ``source[p]`` of ``new`` in place p, where that is not -1."""
    rollouts = _merge_on_devices(
        old.rollouts, new.rollouts, rollout.place(setup, source)
    )
    # As they were sampled: another layout would compile the learner again.
    rollouts = jax.tree.map(
        lambda x, y: jax.device_put(x, y.sharding), rollouts, old.rollouts
    )
    return Draw(
        problems=_merge_on_host(old.problems, new.problems, source),
        rollouts=rollouts,
        answers=_merge_on_host(old.answers, new.answers, source),
    )


@jax.jit
def _merge_on_devices(old: Any, new: Any, source: jax.Array) -> Any:
    def choose(x: jax.Array, y: jax.Array) -> jax.Array:
        replaced = (source >= 0).reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.where(replaced, y[jnp.maximum(source, 0)], x)

    return jax.tree.map(choose, old, new)


def _merge_on_host(old: Any, new: Any, source: np.ndarray) -> Any:
    """Lists and arrays by row; dataclasses by field."""
    if dataclasses.is_dataclass(old):
        fields = {
            field.name: _merge_on_host(
                getattr(old, field.name), getattr(new, field.name), source
            )
            for field in dataclasses.fields(old)
        }
        return dataclasses.replace(old, **fields)
    if isinstance(old, list):
        rows = zip(old, source, strict=True)
        return [x if row < 0 else new[row] for x, row in rows]
    merged = old.copy()
    merged[source >= 0] = new[source[source >= 0]]
    return merged
