"""From prompts to verified responses: what training and evaluation share.

:func:`answer` puts a batch on the mesh, samples responses to it, and has them verified
as they end (verification.py); :func:`records` is what people read of it.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.experimental import multihost_utils

from passk_jax import sampling, sharding
from passk_jax.models.policy import Params
from passk_jax.rollouts.verification import Verifying
from passk_jax.setup import Setup
from passk_jax.types import Problem, Prompts, Rollouts, Verdicts


@dataclasses.dataclass(frozen=True)
class Answers:
    """Rollouts on the host.

    Attributes:
        lengths: ``[P, N]`` int32, tokens including the stop token.
        stopped: ``[P, N]`` bool.
        mean_entropies: ``[P, N]`` float32, nats a token.
        mean_log_probs: ``[P, N]`` float32, of the distribution sampled from.
        responses: ``[P][N]`` texts.
        verdicts: the task's.
    """

    lengths: np.ndarray
    stopped: np.ndarray
    mean_entropies: np.ndarray
    mean_log_probs: np.ndarray
    responses: list[list[str]]
    verdicts: Verdicts


def place(setup: Setup, tree: Any) -> Any:
    """Puts host arrays on the mesh, split over the data axes; any number of hosts."""
    shardings = sharding.batch_sharding(setup.mesh, tree)
    return jax.tree.map(
        lambda x, s: jax.make_array_from_callback(x.shape, s, lambda i: x[i]),
        tree,
        shardings,
    )


def fetch(tree: Any) -> Any:
    """Brings arrays to every host whole."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def answer(
    setup: Setup,
    params: Params,
    problems: list[Problem],
    prompts: Prompts,
    *,
    key: jax.Array,
    step: int,
    num_rollouts: int,
    **settings: Any,
) -> tuple[Rollouts, Answers]:
    """Samples responses to problems and verifies them.

    Args:
        setup: the run's fixed parts.
        params: the policy's parameters.
        problems: P of them.
        prompts: theirs, on the host.
        key: of :func:`passk_jax.sampling.step_key`.
        step: the training step, for messages.
        num_rollouts: N.
        settings: the others of :func:`passk_jax.sampling.sample`.

    Returns:
        The rollouts on the devices, and what the host knows of them.

    Raises:
        ValueError: a reward that is not finite, with the step and the problem's id.
    """
    with Verifying(setup, problems, num_rollouts) as verifying:
        rollouts = sampling.sample(
            setup.policy,
            params,
            place(setup, prompts),
            key=key,
            num_rollouts=num_rollouts,
            stop_tokens=setup.stop_tokens,
            on_ended=verifying.submit,
            **settings,
        )
        figures = fetch(_figures(rollouts))
        responses, verdicts = verifying.finish(step=step)
    return rollouts, Answers(responses=responses, verdicts=verdicts, **figures)


@jax.jit
def _figures(rollouts: Rollouts) -> dict[str, jax.Array]:
    counts = jnp.maximum(rollouts.lengths, 1)
    return {
        'lengths': rollouts.lengths,
        'stopped': rollouts.stopped,
        'mean_entropies': rollouts.entropies.sum(axis=-1) / counts,
        'mean_log_probs': rollouts.sampler_log_probs.sum(axis=-1) / counts,
    }


def records(
    problems: list[Problem], answers: Answers, *, step: int, advantages: np.ndarray
) -> list[dict[str, Any]]:
    """One JSON record a rollout, for people to read."""
    return [
        {
            'step': step,
            'problem_id': problem.id,
            'category': problem.category,
            'prompt': problem.prompt,
            'data': dict(problem.data),
            'rollout': n,
            'response': answers.responses[p][n],
            'parsed': answers.verdicts.parsed[p][n],
            'correct': bool(answers.verdicts.correct[p, n]),
            'reward': float(answers.verdicts.rewards[p, n]),
            'advantage': float(advantages[p, n]),
            'length': int(answers.lengths[p, n]),
            'stopped': bool(answers.stopped[p, n]),
            'mean_log_prob': float(answers.mean_log_probs[p, n]),
            'mean_entropy': float(answers.mean_entropies[p, n]),
        }
        for p, problem in enumerate(problems)
        for n in range(answers.lengths.shape[1])
    ]
