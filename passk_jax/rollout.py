"""From prompts to verified responses: what training and evaluation share.

:func:`place` puts a batch on the mesh, ``sampling.sample`` answers it, and
:func:`verify` brings the answers to the host as text and asks the task. Every host
sees the whole batch: prompts and responses are small, and verdicts are then the same
everywhere without a word between hosts.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from passk_jax import sharding
from passk_jax.models import tokenizer as tokenizers
from passk_jax.setup import Setup
from passk_jax.types import Problem, Rollouts, Verdicts


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


def verify(
    setup: Setup, problems: list[Problem], rollouts: Rollouts, *, step: int
) -> Answers:
    """Reads the responses and verifies them.

    Args:
        setup: the run's fixed parts.
        problems: P of them.
        rollouts: their responses.
        step: the training step, for messages.

    Raises:
        ValueError: a reward that is not finite, with the step and the problem's id.
    """
    host = fetch(
        {
            'tokens': rollouts.tokens,
            'lengths': rollouts.lengths,
            'stopped': rollouts.stopped,
            'entropies': rollouts.entropies,
            'log_probs': rollouts.sampler_log_probs,
        }
    )
    lengths = host['lengths']
    responses = tokenizers.decode_responses(setup.tokenizer, host['tokens'], lengths)
    verdicts = setup.task.verify(problems, responses)
    bad = np.argwhere(~np.isfinite(verdicts.rewards))
    if len(bad):
        row, rollout = bad[0]
        raise ValueError(
            f'the verifier of task {setup.task.name!r} gave the reward '
            f'{verdicts.rewards[row, rollout]} to rollout {rollout} of problem '
            f'{problems[row].id} at step {step}'
        )
    counts = np.maximum(lengths, 1)
    return Answers(
        lengths=lengths,
        stopped=host['stopped'],
        mean_entropies=host['entropies'].sum(-1) / counts,
        mean_log_probs=host['log_probs'].sum(-1) / counts,
        responses=responses,
        verdicts=verdicts,
    )


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
