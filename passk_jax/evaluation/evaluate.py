"""The verb *evaluate*: unbiased pass@k with intervals, on any split.

The training loop and the command ``python -m passk_jax.evaluate`` share it. For every
problem it keeps the parsed answer of each response and whether it is correct, and their
numbers n and c. They are enough to compute any pass@k, maj@k or pass^k with k <= n
later, without sampling again. It also keeps a sample of whole responses.
"""

import collections
import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from absl import logging

from passk_jax.config import EvalConfig
from passk_jax.data.batches import EvaluationBatches
from passk_jax.evaluation import majority, metrics
from passk_jax.models.policy import Params
from passk_jax.rollouts.sample import Sample
from passk_jax.rollouts.signal import explain_missing_signal, has_answer
from passk_jax.rollouts.verify import Responses
from passk_jax.sampling import Purpose, RunKeys
from passk_jax.types import Problem
from passk_jax.verifiers.pool import CRASH, PARSE_FAILURE, TIMEOUT

Record = dict[str, Any]


class EvaluationResult(NamedTuple):
    """Metrics (see :func:`summarize`), and a record of each problem's answers."""

    metrics: dict[str, float]
    records: list[Record]


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """The verb ``evaluate(params, batches, split=split, step=step)``.

    Attributes:
        sample: samples with the options of evaluation, and verifies.
        config: how to evaluate.
        keys: of the run; responses depend on them, the split and the step.
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
    ) -> EvaluationResult | None: ...

    def __call__(
        self,
        params: Params,
        batches: EvaluationBatches,
        *,
        split: str,
        step: int,
        stop: Callable[[], bool] = lambda: False,
    ) -> EvaluationResult | None:
        """Samples responses to every problem and verifies them.

        Args:
            params: the policy's parameters.
            batches: the split's problems in order.
            split: its name.
            step: the training step of these parameters.
            stop: asked before every batch whether to stop.

        Returns:
            Metrics and records; ``None`` if ``stop`` said so.
        """
        config = self.config
        key = self.keys.key(Purpose.EVALUATION, step, split=split)
        # Evenly spaced responses, in the order of the problems.
        total = batches.num_problems * config.num_responses
        count = min(config.kept_responses, total)
        kept_indices = {i * total // count for i in range(count)}
        rows: list[Record] = []
        failures: collections.Counter[str] = collections.Counter()
        for batch, valid in batches:
            if stop():
                return None
            sampled = self.sample(params, batch, key=key)
            responses = self.sample.verify(sampled, step=step)
            for kind, failed in responses.verdicts.failures.items():
                failures[kind] += int(failed[:valid].sum())
            problems = batch.problems[:valid]
            rows.extend(
                _records(
                    problems, responses, first=len(rows), kept_indices=kept_indices
                )
            )
        samples = config.bootstrap_samples
        values = summarize(rows, seed=self.keys.seed, bootstrap_samples=samples)
        # No mean includes a prompt over the limit, so say how many there were.
        values['num_dropped'] = float(batches.num_dropped)
        # Shares of all responses.
        values |= {f'verifier_{kind}': n / total for kind, n in failures.items()}
        return EvaluationResult(values, rows)


def _digest(problem: Problem) -> str:
    """Tells whether two evaluations are of one problem, whatever their prompts.

    Nor does the number count that a benchmark gives its problem.
    """
    data = {key: value for key, value in problem.data.items() if key != 'id'}
    # Keys are text before they are sorted: those of several types have no order.
    plain = json.loads(json.dumps([data, problem.category]))
    text = json.dumps(plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _mean_entropies(responses: Responses) -> list[float]:
    pairs = zip(responses.mean_entropies, responses.lengths, strict=True)
    return [float(np.average(values, weights=tokens)) for values, tokens in pairs]


def _mean_lengths(responses: Responses, chosen: np.ndarray) -> np.ndarray:
    """NaN for a problem without a chosen response."""
    counts = chosen.sum(axis=1)
    sums = (responses.lengths * chosen).sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


@dataclasses.dataclass(frozen=True)
class ProblemMetric:
    """A row of :data:`PROBLEM_METRICS`.

    Attributes:
        compute: responses to P problems -> ``[P]`` values, NaN where undefined.
        over_tokens: whether the mean weights each problem by its response tokens.
    """

    compute: Callable[[Responses], Sequence[float] | np.ndarray]
    over_tokens: bool = False


PROBLEM_METRICS: dict[str, ProblemMetric] = {
    # The paper's: distinct wrong answers as a share of all wrong ones; undefined
    # without any. It rises as fewer are wrong, whatever their answers.
    'answer_diversity': ProblemMetric(
        lambda responses: metrics.answer_diversity(
            responses.verdicts.parsed, responses.verdicts.correct
        )
    ),
    # Distinct answers among 4 wrong responses; undefined with fewer wrong ones.
    'rarefied_diversity': ProblemMetric(
        lambda responses: metrics.rarefied_diversity(
            responses.verdicts.parsed, responses.verdicts.correct
        )
    ),
    # In nats, over all tokens, as in training.
    'entropy': ProblemMetric(_mean_entropies, over_tokens=True),
    # In tokens, the stop token included.
    'response_length': ProblemMetric(lambda responses: responses.lengths.mean(axis=1)),
    'response_length_right': ProblemMetric(
        lambda responses: _mean_lengths(responses, responses.verdicts.correct)
    ),
    'response_length_wrong': ProblemMetric(
        lambda responses: _mean_lengths(responses, ~responses.verdicts.correct)
    ),
    # The share without an answer: what a verifier fails on has one.
    'no_answer': ProblemMetric(
        lambda responses: 1.0 - has_answer(responses.verdicts.parsed).mean(axis=1)
    ),
    # The share that a stop token ended, not the limit.
    'stopped': ProblemMetric(lambda responses: responses.stopped.mean(axis=1)),
}
"""What an evaluation records of a problem besides its answers, by name.

