"""Evaluation: unbiased pass@k with intervals, a problem at a time, on any split.

It serves the training loop and the command ``python -m passk_jax.evaluate``.

The number right of the number drawn, (n, c), is kept for every problem, so any pass@k
with k <= n can be had later without sampling again.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from passk_jax import data, metrics, sampling
from passk_jax.data import EvaluationBatches
from passk_jax.models.policy import Params
from passk_jax.rollouts import sample_and_verify
from passk_jax.setup import Setup
from passk_jax.types import Problem

Record = dict[str, Any]


def evaluate(
    setup: Setup,
    params: Params,
    batches: EvaluationBatches,
    *,
    split: str,
    step: int,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, float], list[Record]] | None:
    """Samples responses to every problem and verifies them.

    Args:
        setup: the run's fixed parts.
        params: the policy's parameters.
        batches: the split's problems in order.
        split: its name; together with ``step`` it addresses the sampling keys.
        step: the training step of these parameters.
        stop: asked before every batch.

    Returns:
        Metrics (see :func:`summarize`) and one record a problem with its (n, c);
        ``None`` if told to stop.
    """
    config = setup.config.eval
    key = sampling.step_key(
        seed=setup.config.seed,
        purpose=sampling.Purpose.EVALUATION,
        step=step,
        split=split,
    )
    rows: list[Record] = []
    for problems, prompts, valid in batches:
        if stop():
            return None
        _, answers = sample_and_verify.answer(
            setup,
            params,
            problems,
            prompts,
            key=key,
            step=step,
            num_rollouts=config.num_responses,
            max_response_tokens=setup.config.sampling.max_response_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=config.top_k,
            max_cache_bytes=setup.config.sampling.max_cache_bytes,
        )
        rows.extend(_records(problems[:valid], answers))
    values = summarize(
        rows, seed=setup.config.seed, bootstrap_samples=config.bootstrap_samples
    )
    # A prompt over the limit is in no mean: its absence must be seen beside them.
    values['num_dropped'] = float(batches.num_dropped)
    return values, rows


def _records(
    problems: list[Problem], answers: sample_and_verify.Answers
) -> list[Record]:
    verdicts = answers.verdicts
    diversity = metrics.answer_diversity(verdicts.parsed, verdicts.correct)
    return [
        {
            'problem_id': problem.id,
            'category': problem.category,
            'n': int(verdicts.correct[p].size),
            'c': int(verdicts.correct[p].sum()),
            # Undefined where no response is wrong.
            'answer_diversity': None if np.isnan(diversity[p]) else diversity[p],
            'entropy': float(
                np.average(answers.mean_entropies[p], weights=answers.lengths[p])
            ),
            'response_length': float(answers.lengths[p].mean()),
            'stopped': float(answers.stopped[p].mean()),
        }
        for p, problem in enumerate(problems)
    ]


def summarize(
    rows: list[Record], *, seed: int, bootstrap_samples: int
) -> dict[str, float]:
    """Means over problems.

    Returns:
        ``pass_at_{k}`` with ``_low`` and ``_high`` (95 % bootstrap over problems) for
        every k = 2^i <= n; ``entropy`` (nats, the mean over all tokens as in
        training), ``answer_diversity`` (of wrong responses, over the problems that
        have any), ``response_length`` (tokens),
        ``stopped`` (share ended by a stop token), and ``{category}/pass_at_{k}`` for
        the smallest and the largest k.
    """
    n = np.array([row['n'] for row in rows])
    c = np.array([row['c'] for row in rows])
    categories = np.array([row['category'] for row in rows])
    values: dict[str, float] = {'num_problems': float(len(rows))}
    by_k = metrics.pass_at_powers(n, c)
    for k, per_problem in by_k.items():
        low, high = metrics.bootstrap_interval(
            per_problem, seed=seed, num_samples=bootstrap_samples
        )
        values[f'pass_at_{k}'] = float(per_problem.mean())
        values[f'pass_at_{k}_low'] = low
        values[f'pass_at_{k}_high'] = high
    for category in sorted(set(categories)):
        for k in (min(by_k), max(by_k)):
            mean = by_k[k][categories == category].mean()
            values[f'{category}/pass_at_{k}'] = float(mean)
    for name in ('response_length', 'stopped'):
        values[name] = float(np.mean([row[name] for row in rows]))
    tokens = [row['n'] * row['response_length'] for row in rows]
    entropies = [row['entropy'] for row in rows]
    values['entropy'] = float(np.average(entropies, weights=tokens))
    diverse = [r['answer_diversity'] for r in rows if r['answer_diversity'] is not None]
    if diverse:
        values['answer_diversity'] = float(np.mean(diverse))
    return values


def evaluation_batches(setup: Setup, split: str) -> EvaluationBatches:
    """The problems of a split in order, each once.

    Raises:
        ValueError: no such split, or it is empty.
    """
    config = setup.config
    return data.evaluation_batches(
        setup.task.source(split, data_dir=config.data.dir),
        setup.encode,
        batch_size=config.eval.batch_size,
        num_problems=config.eval.num_problems,
        max_prompt_tokens=config.data.max_prompt_tokens,
        overlong=config.data.overlong,
    )
