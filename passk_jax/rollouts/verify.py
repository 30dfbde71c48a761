"""The verb *verify*: judges responses, and fetches their lengths and means to the host.

Verification begins while other responses are still being decoded. The sampler hands
over each ended response (:class:`passk_jax.sampling.Ended`) and continues. A thread of
:class:`Verification` copies it to the host, decodes its text and asks the task for a
verdict. So devices wait only for verdicts that remain after the last response.

Each of H hosts judges every H-th problem, and :meth:`Verification.finish` gathers the
verdicts. So an answer that times out on one host is wrong on all hosts, and they stay
in step. Every host decodes all texts.
"""

import concurrent.futures
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Bool

from passk_jax.data.pictures import thumbnail
from passk_jax.errors import InputError
from passk_jax.models import tokenizer as tokenizers
from passk_jax.models.tokenizer import Tokenizer
from passk_jax.runtime import hosts
from passk_jax.sampling import Ended
from passk_jax.tasks import Task
from passk_jax.tasks.judging import check_verdicts
from passk_jax.types import Problem, Rollouts, Verdicts


class Verification:
    """The verdicts on N responses to each of P problems, as they come in.

    As a context manager, it calls :meth:`close` at its end. The task need not be
    thread-safe: a single thread uses it.
    """

    def __init__(
        self,
        task: Task,
        tokenizer: Tokenizer,
        problems: Sequence[Problem],
        num_rollouts: int,
    ):
        self._task, self._tokenizer, self._problems = task, tokenizer, problems
        shape = (len(problems), num_rollouts)
        self._rewards = np.full(shape, np.nan, np.float32)
        self._correct = np.zeros(shape, bool)
        self._parsed, self._texts = (np.full(shape, '', object) for _ in range(2))
        self._failures: dict[str, np.ndarray] = {}
        self._thread = concurrent.futures.ThreadPoolExecutor(1, 'verification')
        self._jobs: list[concurrent.futures.Future[None]] = []

    def __enter__(self) -> 'Verification':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Drops the jobs that have not started and waits for the current one."""
        self._thread.shutdown(cancel_futures=True)

    def submit(self, ended: Ended) -> None:
        """Queues responses for verification and returns at once."""
        self._jobs.append(self._thread.submit(self._verify, ended))

    def finish(
        self, *, step: int, on_judged: Callable[[], None] = lambda: None
    ) -> tuple[list[list[str]], Verdicts]:
        """Waits for the verdicts of all hosts; every host must call it.

        Args:
            step: the training step, for messages.
            on_judged: called once this host has judged its share.

        Returns:
            ``[P][N]`` the texts of the responses, and the verdicts on them.

        Raises:
            ValueError: a reward is not finite; the message names step and problem.
            Exception: an error of the task; ElsewhereError if it was on another host.
        """

        def collect_share() -> dict[str, Any]:
            verdicts = self._collect_verdicts()
            on_judged()
            return verdicts

        for host, verdicts in enumerate(hosts.gather(collect_share)):
            # With fewer problems than hosts, some hosts judge none.
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
        return self._texts.tolist(), _pay_failures(verdicts)

    def _collect_verdicts(self) -> dict[str, Any]:
        """Waits for this host's verdicts and returns them."""
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
        # This waits for these responses, but not for later decoding.
        tokens, lengths = jax.device_get((ended.tokens, ended.lengths))
        count = len(ended.problems)
        texts = tokenizers.decode_responses(
            self._tokenizer, tokens[:count, None], lengths[:count, None]
        )
        self._texts[ended.problems, ended.rollouts] = [row[0] for row in texts]
        local_problems = np.arange(len(self._problems))[_share(jax.process_index())]
        rows = np.flatnonzero(np.isin(ended.problems, local_problems))
        if not rows.size:
            return
        places = ended.problems[rows], ended.rollouts[rows]
        verdicts = self._task.verify(
            [self._problems[p] for p in places[0]], [texts[row] for row in rows]
        )
        check_verdicts(verdicts, type(self._task).verify, (len(rows), 1))
        self._keep(
            places,
            rewards=verdicts.rewards[:, 0],
            correct=verdicts.correct[:, 0],
            parsed=[row[0] for row in verdicts.parsed],
            failures={kind: failed[:, 0] for kind, failed in verdicts.failures.items()},
        )


