"""Logs a training run: metrics, rollouts, timings, progress and the report.

The training loop reports every event to a :class:`RunLog`, which never changes the run.

The policy's metrics (``reward``, ``pass_at_1``, ...) describe the step's first draw of
problems, before any selection. So they mean the same with and without dynamic sampling.
The learner's metrics and the written rollouts describe the batch that it trains on.
Dynamic sampling adds the policy's metrics of that batch (``trained_reward``, ...) and
``sampling_draws``, the number of draws; 1 means that the first draw was enough. Metrics
of a category of the first draw begin with its name (``9x9/reward``). Every evaluation
of a split after the first has ``flips_solved`` and ``flips_unsolved``, the numbers of
problems that became solved and unsolved since the previous one.

Timings count the tokens of all draws. runs/phases.py explains the seconds, and
planning/utilization.py the rates per chip.
"""

import functools
import math
import pathlib
import resource
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging

from passk_jax.config import LogConfig
from passk_jax.diagnostics.flips import common_flips
from passk_jax.diagnostics.step import Diagnosis, record
from passk_jax.errors import NonFiniteError, leave
from passk_jax.evaluation import metrics
from passk_jax.evaluation.evaluate import warn_of_missing_signal
from passk_jax.learning.losses import Metrics
from passk_jax.planning.utilization import Rates
from passk_jax.report.reporter import Reporter
from passk_jax.report.run_data import counts_in
from passk_jax.rollouts.dynamic_sampling import Draw, Draws, with_signal
from passk_jax.rollouts.signal import explain_missing_signal, has_answer, list_examples
from passk_jax.rollouts.verify import records
from passk_jax.runs.known_evaluations import Evaluation, KnownEvaluations
from passk_jax.runs.metric_writer import MetricWriter
from passk_jax.runs.phases import Phases
from passk_jax.runs.progress import Progress
from passk_jax.runs.records import evaluation_name
from passk_jax.runtime import hosts
from passk_jax.types import Problem

SILENT_STEPS = 20
"""Consecutive steps without a signal before a warning."""

# Packing is worthwhile above this share of pads among the learner's positions.
MANY_PADS = 0.4
_ADVICE = (
    "%.0f %% of the positions that the learner computes are pads: train.packing='rows' "
    'lets short responses share rows'
)


