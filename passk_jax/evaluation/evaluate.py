"""The verb *evaluate*: unbiased Pass@k with intervals, on any split.

The training loop and ``python -m passk_jax.evaluate`` share it. For every problem it
records n, c, and the parsed answer and correctness of each response. Any pass@k, maj@k
or pass^k with k <= n can be computed from these later, without sampling again. It also
records a sample of whole responses.
"""

import collections
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from absl import logging

from passk_jax.config import EvalConfig
from passk_jax.data.batches import EvaluationBatches
from passk_jax.evaluation import majority, metrics
from passk_jax.models.policy import Params
from passk_jax.rollouts.sample import Sample
from passk_jax.rollouts.signal import Example, explain_missing_signal, has_answer
from passk_jax.rollouts.verify import Responses
from passk_jax.runs.progress import Progress
from passk_jax.runtime.allocator import return_freed_memory
from passk_jax.sampling import Purpose, RunKeys
from passk_jax.types import Problem
from passk_jax.verifiers.pool import CRASH, PARSE_FAILURE, TIMEOUT

Record = dict[str, Any]

_SILENT_SECONDS = 30.0


class EvaluationResult(NamedTuple):
    """Metrics (see :func:`summarize`), and a record of each problem."""

    metrics: dict[str, float]
    records: list[Record]


class _StoppedError(Exception):
    """``stop`` ended an evaluation."""


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """The verb ``evaluate(params, batches, split=split, step=step)``.

    Attributes:
        sample: samples with the evaluation's options, and verifies.
        config: the evaluation's configuration.
        keys: random keys of the run; responses depend on them, the split and the step.
    """

    sample: Sample
    config: EvalConfig
    keys: RunKeys

    @overload
    def __call__(
        self, params: Params, batches: EvaluationBatches, *, split: str, step: int
    ) -> EvaluationResult: ...

    @overload
    def __call__(
        self,
        params: Params,
        batches: EvaluationBatches,
        *,
        split: str,
        step: int,
        stop: Callable[[], bool],
        on_progress: Callable[[], None] = ...,
    ) -> EvaluationResult | None: ...

    def __call__(
        self,
        params: Params,
        batches: EvaluationBatches,
        *,
        split: str,
        step: int,
        stop: Callable[[], bool] = lambda: False,
        on_progress: Callable[[], None] = lambda: None,
    ) -> EvaluationResult | None:
        """Samples responses to every problem and verifies them.

        It shows its progress from half a minute on.

        Args:
            params: the policy's parameters.
            batches: the split's problems in order.
            split: the split's name.
            step: the training step of these parameters.
            stop: called before every batch, and within one as in
                :class:`~passk_jax.rollouts.sample.Sample`; ``True`` stops the
                evaluation.
            on_progress: called in the same places if the evaluation goes on.

        Returns:
            Metrics and records; ``None`` if ``stop`` returned ``True``.
        """

        def go_on() -> None:
            if stop():
                raise _StoppedError
            on_progress()

        try:
            rows, failures = self._record(
                params, batches, go_on, split=split, step=step
            )
        except _StoppedError:
            return None
        samples = self.config.bootstrap_samples
        values = summarize(rows, seed=self.keys.seed, bootstrap_samples=samples)
        # No mean includes the dropped prompts, which are over the limit.
        values['num_dropped'] = float(batches.num_dropped)
        # Shares of all responses.
        total = batches.num_problems * self.config.num_responses
        values |= {f'verifier_{kind}': n / total for kind, n in failures.items()}
        return EvaluationResult(values, rows)

    def _record(
        self,
        params: Params,
        batches: EvaluationBatches,
        go_on: Callable[[], None],
        *,
        split: str,
        step: int,
    ) -> tuple[list[Record], collections.Counter[str]]:
        """Returns a record of each problem, and how often the verifier failed, by kind.

        An error that ``go_on`` raises ends it.
        """
        key = self.keys.key(Purpose.EVALUATION, step, split=split)
        total = batches.num_problems * self.config.num_responses
        recorded_indices = _spread(min(self.config.kept_responses, total), total)
        rows: list[Record] = []
        failures: collections.Counter[str] = collections.Counter()
        with Progress(
            batches.num_problems,
            initial=0,
            description=f'evaluating {split}',
            silent_seconds=_SILENT_SECONDS,
        ) as progress:
            for batch, valid in batches:
                go_on()
                sampled = self.sample(params, batch, key=key, on_progress=go_on)
                responses = self.sample.verify(sampled, step=step)
                for kind, failed in responses.verdicts.failures.items():
                    failures[kind] += int(failed[:valid].sum())
                problems, first = batch.problems[:valid], len(rows)
                rows += _records(problems, responses, first, recorded_indices)
                progress.update(len(rows))
                return_freed_memory()
        return rows, failures


