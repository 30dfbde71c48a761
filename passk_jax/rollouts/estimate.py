"""The verb *estimate*: computes the advantages of a step's responses."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from passk_jax import sharding
from passk_jax.advantages import ESTIMATORS, AdvantageFn, Memory, estimator_row
from passk_jax.advantages import rewards as transforms
from passk_jax.data import difficulty
from passk_jax.data.difficulty import RunMemory
from passk_jax.errors import InputError
from passk_jax.rollouts.verify import Responses, answer_ids, any_failure
from passk_jax.sampling import Purpose, RunKeys, problem_keys
from passk_jax.types import Rollouts


class Estimated(NamedTuple):
    """The advantages of P problems' responses.

    Attributes:
        advantages: float32.
        rewarded: the responses rewarded as correct: the correct ones, and wrong ones
            that Noise Rewards flipped.
    """

    advantages: Float[Array, 'P N']
    rewarded: Bool[Array, 'P N']


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The verb ``estimate(rollouts, responses, memory=memory, step=step)``.

    Attributes:
        estimator: the configured estimator, with its scale.
        flip_wrong: the fraction of wrong responses that Noise Rewards flip.
        mesh: the mesh of the rollouts.
        keys: the run's keys, for random groups and for noise.
    """

    estimator: AdvantageFn
    flip_wrong: float
    mesh: Mesh
    keys: RunKeys

    def __call__(
        self, rollouts: Rollouts, responses: Responses, *, memory: RunMemory, step: int
    ) -> Estimated:
        """Estimates the advantages of a batch.

        Args:
            rollouts: the rollouts, on the devices.
            responses: their verdicts and lengths, on the host.
            memory: the run's memory of earlier steps.
            step: addresses the random keys.

        Raises:
            ValueError: the estimator cannot use the rewards; see
                :func:`check_rewards`.
        """
        verdicts, flip_wrong = responses.verdicts, self.flip_wrong
        rewards, correct = verdicts.rewards, verdicts.correct
        judged = ~any_failure(verdicts)
        check_rewards(
            self.estimator.name, rewards[judged], correct[judged], flip_wrong=flip_wrong
        )
        arrays = rewards, correct, answer_ids(verdicts.parsed)
        return _compute(
            self.estimator,
            flip_wrong,
            *sharding.place(self.mesh, arrays),
            rollouts,
            self.keys.key(Purpose.GROUPS, step),
            self.keys.key(Purpose.REWARD_NOISE, step),
            difficulty.without_difficulty(memory),
        )


def check_rewards(
    name: str,
    rewards: Float[np.ndarray, '*n'],
    correct: Bool[np.ndarray, '*n'],
    *,
    flip_wrong: float = 0.0,
) -> None:
    """Checks that the estimator can use the rewards of a step.

    An estimator that reads only ``correct`` needs two reward values, the higher for all
    correct responses. Noise Rewards need 1 and 0, because they reward a wrong response
    like a correct one.

    Args:
        name: name of the estimator.
        rewards, correct: the verdicts that did not fail.
        flip_wrong: the fraction of wrong responses that Noise Rewards flip.

    Raises:
        ValueError: the rewards have other values.

    >>> correct = np.array([[True, False]])
    >>> check_rewards('maxrl', np.array([[1.0, -1.0]]), correct)
    """
    right, wrong = np.unique(rewards[correct]), np.unique(rewards[~correct])
    parts = {'right': right, 'wrong': wrong}
    description = ' and '.join(
        f'{kind} responses have the rewards {_some(values)}'
        for kind, values in parts.items()
        if len(values)
    )
    if flip_wrong and not ({*right} <= {1} and {*wrong} <= {0}):
        raise InputError(
            f'{description}, but reward.flip_wrong={flip_wrong} needs 1 and 0'
        )
    two_valued = len(right) <= 1 and len(wrong) <= 1
    in_line = not len(right) or not len(wrong) or right.min() > wrong.max()
    if 'rewards' not in estimator_row(name).reads and not (two_valued and in_line):
        choices = [other for other, row in ESTIMATORS.items() if 'rewards' in row.reads]
        raise InputError(
            f'{description}, but advantage.name={name!r} reads only which are right; '
            f'choose one of {choices}, which read rewards'
        )


def _some(values: np.ndarray) -> str:
    """Formats the first three values for a message."""
    more = ', ...' if len(values) > 3 else ''
    return f'[{", ".join(f"{value:.7g}" for value in values[:3])}{more}]'


# Runs of a process share a program if their settings are equal.
@functools.partial(jax.jit, static_argnums=(0, 1))
def _compute(
    estimator: AdvantageFn,
    flip_wrong: float,
    rewards: jax.Array,
    correct: jax.Array,
    answers: jax.Array,
    rollouts: Rollouts,
    groups_key: jax.Array,
    noise_key: jax.Array,
    memory: Memory,
) -> Estimated:
    """Flips the fraction ``flip_wrong`` of wrong rewards, and estimates advantages."""
    ids = rollouts.prompts.problem_ids
    if flip_wrong:
        keys = problem_keys(noise_key, ids)
        rewards, correct = transforms.flip_wrong(
            rewards, correct, fraction=flip_wrong, keys=keys
        )
    tokens = rollouts.lengths.sum(axis=-1)
    advantages = estimator(
        rewards,
        correct,
        key=problem_keys(groups_key, ids),
        mean_entropy=rollouts.entropies.sum(axis=(-2, -1)) / tokens,
        lengths=rollouts.lengths,
        answers=answers,
        log_probs=rollouts.sampler_log_probs.sum(axis=-1),
        **memory,
    )
    return Estimated(advantages, correct)
