"""The verb *estimate*: gives the responses of a step their advantages."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from passk_jax import sharding
from passk_jax.advantages import ESTIMATORS, AdvantageFn, Memory
from passk_jax.advantages import rewards as transforms
from passk_jax.data import difficulty
from passk_jax.errors import InputError
from passk_jax.rollouts.sample_and_verify import Responses, answer_ids
from passk_jax.sampling import Purpose, problem_keys
from passk_jax.setup.checks import configured_estimator
from passk_jax.setup.setup import Setup
from passk_jax.types import Rollouts


def make_estimate(setup: Setup) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Makes the verb ``estimate(rollouts, responses, step, memory=memory)``.

    It returns ``[P, N]`` advantages, and which responses it took to be correct. It
    raises InputError if the estimator would ignore what the rewards say: see
    :func:`check_rewards`.
    """
    estimator = configured_estimator(setup.config)
    name, flip_wrong = setup.config.advantage.name, setup.config.reward.flip_wrong

    def estimate(
        rollouts: Rollouts, responses: Responses, step: int, *, memory: Memory
    ) -> Any:
        verdicts = responses.verdicts
        check_rewards(name, verdicts.rewards, verdicts.correct, flip_wrong=flip_wrong)
        arrays = verdicts.rewards, verdicts.correct, answer_ids(verdicts.parsed)
        return _compute(
            estimator,
            flip_wrong,
            *sharding.place(setup.mesh, arrays),
            rollouts,
            setup.key(Purpose.GROUPS, step),
            setup.key(Purpose.REWARD_NOISE, step),
            difficulty.of_estimator(memory),
        )

    return estimate


def check_rewards(
    name: str,
    rewards: Float[np.ndarray, 'P N'],
    correct: Bool[np.ndarray, 'P N'],
    *,
    flip_wrong: float = 0.0,
) -> None:
    """Checks that nothing is lost of the rewards of a step.

    An estimator that reads only which responses are right takes rewards of two values,
    the higher for all that are right. Noise Rewards take 0 and 1, for they pay a wrong
    response as if it were right.

    Args:
        name: of the estimator.
        rewards, correct: of the verifier.
        flip_wrong: the fraction of Noise Rewards.

    Raises:
        ValueError: the rewards are others.

    >>> correct = np.array([[True, False]])
    >>> check_rewards('maxrl', np.array([[1.0, -1.0]]), correct)
    """
    right, wrong = np.unique(rewards[correct]), np.unique(rewards[~correct])
    found = (
        f'right responses have the rewards {_some(right)} and wrong ones {_some(wrong)}'
    )
    if flip_wrong and not ({*right} <= {1} and {*wrong} <= {0}):
        raise InputError(f'{found}, but reward.flip_wrong={flip_wrong} needs 1 and 0')
    two_valued = len(right) <= 1 and len(wrong) <= 1
    in_line = not len(right) or not len(wrong) or right.min() > wrong.max()
    if 'rewards' not in ESTIMATORS[name].reads and not (two_valued and in_line):
        able = [each for each, row in ESTIMATORS.items() if 'rewards' in row.reads]
        raise InputError(
            f'{found}, but advantage.name={name!r} reads only which are right; choose '
            f'one of {able}, which read rewards'
        )


def _some(values: np.ndarray) -> str:
    """The first few of them, for a message."""
    more = ', ...' if len(values) > 3 else ''
    return f'[{", ".join(f"{value:.7g}" for value in values[:3])}{more}]'


# The runs of a process share one program if their settings are equal.
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
) -> tuple[jax.Array, jax.Array]:
    """Flips this fraction of wrong rewards; returns advantages and ``rewarded``."""
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
    return advantages, correct