class RunLog:
    """A context manager that writes metrics, rollouts, timings, progress and report.

    It reads the learner's metrics of a step while the next step runs, so that the
    device never waits for the host; :meth:`flush` reads them at once.

    Args:
        workdir: the run directory.
        config: selects what to write.
        name: the experiment's name.
        steps, start: the steps of the whole run, and the first step of this process.
        ks: every step logs ``pass_at_1`` and pass@k for these; at most N counts.
        mask_truncated: whether the learner ignores responses that the length limit cut
            off.
        settings: the whole configuration, for trackers and advice on packing.
    """

    def __init__(
        self,
        workdir: pathlib.Path,
        config: LogConfig,
        *,
        name: str,
        steps: int,
        start: int,
        ks: Collection[int],
        mask_truncated: bool,
        settings: Mapping[str, Any],
    ):
        self._workdir, self._rollouts_every = workdir, config.rollouts_every
        self._batch_metrics = functools.partial(
            batch_metrics, ks=ks, mask_truncated=mask_truncated
        )
        self._by_category = functools.partial(category_metrics, ks=ks)
        self._known_evaluations = KnownEvaluations(workdir, start)
        self._writer = MetricWriter(
            workdir, log=config, resume_step=start, config=settings
        )
        self._progress = Progress(steps, initial=start, description=name)
        self._pending: Callable[[], None] = lambda: None
        self._rates: Rates = lambda draws, seconds: {}
        self._evaluated: tuple[int, dict[str, float]] = (start, {})
        self._report_is_old, self._reporter = False, Reporter(workdir)
        self._phases = Phases.of(config)
        # Consecutive steps without a signal, up to the last written step.
        self._silent_steps = 0
        train = settings['train']
        is_packed = train['packing'] == 'rows' or train['pack_sizes']
        self._advises_packing = not is_packed

    def __enter__(self) -> 'RunLog':
        self._progress.__enter__()
        self._phases.__enter__()
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        end_progress = functools.partial(self._progress.__exit__, kind, *exception)
        end_phases = functools.partial(self._phases.__exit__, kind, *exception)
        reports = (self.report, self._reporter.finish)
        leave(kind, end_progress, *reports, self._writer.close, end_phases)

    def begin(self, phase: str, step: int) -> None:
        """Begins a phase of the loop, for its timings and the watchdog."""
        self._phases.begin(phase, step)

    def flush(self) -> None:
        """Writes the pending step, if any."""
        pending, self._pending = self._pending, lambda: None
        pending()

    def begin_stage(self, stage: int, rates: Rates) -> None:
        """Writes the pending step, and sets the stage of the following metrics.

        Args:
            stage: the stage's number.
            rates: its rates, from :func:`passk_jax.planning.utilization.make_rates`.
        """
        self.flush()
        self._writer.stage, self._rates = stage, rates

    def step(
        self,
        step: int,
        draws: Draws,
        step_metrics: Metrics,
        diagnosis: Diagnosis | None = None,
    ) -> None:
        """Accepts the metrics of a dispatched step, and writes the previous step.

        Raises:
            NonFiniteError: the loss of the previous step is not finite.
        """
        self.flush()
        spent, cpu_seconds = self._phases.take()
        self._pending = functools.partial(
            self._write_step, step, draws, step_metrics, diagnosis, spent, cpu_seconds
        )

    def known_evaluation(self, step: int, split: str) -> Evaluation | None:
        """Returns an evaluation that need not be made again, or ``None``.

        The process before has made it, or, before step 0, another run.
        """
        return self._known_evaluations.get(step, split)

    def evaluation(
        self, step: int, split: str, values: dict[str, float], rows: list[Any]
    ) -> None:
        """Writes the metrics and the records of an evaluation."""
        line, directory = values, self._workdir / 'evaluation'
        # Other processes have no files and write none.
        if jax.process_index() == 0:
            line = values | flip_metrics(directory, split, step, rows)
            if step == 0:
                warn_of_missing_signal(f'{split} before step 0', rows)
        self._writer.write(step, line, split=split)
        self._writer.write_evaluation(split, step, rows)
        self._progress.evaluation(step, split, values)
        metrics_of_split = {f'{split}/{name}': value for name, value in values.items()}
        self._evaluated = (step, self.evaluated(step) | metrics_of_split)
        self._report_is_old = True

    def evaluated(self, step: int) -> dict[str, float]:
        """Returns ``'<split>/<metric>'`` -> value of evaluations before a step."""
        last, values = self._evaluated
        return values if last == step else {}

    def digests(self, step: int) -> dict[str, str]:
        """Writes the pending step; returns the digests of all lines before ``step``."""
        self.flush()
        return self._writer.digests(step)

    def report(self) -> None:
        """Starts writing curves and report, if there is new data."""
        if self._report_is_old and jax.process_index() == 0:
            self._reporter.write()
        self._report_is_old = False
        # A step's time excludes evaluations and reports.
        self._phases.drop('evaluate')

    def _write_step(
        self,
        step: int,
        draws: Draws,
        figures: Metrics,
        diagnosis: Diagnosis | None,
        spent: Mapping[str, float],
        cpu_seconds: float,
    ) -> None:
        trained = draws.trained
        values: dict[str, Any] = {**hosts.fetch(figures)}
        check_finite(values, trained.problems, step)
        del values['problem_loss'], values['finite_updates']
        values |= self._batch_metrics(draws.first) | self._by_category(draws.first)
        if draws.selected:
            of_trained = self._batch_metrics(trained)
            values |= {f'trained_{name}': value for name, value in of_trained.items()}
            values['sampling_draws'] = float(draws.count)
        self._writer.write(step, values, split='train')
        self._warn_of_missing_signal(step, draws.first, values)
        padding = float(values.get('padding', 0.0))
        if self._advises_packing and padding > MANY_PADS and jax.process_index() == 0:
            logging.info(_ADVICE, 100 * padding)
            self._advises_packing = False
        if diagnosis is not None:
            self._writer.write_diagnostics(step, record(hosts.fetch(diagnosis)))
        self._report_is_old = True
        if self._rollouts_every and step % self._rollouts_every == 0:
            batch = (trained.problems, trained.responses)
            advantages = trained.host_advantages
            rewarded = hosts.fetch(trained.rewarded)
            rows = records(*batch, step=step, advantages=advantages, rewarded=rewarded)
            self._writer.write_rollouts(step, rows)
        seconds = sum(spent.values())
        rate = draws.num_tokens / seconds
        timing = {'seconds': seconds, 'cpu_seconds': cpu_seconds}
        timing['tokens_per_second'] = rate
        timing |= self._rates(draws, seconds)
        timing |= {f'{phase}_seconds': part for phase, part in spent.items()}
        if slowest := self._phases.slowest(step):
            timing['slowest_process'], timing['slowest_behind'] = slowest
        self._writer.write_timing(step, timing | memory_high_water())
        summary = {name: float(values[name]) for name in ('reward', 'entropy')}
        self._progress.update(step + 1, **summary, tokens_per_second=rate)

    def _warn_of_missing_signal(
        self, step: int, draw: Draw, values: Mapping[str, float]
    ) -> None:
        """Warns if the first step, or every step of the last 20, had no signal."""
        responses, verdicts = draw.responses, draw.responses.verdicts
        steps = self._silent_steps + 1 if values['zero_signal_problems'] == 1 else 0
        self._silent_steps = steps
        is_long = steps and steps % SILENT_STEPS == 0
        if jax.process_index() > 0 or not (is_long or step == 0):
            return
        differ = values['equal_reward_problems'] < 1
        of_wrong = np.unique(verdicts.rewards[~verdicts.correct])
        no_answers = differ and values['no_answer'] == 1
        if not steps and (no_answers or len(of_wrong) > 1):
            # The task reads no answers, or rewards differ between wrong responses.
            return
        message = explain_missing_signal(
            verdicts.correct,
            verdicts.parsed,
            stopped=float(responses.stopped.mean()),
            examples=list_examples(responses.texts, verdicts.parsed, responses.stopped),
            unweighted=differ and steps > 0,
        )
        if message:
            when = f'no signal in {steps} steps up to' if is_long else 'after'
            logging.warning('%s step %d: %s', when, step, message)


