"""The verb *verify*: what the host knows of rollouts, with the task's verdicts.

Verification begins while responses are still being decoded: the sampler hands each
response that ends to a verifier thread (verification.py). :class:`Verify` waits for the
verdicts and fetches what the host needs, in training and in evaluation.
:func:`records` makes a batch of training readable for people.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from passk_jax.models.tokenizer import Tokenizer
from passk_jax.rollouts.verification import Verification
from passk_jax.runtime import hosts
from passk_jax.tasks import Task
from passk_jax.types import Problem, Rollouts, Verdicts


@dataclasses.dataclass(frozen=True)
class Sampled:
    """Rollouts on the devices, and their verification, which :class:`Verify` ends."""

    rollouts: Rollouts
    verification: Verification


@dataclasses.dataclass(frozen=True)
class Responses:
    """What the host knows of a batch of rollouts.

    Attributes:
        prompt_lengths: ``[P]`` int32, tokens of each prompt.
        lengths: ``[P, N]`` int32, tokens including the stop token.
        stopped: ``[P, N]`` bool, whether a stop token, not the limit, ended it.
        mean_entropies: ``[P, N]`` float32, nats per token.
        mean_log_probs: ``[P, N]`` float32, per token, under the sampling distribution.
        texts: ``[P][N]`` the responses as text.
        verdicts: the task's verdicts.
    """

    prompt_lengths: np.ndarray
    lengths: np.ndarray
    stopped: np.ndarray
    mean_entropies: np.ndarray
    mean_log_probs: np.ndarray
    texts: list[list[str]]
    verdicts: Verdicts


@dataclasses.dataclass(frozen=True)
class Verify:
    """The verb ``verify(sampled, step=step)``.

    Attributes:
        task: gives the verdicts.
        tokenizer: turns responses into text.
    """

    task: Task
    tokenizer: Tokenizer

    def begin(self, problems: Sequence[Problem], num_rollouts: int) -> Verification:
        """Begins the verification of N responses to each problem."""
        return Verification(self.task, self.tokenizer, problems, num_rollouts)

    def __call__(
        self,
        sampled: Sampled,
        *,
        step: int,
        on_judged: Callable[[], None] = lambda: None,
    ) -> Responses:
        """Waits for the verdicts on a batch.

        Args:
            sampled: from :class:`~passk_jax.rollouts.sample.Sample`; this ends its
                verification.
            step: the training step, for messages.
            on_judged: is called once this host has judged its share.

        Raises:
            ValueError: a reward is not finite; the message names step and problem.
            Exception: whatever the task raised; ElsewhereError if it did so on another
                host.
        """
        with sampled.verification as verification:
            figures = hosts.fetch(_figures(sampled.rollouts))
            texts, verdicts = verification.finish(step=step, on_judged=on_judged)
        return Responses(texts=texts, verdicts=verdicts, **figures)


def answer_ids(parsed: Sequence[Sequence[str]]) -> np.ndarray:
    """Numbers that are equal where the answers to a problem are.

    Args:
        parsed: ``[P][N]`` answers.

    Returns:
        ``[P, N]`` int32: the first response of the problem with that answer.

    >>> answer_ids([['UR', 'RU', 'UR', '']]).tolist()
    [[0, 1, 0, 3]]
    """
    numbers = []
    for answers in parsed:
        first: dict[str, int] = {}
        numbers.append([first.setdefault(a, n) for n, a in enumerate(answers)])
    return np.array(numbers, np.int32)


@jax.jit
def _figures(rollouts: Rollouts) -> dict[str, jax.Array]:
    counts = jnp.maximum(rollouts.lengths, 1)
    return {
        'prompt_lengths': rollouts.prompts.lengths,
        'lengths': rollouts.lengths,
        'stopped': rollouts.stopped,
        'mean_entropies': rollouts.entropies.sum(axis=-1) / counts,
        'mean_log_probs': rollouts.sampler_log_probs.sum(axis=-1) / counts,
    }


def records(
    problems: Sequence[Problem],
    responses: Responses,
    *,
    step: int,
    advantages: np.ndarray,
    rewarded: np.ndarray,
) -> list[dict[str, Any]]:
    """Makes one JSON record per rollout, for people to read.

    Noise Rewards flipped the reward where ``rewarded`` is not ``correct``; ``reward``
    is the verifier's.
    """
    return [
        {
            'step': step,
            'problem_id': problem.id,
            'category': problem.category,
            'prompt': problem.prompt,
            'data': dict(problem.data),
            'rollout': n,
            'response': responses.texts[p][n],
            'parsed': responses.verdicts.parsed[p][n],
            'correct': bool(responses.verdicts.correct[p, n]),
            'rewarded': bool(rewarded[p, n]),
            'reward': float(responses.verdicts.rewards[p, n]),
            'advantage': float(advantages[p, n]),
            'length': int(responses.lengths[p, n]),
            'stopped': bool(responses.stopped[p, n]),
            'mean_log_prob': float(responses.mean_log_probs[p, n]),
            'mean_entropy': float(responses.mean_entropies[p, n]),
        }
        for p, problem in enumerate(problems)
        for n in range(responses.lengths.shape[1])
    ]