A new metric is one function and one row here. Its mean over the problems where it is
defined is a metric of the evaluation.
"""


ANSWER_METRICS: dict[
    str, Callable[[list[list[str]], np.ndarray], dict[Any, np.ndarray]]
] = {
    # The most frequent of k answers is right.
    'maj_at': majority.maj_at_powers,
    # All of k responses are right: pass^k.
    'pass_hat': lambda _, correct: {
        k: metrics.pass_hat_k(correct.shape[1], correct.sum(axis=1), k=k)
        for k in metrics.powers_of_two(correct.shape[1])
    },
    # At least this share of all responses is right.
    'cover_at': lambda _, correct: {
        tau: metrics.cover_at(correct.shape[1], correct.sum(axis=1), tau=tau)
        for tau in (0.25, 0.5, 0.75, 1.0)
    },
}
"""What an evaluation computes from the recorded answers, by name.

A row takes answers ``[P][N]``, and whether they are correct, ``[P, N]``. Its ``[P]``
values for a setting have the metric ``<name>_<setting>`` as their mean.
"""


def metric_names(num_responses: int) -> set[str]:
    """What :class:`Evaluate` measures, without the metrics of single categories.

    The failures of a verifier are those of the shared pool, which not every task uses.
    """
    one = {'category': '', 'n': num_responses, 'c': 0, 'response_length': 1.0}
    one |= {'correct': [False] * num_responses, 'parsed': [''] * num_responses}
    one = dict.fromkeys(PROBLEM_METRICS, 1.0) | one
    names = summarize([one], seed=0, bootstrap_samples=1).keys() | {'num_dropped'}
    names |= {f'verifier_{kind}' for kind in (TIMEOUT, CRASH, PARSE_FAILURE)}
    return {name for name in names if '/' not in name}


def warn_of_missing_signal(name: str, records: Sequence[Record]) -> None:
    """Warns if the responses of an evaluation are all wrong, or mostly without answers.

    Args:
        name: of the evaluation, for the message.
        records: of its problems.
    """
    texts = [text for row in records for text in row.get('responses', {}).values()]
    message = explain_missing_signal(
        np.array([row['correct'] for row in records], bool),
        [row['parsed'] for row in records],
        stopped=float(np.mean([row.get('stopped', 1.0) for row in records])),
        example=texts[0] if texts else records[0]['parsed'][0],
    )
    if message:
        logging.warning('%s: %s', name, message)


def _records(
    problems: Sequence[Problem],
    responses: Responses,
    *,
    first: int,
    kept_indices: set[int],
) -> list[Record]:
    """Records of problems number ``first`` and up.

    Among all responses, those of ``kept_indices`` have their texts in the records.
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
            # Whole texts, by the number of the response.
            'responses': {
                str(i): responses.texts[p][i]
                for i in range(num_responses)
                if (first + p) * num_responses + i in kept_indices
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
    """Means over problems.

    Returns:
        ``pass_at_{k}`` with ``_low`` and ``_high`` (95 % bootstrap over problems) for
        every k = 2^i <= n; ``{category}/pass_at_{k}`` for the smallest and the largest
        k, also of the parts of a mixture; those of :data:`ANSWER_METRICS`; and those of
        :data:`PROBLEM_METRICS` that are defined for any problem.
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
