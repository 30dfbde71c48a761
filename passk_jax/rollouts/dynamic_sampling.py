"""Dynamic sampling (DAPO, arXiv:2503.14476): problems that teach nothing make room.

A problem has a signal if a response that is trained has an advantage that is not 0. It
has none where all its rewards are equal; where its estimator gives the others no weight
either (Pass@k where fewer than k responses are wrong); or where, with
``loss.mask_truncated``, only responses that the limit cut off have an advantage. It is
told by the advantages and not by a deviation of rewards, whose rounding may be taken
for a signal. Then, in a step:

1. the step's own problems are answered, ``batches[step]``, as without all this;
2. a round answers the next P of all the others (``Batches.others``: each is there once,
   in an order of the step's own), and those with a signal take the places of those
   without, both in the order of their batches;
3. it ends when every place has a signal, after ``train.dynamic_sampling_rounds``, or
   when there are no others left. What is left without a signal stays, adds nothing to
   the policy gradient, and counts in the normalizer as in any other step.

So the problems are a function of (seed, step, policy): a resumed run draws the same. No
problem is tried twice in a step: its address, and so its noise, would be the same.
Every round is of one shape: nothing compiles twice.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax.config import LossConfig
from passk_jax.rollouts import sample_and_verify
from passk_jax.rollouts.sample_and_verify import Answers
from passk_jax.setup import Setup
from passk_jax.types import Problem, Prompts, Rollouts


@dataclasses.dataclass(frozen=True)
class Draw:
    """P problems and the responses to them; the rollouts themselves are elsewhere.

    Attributes:
        problems: P of them.
        answers: the responses and the verdicts on them.
        advantages: ``[P, N]`` float32, on the devices.
    """

    problems: list[Problem]
    answers: Answers
    advantages: jax.Array


@dataclasses.dataclass(frozen=True)
class Draws:
    """What a step drew.

    Attributes:
        first: the step's own problems, selected by nothing.
        trained: what the learner gets; ``first`` itself if no problem made room.
        count: draws that were made; 1: no more than the step's own.
        num_tokens: of the responses of all of them.
    """

    first: Draw
    trained: Draw
    count: int
    num_tokens: int


Answer = Callable[[list[Problem], Prompts], tuple[Rollouts, Draw]]
Estimate = Callable[[Rollouts, Answers], jax.Array]


def draw_step(
    setup: Setup,
    own: tuple[list[Problem], Prompts],
    others: Iterator[tuple[list[Problem], Prompts, np.ndarray]],
    *,
    answer: Answer,
    estimate: Estimate,
) -> tuple[Rollouts, Draws]:
    """Answers a step's own problems, and replaces those that have no signal.

    Args:
        setup: the run's fixed parts, ``train.dynamic_sampling_rounds`` among them.
        own: the step's own problems.
        others: batches of as many other problems, and which of them are no filling.
        answer: responds to a batch of problems.
        estimate: the advantages of rollouts.

    Returns:
        The rollouts that the learner gets, and what was drawn for them.
    """
    loss = setup.config.loss
    rollouts, first = answer(*own)
    trained, count, num_tokens = first, 1, int(first.answers.lengths.sum())
    for _ in range(setup.config.train.dynamic_sampling_rounds):
        places = np.flatnonzero(~_signals(loss, trained))
        batch = next(others, None) if len(places) else None
        if batch is None:
            break
        problems, prompts, is_other = batch
        new_rollouts, new = answer(problems, prompts)
        count += 1
        num_tokens += int(new.answers.lengths.sum())
        rows = np.flatnonzero(_signals(loss, new) & is_other)
        source = np.full(len(problems), -1, np.int32)
        source[places[: len(rows)]] = rows[: len(places)]
        rollouts = merge_rollouts(setup, rollouts, new_rollouts, source)
        problems = merge_on_host(trained.problems, new.problems, source)
        answers = merge_on_host(trained.answers, new.answers, source)
        # Again, of the whole: an estimator may compare problems with each other.
        trained = Draw(problems, answers, estimate(rollouts, answers))
    return rollouts, Draws(first, trained, count, num_tokens)


def _signals(loss: LossConfig, draw: Draw) -> np.ndarray:
    """``[P]`` bool: :func:`has_signal` of a draw."""
    trained = trained_responses(loss, draw.answers)
    return has_signal(sample_and_verify.fetch(draw.advantages), trained)


def has_signal(advantages: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Which problems have an advantage that is not 0, on a response that is trained.

    Args:
        advantages: ``[P, N]``.
        trained: ``[P, N]`` bool, from :func:`trained_responses`.

    Returns:
        ``[P]`` bool.
    """
    return ((advantages != 0) & trained).any(axis=1)


def trained_responses(loss: LossConfig, answers: Answers) -> np.ndarray:
    """``[P, N]`` bool: those that the learner's mask leaves in the loss."""
    if loss.mask_truncated:
        return answers.stopped
    return np.ones_like(answers.stopped)


def merge_rollouts(
    setup: Setup, old: Rollouts, new: Rollouts, source: np.ndarray
) -> Rollouts:
    """``old`` with row ``source[p]`` of ``new`` in place p, where that is not -1."""
    merged = _merge_on_devices(old, new, sample_and_verify.place(setup, source))
    # As they were sampled: another layout would compile the learner again.
    return jax.tree.map(lambda x, y: jax.device_put(x, y.sharding), merged, old)


@jax.jit
def _merge_on_devices(old: Any, new: Any, source: jax.Array) -> Any:
    def choose(x: jax.Array, y: jax.Array) -> jax.Array:
        replaced = (source >= 0).reshape(-1, *(1,) * (x.ndim - 1))
        return jnp.where(replaced, y[jnp.maximum(source, 0)], x)

    return jax.tree.map(choose, old, new)


def merge_on_host(old: Any, new: Any, source: np.ndarray) -> Any:
    """The same of lists and arrays, by row, and of dataclasses, by field."""
    if dataclasses.is_dataclass(old):
        fields = {
            field.name: merge_on_host(
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