def _spread(count: int, total: int) -> set[int]:
    """Selects ``count`` of ``total`` numbers, evenly spaced, from 0 on."""
    return {i * total // count for i in range(count)}


def _digest(problem: Problem) -> str:
    """Computes the digest that identifies a problem by its data and category.

    It ignores the prompt, and ``id``, a benchmark's number of the problem.
    """
    data = {key: value for key, value in problem.data.items() if key != 'id'}
    # JSON turns keys into text first: keys of several types cannot be sorted.
    plain = json.loads(json.dumps([data, problem.category]))
    text = json.dumps(plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _mean_entropies(responses: Responses) -> list[float]:
    pairs = zip(responses.mean_entropies, responses.lengths, strict=True)
    return [float(np.average(values, weights=tokens)) for values, tokens in pairs]


def _mean_lengths(responses: Responses, chosen: np.ndarray) -> np.ndarray:
    """Averages lengths over chosen responses; NaN for a problem without any."""
    counts = chosen.sum(axis=1)
    sums = (responses.lengths * chosen).sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


@dataclasses.dataclass(frozen=True)
class ProblemMetric:
    """A row of :data:`PROBLEM_METRICS`.

    Attributes:
        compute: maps responses to P problems to ``[P]`` values, NaN where undefined.
        over_tokens: whether the mean weights a problem by its response tokens.
    """

    compute: Callable[[Responses], Sequence[float] | np.ndarray]
    over_tokens: bool = False


PROBLEM_METRICS: dict[str, ProblemMetric] = {
    # Pass@1, unless rewards are numbers.
    'reward': ProblemMetric(lambda responses: responses.verdicts.rewards.mean(axis=1)),
    # The paper's metric: distinct wrong answers as a share of all wrong responses;
    # undefined if none is wrong. It rises as fewer are wrong, even for equal answers.
    'answer_diversity': ProblemMetric(
        lambda responses: metrics.answer_diversity(
            responses.verdicts.parsed, responses.verdicts.correct
        )
    ),
    # Distinct answers among 4 wrong responses; undefined if fewer are wrong.
    'rarefied_diversity': ProblemMetric(
        lambda responses: metrics.rarefied_diversity(
            responses.verdicts.parsed, responses.verdicts.correct
        )
    ),
    # In nats, averaged over all tokens, as in training.
    'entropy': ProblemMetric(_mean_entropies, over_tokens=True),
    # In tokens, with the stop token.
    'response_length': ProblemMetric(lambda responses: responses.lengths.mean(axis=1)),
    'response_length_right': ProblemMetric(
        lambda responses: _mean_lengths(responses, responses.verdicts.correct)
    ),
    'response_length_wrong': ProblemMetric(
        lambda responses: _mean_lengths(responses, ~responses.verdicts.correct)
    ),
    # The share of responses without an answer. A verifier failure counts as an answer.
    'no_answer': ProblemMetric(
        lambda responses: 1.0 - has_answer(responses.verdicts.parsed).mean(axis=1)
    ),
    # The share of responses that end with a stop token, not at the limit.
    'stopped': ProblemMetric(lambda responses: responses.stopped.mean(axis=1)),
}
"""Metrics that an evaluation records for each problem, by name.

Add a metric by a function and a row here. The evaluation reports its mean over the
problems where it is defined.
"""


ANSWER_METRICS: dict[
    str, Callable[[list[list[str]], np.ndarray], dict[Any, np.ndarray]]
] = {
    # Whether the most frequent of k answers is right.
    'maj_at': majority.maj_at_powers,
    # Whether all k responses are right: pass^k.
    'pass_hat': lambda _, correct: {
        k: metrics.pass_hat_k(correct.shape[1], correct.sum(axis=1), k=k)
        for k in metrics.powers_of_two(correct.shape[1])
    },
    # Whether at least this share of the responses is right.
    'cover_at': lambda _, correct: {
        tau: metrics.cover_at(correct.shape[1], correct.sum(axis=1), tau=tau)
        for tau in (0.25, 0.5, 0.6, 0.75, 1.0)
    },
}
"""Metrics computed from the recorded answers, by name.

A function takes the answers ``[P][N]`` and whether they are correct, ``[P, N]``. It
returns ``[P]`` values for each setting, whose mean is ``<name>_<setting>``.
"""


def metric_names(num_responses: int) -> set[str]:
    """Returns the names of an evaluation's metrics, without those of categories.

    It includes the verifier's failures, which only tasks with the shared pool of
    verifiers report.
    """
    names = {x for x in _name_metrics(num_responses, ['']) if '/' not in x}
    failures = {f'verifier_{kind}' for kind in (TIMEOUT, CRASH, PARSE_FAILURE)}
    return names | {'num_dropped'} | failures


def category_metric_names(num_responses: int, categories: Iterable[str]) -> list[str]:
    """Returns the names of an evaluation's metrics of categories, in their order."""
    return [x for x in _name_metrics(num_responses, categories) if '/' in x]


def _name_metrics(num_responses: int, categories: Iterable[str]) -> list[str]:
    """Names the metrics of an evaluation of a problem of each category."""
    one = {'n': num_responses, 'c': 0, 'response_length': 1.0}
    one |= {'correct': [False] * num_responses, 'parsed': [''] * num_responses}
    one = dict.fromkeys(PROBLEM_METRICS, 1.0) | one
    rows = [one | {'category': category} for category in categories]
    return list(summarize(rows, seed=0, bootstrap_samples=1))


def warn_of_missing_signal(name: str, records: Sequence[Record]) -> None:
    """Warns if all responses of an evaluation are wrong, or most lack an answer.

    It does not where unsolved problems have different rewards, which are a signal.

    Args:
        name: the evaluation's name, for the message.
        records: the records of its problems.
    """
    examples = [
        Example(text, row['parsed'][int(number)], row.get('stopped', 1.0))
        for row in records
        for number, text in row.get('responses', {}).items()
    ]
    answers = [row['parsed'] for row in records]
    of_unsolved = {row.get('reward') for row in records if not any(row['correct'])}
    if len(of_unsolved) > 1:
        return
    first = answers[0][0]
    message = explain_missing_signal(
        np.array([row['correct'] for row in records], bool),
        answers,
        stopped=float(np.mean([row.get('stopped', 1.0) for row in records])),
        examples=examples or [Example(first, first, 1.0)],
    )
    if message:
        logging.warning('%s: %s', name, message)


def _records(
    problems: Sequence[Problem],
    responses: Responses,
    first: int,
    recorded_indices: set[int],
) -> list[Record]:
    """Makes the records of a batch, whose first problem has the number ``first``.

    ``recorded_indices`` selects the responses to record as text, by their numbers in
    the whole evaluation.
    """
    correct, parsed = responses.verdicts.correct, responses.verdicts.parsed
    num_responses = correct.shape[1]
    values = {name: row.compute(responses) for name, row in PROBLEM_METRICS.items()}
    return [
        {
            'problem_id': problem.id,
            'problem_digest': _digest(problem),
            'category': problem.category,
            'n': num_responses,
            'c': int(correct[p].sum()),
            'parsed': parsed[p],
            'correct': correct[p].tolist(),
            # Texts by the number of the response.
            'responses': {
                str(i): responses.texts[p][i]
                for i in range(num_responses)
                if (first + p) * num_responses + i in recorded_indices
            },
            **{
                name: None if np.isnan(of_problem[p]) else float(of_problem[p])
                for name, of_problem in values.items()
            },
        }
        for p, problem in enumerate(problems)
    ]


def summarize(
    rows: list[Record], *, seed: int, bootstrap_samples: int
) -> dict[str, float]:
    """Averages the records over problems.

    Returns:
        ``pass_at_{k}`` with ``_low`` and ``_high`` (95 % bootstrap over problems) for
        every k = 2^i <= n; ``{category}/pass_at_{k}`` for the smallest and the largest
        k, also for each part of a mixture; the means of :data:`ANSWER_METRICS`; and
        those of :data:`PROBLEM_METRICS` that are defined for at least one problem.
    """
    n, c, correct = (np.array([row[x] for row in rows]) for x in ('n', 'c', 'correct'))
    parsed = [row['parsed'] for row in rows]
    values: dict[str, float] = {'num_problems': float(len(rows))}
    by_k = metrics.pass_at_powers(n, c)
    for k, per_problem in by_k.items():
        low, high = metrics.bootstrap_interval(
            per_problem, seed=seed, num_samples=bootstrap_samples
        )
        values[f'pass_at_{k}'] = float(per_problem.mean())
        values[f'pass_at_{k}_low'] = low
        values[f'pass_at_{k}_high'] = high
    for name, mask in metrics.mask_by_category(
        [row['category'] for row in rows]
    ).items():
        for k in (min(by_k), max(by_k)):
            values[f'{name}/pass_at_{k}'] = float(by_k[k][mask].mean())
    for name, compute in ANSWER_METRICS.items():
        for setting, per_problem in compute(parsed, correct).items():
            values[f'{name}_{setting}'] = float(per_problem.mean())
    for name, metric in PROBLEM_METRICS.items():
        if defined := [row for row in rows if row[name] is not None]:
            tokens = [row['n'] * row['response_length'] for row in defined]
            weights = tokens if metric.over_tokens else None
            mean = np.average([row[name] for row in defined], weights=weights)
            values[name] = float(mean)
    return values
