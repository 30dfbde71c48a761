"""What a training run says of itself as it goes: one object that the loop tells.

Metrics of every step and evaluation, whole rollouts now and then, timings, progress,
and the report. Nothing here changes the run.

What is said of the policy (``reward``, ``pass_at_1``, ...) is of the step's own
problems, which nothing has selected: it is the same thing with dynamic sampling and
without. Of the batch that is trained on are the learner's figures, the rollouts that
are kept and, with dynamic sampling, the same values once more: ``trained_reward``,
``trained_pass_at_1``, ... Then there is ``sampling_draws`` too: how often problems were
drawn, 1 if no more than the step's own. ``tokens_per_second`` counts all draws.
"""

import functools
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from passk_jax import config as configs
from passk_jax import metrics
from passk_jax.config import ExperimentConfig
from passk_jax.learning import learner
from passk_jax.report.write import write_curves, write_report
from passk_jax.rollouts import sample_and_verify
from passk_jax.rollouts.dynamic_sampling import (
    Draw,
    Draws,
    has_signal,
    trained_responses,
)
from passk_jax.runs.metric_writer import MetricWriter
from passk_jax.runs.progress import Progress
from passk_jax.setup import Setup
from passk_jax.types import Problem


class RunLog:
    """Metrics, rollouts, timings and progress of a run; a context manager.

    The learner's metrics of a step are read when the next step is under way, so that
    the device never waits for the host; :meth:`flush` reads them at once.

    Args:
        setup: the run's fixed parts.
        workdir: the run directory.
        start: the first step.
    """

    def __init__(self, setup: Setup, workdir: pathlib.Path, start: int):
        config = setup.config
        self._config = config
        self._workdir = workdir
        self._writer = MetricWriter(
            workdir,
            tensorboard=config.log.tensorboard,
            wandb_project=config.log.wandb_project,
            resume_step=start,
            config=configs.to_dict(config),
        )
        self._progress = Progress(
            config.train.steps, initial=start, description=config.name
        )
        self._pending: Callable[[], None] = lambda: None
        self._shown: dict[str, float] = {}
        self._report_is_old = False
        self._clock = time.monotonic()

    def __enter__(self) -> 'RunLog':
        self._progress.__enter__()
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        self._progress.__exit__(kind, *exception)
        try:
            self._report()
        except ValueError:
            # A report that cannot be written must not hide why the run ended.
            if kind is None:
                raise
        finally:
            self._writer.close()

    def flush(self) -> None:
        """Writes what is pending."""
        pending, self._pending = self._pending, lambda: None
        pending()

    def step(self, step: int, draws: Draws, step_metrics: learner.Metrics) -> None:
        """Takes the figures of a step just dispatched; writes those of the one before.

        Raises:
            FloatingPointError: the loss of the step before was not finite.
        """
        self.flush()
        self._pending = functools.partial(self._write_step, step, draws, step_metrics)

    def evaluation(
        self, step: int, split: str, values: dict[str, float], rows: list[Any]
    ) -> None:
        """Writes an evaluation, and the report as it stands."""
        self._writer.write(step, values, split=split)
        self._writer.write_evaluation(split, step, rows)
        largest = 2 ** (self._config.eval.num_responses.bit_length() - 1)
        shown = sorted({1, largest})
        self._shown = {f'eval_pass_at_{k}': values[f'pass_at_{k}'] for k in shown}
        self._report_is_old = True
        self._report()
        self._clock = time.monotonic()

    def _report(self) -> None:
        if self._report_is_old and jax.process_index() == 0:
            write_curves(self._workdir)
            write_report(self._workdir)
        self._report_is_old = False

    def _write_step(
        self, step: int, draws: Draws, step_metrics: learner.Metrics
    ) -> None:
        trained = draws.trained
        values = sample_and_verify.fetch(step_metrics)
        check_finite(values, trained.problems, step)
        del values['problem_loss'], values['finite_updates']
        values |= batch_metrics(self._config, draws.first)
        if self._config.train.dynamic_sampling_rounds:
            of_trained = batch_metrics(self._config, trained)
            values |= {f'trained_{name}': value for name, value in of_trained.items()}
            values['sampling_draws'] = float(draws.count)
        self._writer.write(step, values, split='train')
        self._report_is_old = True
        every = self._config.log.rollouts_every
        if every and step % every == 0:
            rows = sample_and_verify.records(
                trained.problems,
                trained.answers,
                step=step,
                advantages=sample_and_verify.fetch(trained.advantages),
            )
            self._writer.write_rollouts(step, rows)
        seconds = time.monotonic() - self._clock
        self._clock = time.monotonic()
        tokens_per_second = draws.num_tokens / seconds
        self._writer.write_timing(
            step, {'seconds': seconds, 'tokens_per_second': tokens_per_second}
        )
        self._progress.update(
            step + 1,
            reward=values['reward'],
            **self._shown,
            entropy=float(values['entropy']),
            tokens_per_second=tokens_per_second,
        )


def check_finite(
    values: learner.Metrics, problems: Sequence[Problem], step: int
) -> None:
    """Stops a run whose loss or gradient is no number any more.

    Raises:
        FloatingPointError: with the step and the problems it came from.
    """
    finite = values['finite_updates']
    if finite.all():
        return
    # Later mini-batches suffer from the parameters that this one made.
    first = int(np.argmin(finite))
    rows = range(first, len(problems), len(finite))
    bad = [problems[i].id for i in rows if not np.isfinite(values['problem_loss'][i])]
    raise FloatingPointError(
        f'the loss or its gradient is not finite at step {step}, update {first}, from '
        f'{f"problems {bad}" if bad else "no single problem"}. The newest checkpoint '
        'is from before it'
    )


def batch_metrics(config: ExperimentConfig, draw: Draw) -> dict[str, float]:
    """What a draw's rollouts say of the policy; deterministic values only."""
    answers, advantages = draw.answers, sample_and_verify.fetch(draw.advantages)
    correct = answers.verdicts.correct
    n = np.full(len(correct), correct.shape[1])
    c = correct.sum(axis=1)
    signal = has_signal(advantages, trained_responses(config.loss, answers))
    values = {
        'reward': float(answers.verdicts.rewards.mean()),
        'response_length': float(answers.lengths.mean()),
        'stopped': float(answers.stopped.mean()),
        'mean_abs_advantage': float(np.abs(advantages).mean()),
        'unsolved_problems': float((c == 0).mean()),
        'zero_signal_problems': float((~signal).mean()),
    }
    for k in sorted({1, config.advantage.k}):
        values[f'pass_at_{k}'] = float(metrics.pass_at_k(n, c, k=k).mean())
    return values
