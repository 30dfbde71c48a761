"""The verb *estimate*: gives the responses of a step their advantages."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from passk_jax import difficulty, sharding
from passk_jax.advantages import AdvantageFn, Memory, rewards
from passk_jax.preflight import configured_estimator
from passk_jax.rollouts.sample_and_verify import Responses, answer_ids
from passk_jax.sampling import Purpose, problem_keys
from passk_jax.setup import Setup
from passk_jax.types import Rollouts


def make_estimate(setup: Setup) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Makes the verb ``estimate(rollouts, responses, step, memory=memory)``.

    It returns ``[P, N]`` advantages, and which responses it took to be correct.
    """
    estimator = configured_estimator(setup.config)
    flip_wrong = setup.config.reward.flip_wrong

    def estimate(
        rollouts: Rollouts, responses: Responses, step: int, *, memory: Memory
    ) -> Any:
        verdicts = responses.verdicts
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


# The runs of a process share one program if their settings are equal.
@functools.partial(jax.jit, static_argnums=(0, 1))
def _compute(
    estimator: AdvantageFn,
    flip_wrong: float,
    values: jax.Array,
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
        values, correct = rewards.flip_wrong(
            values, correct, fraction=flip_wrong, keys=keys
        )
    tokens = rollouts.lengths.sum(axis=-1)
    advantages = estimator(
        values,
        correct,
        key=problem_keys(groups_key, ids),
        mean_entropy=rollouts.entropies.sum(axis=(-2, -1)) / tokens,
        lengths=rollouts.lengths,
        answers=answers,
        log_probs=rollouts.sampler_log_probs.sum(axis=-1),
        **memory,
    )
    return advantages, correct