def any_failure(verdicts: Verdicts) -> Bool[np.ndarray, 'P N']:
    """Returns the responses that are wrong because the verifier failed."""
    failed = np.zeros_like(verdicts.correct)
    return functools.reduce(np.logical_or, verdicts.failures.values(), failed)


def _pay_failures(verdicts: Verdicts) -> Verdicts:
    """Gives a failure no more than any other response to its problem.

    Where rewards are below 0, a failure's 0 would be worth more.
    """
    failed = any_failure(verdicts)
    lowest = np.where(failed, np.inf, verdicts.rewards).min(axis=1, keepdims=True)
    most = np.minimum(verdicts.rewards, lowest)
    rewards = np.where(failed, most, verdicts.rewards)
    return dataclasses.replace(verdicts, rewards=rewards)


def _share(host: int) -> slice:
    """Returns the problems of a batch that a host judges."""
    return slice(host, None, jax.process_count())


@dataclasses.dataclass(frozen=True)
class Sampled:
    """Rollouts on the devices, and their running verification."""

    rollouts: Rollouts
    verification: Verification


@dataclasses.dataclass(frozen=True)
class Responses:
    """The host's view of a batch of rollouts.

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
        task: judges responses.
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
        begin_phase: Callable[[str, int], None] = lambda phase, step: None,
    ) -> Responses:
        """Waits for the verdicts on a batch.

        Args:
            sampled: from :class:`~passk_jax.rollouts.sample.Sample`; its verification
                ends.
            step: the training step, for messages.
            begin_phase: called with the step and ``'verify'``, then ``'gather'`` once
                this host has judged its share.

        Raises:
            ValueError, Exception: see :meth:`Verification.finish`.
        """
        gathers = functools.partial(begin_phase, 'gather', step)
        with sampled.verification as verification:
            begin_phase('verify', step)
            figures = hosts.fetch(_figures(sampled.rollouts))
            texts, verdicts = verification.finish(step=step, on_judged=gathers)
        return Responses(
            prompt_lengths=figures['prompt_lengths'],
            lengths=figures['lengths'],
            stopped=figures['stopped'],
            mean_entropies=figures['mean_entropies'],
            mean_log_probs=figures['mean_log_probs'],
            texts=texts,
            verdicts=verdicts,
        )


def answer_ids(parsed: Sequence[Sequence[str]]) -> np.ndarray:
    """Numbers the answers to each problem; equal answers get equal numbers.

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


def _without_infinity(value: Any) -> Any:
    """Writes infinite numbers of a problem's data as text, which JSON can have."""
    if isinstance(value, Mapping):
        return {key: _without_infinity(x) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinity(x) for x in value]
    return str(value) if isinstance(value, float) and np.isinf(value) else value


def records(
    problems: Sequence[Problem],
    responses: Responses,
    *,
    step: int,
    advantages: np.ndarray,
    rewarded: np.ndarray,
) -> list[dict[str, Any]]:
    """Makes one readable JSON record per rollout.

    ``reward`` is what the response is worth before Noise Rewards. Where ``rewarded``
    differs from ``correct``, Noise Rewards flipped it. The first record of a problem
    has thumbnails of its pictures.
    """
    return [
        {
            'step': step,
            'problem_id': problem.id,
            'category': problem.category,
            'prompt': problem.prompt,
            'data': _without_infinity(problem.data),
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
            **({} if n else _pictures(problem)),
        }
        for p, problem in enumerate(problems)
        for n in range(responses.lengths.shape[1])
    ]


def _pictures(problem: Problem) -> dict[str, list[str]]:
    return {'pictures': [*map(thumbnail, problem.images)]} if problem.images else {}
