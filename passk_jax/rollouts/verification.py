"""Verdicts on responses as they end, while others are still being decoded.

The sampler hands over what has ended (:class:`passk_jax.sampling.Ended`) and goes on; a
thread of :class:`Verifying` brings it to the host, reads it and asks the task. So
devices wait for a verifier only after the last response, and then for what is left of
its work. Every host does the same for the whole batch: responses are small, and
verdicts are then equal everywhere without a word between hosts.
"""

import concurrent.futures
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from passk_jax.errors import InputError
from passk_jax.models import tokenizer as tokenizers
from passk_jax.sampling import Ended
from passk_jax.setup import Setup
from passk_jax.types import Problem, Verdicts


class Verifying:
    """The verdicts on N responses to each of P problems.

    A context: leaving it forgets what has not begun and waits for the rest.

    Args:
        setup: the run's fixed parts.
        problems: P of them.
        num_rollouts: N.
    """

    def __init__(self, setup: Setup, problems: Sequence[Problem], num_rollouts: int):
        self._setup, self._problems = setup, problems
        shape = (len(problems), num_rollouts)
        self._rewards = np.full(shape, np.nan, np.float32)
        self._correct = np.zeros(shape, bool)
        self._parsed, self._responses = (np.full(shape, '', object) for _ in range(2))
        # One, because a task need not be safe to ask from several.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, 'verifying')
        self._jobs: list[concurrent.futures.Future[None]] = []

    def __enter__(self) -> 'Verifying':
        return self

    def __exit__(self, *_: Any) -> None:
        self._thread.shutdown(cancel_futures=True)

    def submit(self, ended: Ended) -> None:
        """Has these responses verified, and returns at once."""
        self._jobs.append(self._thread.submit(self._verify, ended))

    def finish(self, *, step: int) -> tuple[list[list[str]], Verdicts]:
        """Waits for the verdicts.

        Args:
            step: the training step, for messages.

        Returns:
            ``[P][N]`` texts of the responses, and the verdicts on them.

        Raises:
            ValueError: a reward that is not finite, with the step and the problem's id;
                or what the task raised.
        """
        for job in self._jobs:
            job.result()
        bad = np.argwhere(~np.isfinite(self._rewards))
        if len(bad):
            p, n = bad[0]
            raise InputError(
                f'the verifier of task {self._setup.task.name!r} gave the reward '
                f'{self._rewards[p, n]} to rollout {n} of problem '
                f'{self._problems[p].id} at step {step}'
            )
        verdicts = Verdicts(self._rewards, self._correct, self._parsed.tolist())
        return self._responses.tolist(), verdicts

    def _verify(self, ended: Ended) -> None:
        places = ended.problems, ended.rollouts
        # Waits for the sampler to have got so far, and for no more than that.
        tokens, lengths = jax.device_get((ended.tokens, ended.lengths))
        count = len(ended.problems)
        responses = tokenizers.decode_responses(
            self._setup.tokenizer, tokens[:count, None], lengths[:count, None]
        )
        problems = [self._problems[p] for p in ended.problems]
        verdicts = self._setup.task.verify(problems, responses)
        self._responses[places] = [row[0] for row in responses]
        self._parsed[places] = [row[0] for row in verdicts.parsed]
        self._rewards[places] = verdicts.rewards[:, 0]
        self._correct[places] = verdicts.correct[:, 0]