def flip_metrics(
    directory: pathlib.Path, split: str, step: int, rows: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Counts the problems that became solved or unsolved since the previous evaluation.

    Reads the previous evaluation from its file, so a resumed run gives the same counts.
    If the file is lost, the newest earlier one replaces it.

    Args:
        directory: the run's directory of evaluations; only process 0 has it.
        split, step: the split and the step of this evaluation.
        rows: the records of this evaluation.

    Returns:
        ``flips_solved`` and ``flips_unsolved``; ``{}`` for the first evaluation of the
        split. See :func:`passk_jax.diagnostics.flips.flips`.
    """
    file_name = evaluation_name(split, step)
    files = directory.glob(f'{split}_step_*.jsonl')
    earlier = [file for file in files if file.name < file_name]
    if not earlier:
        return {}
    after = {row['problem_id']: row['c'] for row in rows}
    changes = common_flips(counts_in(max(earlier)), after)
    solved, unsolved = len(changes.solved), len(changes.unsolved)
    return {'flips_solved': solved, 'flips_unsolved': unsolved}


def memory_high_water() -> dict[str, float]:
    """Returns the peak memory of this process and of its fullest device, in bytes.

    Devices that do not report it, such as CPUs, are left out.
    """
    peaks = [(device.memory_stats() or {}) for device in jax.local_devices()]
    peaks = [peak['peak_bytes_in_use'] for peak in peaks if 'peak_bytes_in_use' in peak]
    # Linux counts KiB.
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {'host_bytes': host} | ({'device_bytes': max(peaks)} if peaks else {})


def check_finite(values: Metrics, problems: list[Problem], step: int) -> None:
    """Checks the loss and gradient of every update of a step.

    Raises:
        NonFiniteError: one is not finite; the message names the step and problems.
    """
    finite = values['finite_updates']
    if finite.all():
        return
    # Report the first: later updates inherit its bad parameters.
    first = int(np.argmin(finite))
    epoch, update = divmod(first, finite.shape[1])
    rows = range(update, len(problems), finite.shape[1])
    losses = values['problem_loss'][epoch]
    bad = [problems[i].id for i in rows if not np.isfinite(losses[i])]
    raise NonFiniteError(
        f'the loss or its gradient is not finite at step {step}, update {first}, from '
        f'{f"problems {bad}" if bad else "no single problem"}. The newest checkpoint '
        'is older'
    )


def batch_metrics(
    draw: Draw, *, ks: Collection[int], mask_truncated: bool
) -> dict[str, float]:
    """Computes the policy's metrics of a draw; equal draws give equal metrics.

    Args:
        draw: problems with their responses and advantages.
        ks: computes pass@k for these in addition to 1; at most N counts.
        mask_truncated: whether the learner ignores responses that the length limit cut
            off.
    """
    responses, advantages = draw.responses, draw.host_advantages
    correct, rewards = responses.verdicts.correct, responses.verdicts.rewards
    n = np.full(len(correct), correct.shape[1])
    c = correct.sum(axis=1)
    signal = with_signal(draw, mask_truncated=mask_truncated)
    values = {
        'reward': float(rewards.mean()),
        'response_length': float(responses.lengths.mean()),
        'response_length_right': _mean(responses.lengths[correct]),
        'response_length_wrong': _mean(responses.lengths[~correct]),
        'stopped': float(responses.stopped.mean()),
        'no_answer': float(1 - has_answer(responses.verdicts.parsed).mean()),
        'mean_abs_advantage': float(np.abs(advantages).mean()),
        # All responses wrong, some of both, all right.
        'unsolved_problems': float((c == 0).mean()),
        'mixed_problems': float(((c > 0) & (c < n)).mean()),
        'all_right_problems': float((c == n).mean()),
        'zero_signal_problems': float((~signal).mean()),
        # TRL's frac_reward_zero_std.
        'equal_reward_problems': float((rewards == rewards[:, :1]).all(axis=1).mean()),
    }
    for kind, failed in responses.verdicts.failures.items():
        values[f'verifier_{kind}'] = float(failed.mean())
    for size in sorted({1, *(min(k, correct.shape[1]) for k in ks)}):
        values[f'pass_at_{size}'] = float(metrics.pass_at_k(n, c, k=size).mean())
    return values


def category_metrics(draw: Draw, *, ks: Collection[int]) -> dict[str, float]:
    """Computes the number of problems, reward and pass@k of each category of a draw.

    Args:
        draw: problems with their responses.
        ks: computes ``<category>/pass_at_<k>`` for these and 1; at most N counts.
    """
    verdicts, values = draw.responses.verdicts, {}
    n = np.full(len(verdicts.correct), verdicts.correct.shape[1])
    c = verdicts.correct.sum(axis=1)
    masks = metrics.mask_by_category([problem.category for problem in draw.problems])
    for name, mask in masks.items():
        values[f'{name}/problems'] = float(mask.sum())
        values[f'{name}/reward'] = float(verdicts.rewards[mask].mean())
        for size in sorted({1, *(min(k, n[0]) for k in ks)}):
            mean = metrics.pass_at_k(n[mask], c[mask], k=size).mean()
            values[f'{name}/pass_at_{size}'] = float(mean)
    return values


def _mean(values: np.ndarray) -> float:
    """Returns the mean, or NaN, which is not written, if there are no values."""
    return float(values.mean()) if values.size else math.nan
