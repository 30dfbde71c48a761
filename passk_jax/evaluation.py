"""The verb *evaluate*: unbiased pass@k with intervals, on any split.

The training loop and the command ``python -m passk_jax.evaluate`` share it. Of every
problem it keeps n, the number of responses, and c, how many are correct: any pass@k
with k <= n can be computed from them later, without sampling again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from passk_jax import metrics
from passk_jax.config import EvalConfig
from passk_jax.data import EvaluationBatches
from passk_jax.models.policy import Params
from passk_jax.rollouts.sample_and_verify import Responses, Sampled, verify
from passk_jax.sampling import Purpose, step_key
from passk_jax.types import Problem

Record = dict[str, Any]


def evaluate(
    params: Params,
    batches: EvaluationBatches,
    *,
    sample: Callable[..., Sampled],
    config: EvalConfig,
    seed: int,
    split: str,
    step: int,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, float], list[Record]] | None:
    """Samples responses to every problem and verifies them.

    Args:
        params: the policy's parameters.
        batches: the split's problems in order.
        sample: ``(params, problems, prompts, *, key)``, as ``Setup.sampler`` makes it.
        config: how to evaluate.
        seed: of the experiment; it addresses the random keys.
        split: the split's name; it addresses them too.
        step: the training step of these parameters; it addresses them too.
        stop: asked before every batch.

    Returns:
        Metrics (see :func:`summarize`) and one record a problem with its (n, c);
        ``None`` if told to stop.
    """
    key = step_key(seed=seed, purpose=Purpose.EVALUATION, step=step, split=split)
    rows: list[Record] = []
    for problems, prompts, valid in batches:
        if stop():
            return None
        responses = verify(sample(params, problems, prompts, key=key), step=step)
        rows.extend(_records(problems[:valid], responses))
    values = summarize(rows, seed=seed, bootstrap_samples=config.bootstrap_samples)
    # No mean includes a prompt over the limit: show how many there were.
    values['num_dropped'] = float(batches.num_dropped)
    return values, rows


def _records(problems: Sequence[Problem], responses: Responses) -> list[Record]:
    verdicts = responses.verdicts
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
                np.average(responses.mean_entropies[p], weights=responses.lengths[p])
            ),
            'response_length': float(responses.lengths[p].mean()),
            'stopped': float(responses.stopped[p].mean()),
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
