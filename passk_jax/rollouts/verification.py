"""Verifies responses as they end, while others are still being decoded.

The sampler hands over each response that has ended (:class:`passk_jax.sampling.Ended`)
and goes on. A thread of :class:`Verification` copies it to the host, decodes its text
and asks the task for a verdict. So devices wait for the verifier only after the last
response, and only for the work that is left.

Each of H hosts judges every H-th problem, and :meth:`Verification.finish` gathers the
verdicts. So an answer that times out on one host is wrong on all, and they stay in
step. Every host decodes all texts.
"""

import concurrent.futures
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from passk_jax.errors import InputError
from passk_jax.models import tokenizer as tokenizers
from passk_jax.runtime import hosts
from passk_jax.sampling import Ended
from passk_jax.tasks import Task
from passk_jax.types import Problem, Verdicts


class Verification:
    """Collects the verdicts on N responses to each of P problems.

    A context manager, which calls :meth:`close` at its end.

    Args:
        task: gives the verdicts.
        tokenizer: turns responses into text.
        problems: P problems.
        num_rollouts: N.
    """

    def __init__(
        self, task: Task, tokenizer: Any, problems: Sequence[Problem], num_rollouts: int
    ):
        self._task, self._tokenizer, self._problems = task, tokenizer, problems
        shape = (len(problems), num_rollouts)
        self._rewards = np.full(shape, np.nan, np.float32)
        self._correct = np.zeros(shape, bool)
        self._parsed, self._texts = (np.full(shape, '', object) for _ in range(2))
        self._failures: dict[str, np.ndarray] = {}
        # A single thread, because tasks need not be thread-safe.
        self._thread = concurrent.futures.ThreadPoolExecutor(1, 'verification')
        self._jobs: list[concurrent.futures.Future[None]] = []

    def __enter__(self) -> 'Verification':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Drops the jobs that have not started and waits for the one that has."""
        self._thread.shutdown(cancel_futures=True)

    def submit(self, ended: Ended) -> None:
        """Queues responses for verification and returns at once."""
        self._jobs.append(self._thread.submit(self._verify, ended))

    def finish(
        self, *, step: int, on_judged: Callable[[], None] = lambda: None
    ) -> tuple[list[list[str]], Verdicts]:
        """Waits for the verdicts of all hosts; each of them must call it.

        Args:
            step: the training step, for messages.
            on_judged: is called once this host has judged its share.

        Returns:
            ``[P][N]`` the texts of the responses, and the verdicts on them.

        Raises:
            ValueError: a reward is not finite; the message names step and problem.
            Exception: whatever the task raised; ElsewhereError if it did so on another
                host.
        """

        def collect_share() -> dict[str, Any]:
            verdicts = self._collect_verdicts()
            on_judged()
            return verdicts

        for host, verdicts in enumerate(hosts.gather(collect_share)):
            # With fewer problems than hosts, some judge none.
            if verdicts['rewards']:
                self._keep(_share(host), **verdicts)
        bad = np.argwhere(~np.isfinite(self._rewards))
        if len(bad):
            p, n = bad[0]
            raise InputError(
                f'the verifier of task {self._task.name!r} gave the reward '
                f'{self._rewards[p, n]} to rollout {n} of problem '
                f'{self._problems[p].id} at step {step}'
            )
        parsed = self._parsed.tolist()
        verdicts = Verdicts(self._rewards, self._correct, parsed, self._failures)
        return self._texts.tolist(), verdicts

    def _collect_verdicts(self) -> dict[str, Any]:
        """What this host has judged, once it has."""
        for job in self._jobs:
            job.result()
        arrays = {
            'rewards': self._rewards,
            'correct': self._correct,
            'parsed': self._parsed,
            'failures': self._failures,
        }
        rows = _share(jax.process_index())
        return jax.tree.map(lambda array: array[rows].tolist(), arrays)

    def _keep(
        self,
        places: Any,
        *,
        rewards: Any,
        correct: Any,
        parsed: Any,
        failures: Mapping[str, Any],
    ) -> None:
        """Writes verdicts to an index of ``[P, N]``."""
        self._rewards[places] = rewards
        self._correct[places] = correct
        self._parsed[places] = parsed
        for kind, failed in failures.items():
            self._failures.setdefault(kind, np.zeros_like(self._correct))
            self._failures[kind][places] = failed

    def _verify(self, ended: Ended) -> None:
        # This waits for the gathered responses, but not for later decoding.
        tokens, lengths = jax.device_get((ended.tokens, ended.lengths))
        count = len(ended.problems)
        texts = tokenizers.decode_responses(
            self._tokenizer, tokens[:count, None], lengths[:count, None]
        )
        self._texts[ended.problems, ended.rollouts] = [row[0] for row in texts]
        own_problems = np.arange(len(self._problems))[_share(jax.process_index())]
        rows = np.flatnonzero(np.isin(ended.problems, own_problems))
        if not rows.size:
            return
        places = ended.problems[rows], ended.rollouts[rows]
        verdicts = self._task.verify(
            [self._problems[p] for p in places[0]], [texts[row] for row in rows]
        )
        self._keep(
            places,
            rewards=verdicts.rewards[:, 0],
            correct=verdicts.correct[:, 0],
            parsed=[row[0] for row in verdicts.parsed],
            failures={kind: failed[:, 0] for kind, failed in verdicts.failures.items()},
        )


def _share(host: int) -> slice:
    """The problems of a batch that a host judges."""
    return slice(host, None, jax.process_count())
