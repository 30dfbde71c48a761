"""Makes the tables of a sweep from the evaluations of its runs.

Equal evaluations give equal bytes, in whatever order the runs were made.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.errors import InputError
from passk_jax.report.arms import difference, format_difference, markdown_table
from passk_jax.report.run_data import Row
from passk_jax.sweeps.declarations import Arm, Sweep
from passk_jax.sweeps.directories import evaluations, processor_of
from passk_jax.sweeps.opening import Job

# With more arms, the table has a row for each arm.
_MOST_COLUMNS = 3
_HEAD = ('run', 'arm', 'seed', 'processor', 'stage', 'split', 'step')

ByMeasure = Mapping[str, np.ndarray]
Values = Mapping[str, ByMeasure]


def tidy_rows(jobs: Sequence[Job]) -> list[Row]:
    """Returns a row for each evaluation of each run: the run and the metrics.

    Metrics are rounded to six significant digits, to keep files small. ``processor`` is
    the model of the processor that the run began on, if its directory has it.
    """
    rows = []
    for job in jobs:
        whose = {'run': job.name, 'arm': job.run.arm, 'seed': job.run.seed}
        whose |= processor_of(job)
        for row in evaluations(job):
            record = whose | {name: _six_digits(x) for name, x in row.items()}
            head = {name: record.pop(name) for name in _HEAD if name in record}
            rows.append(head | record)
    return rows


def _six_digits(value: Any) -> Any:
    return float(f'{value:.6g}') if isinstance(value, float) else value


def as_csv(rows: Sequence[Row]) -> str:
    """Formats rows as CSV, with a column for each metric; undefined cells are empty."""
    columns = {name for row in rows for name in row}
    head = [name for name in _HEAD if name in columns]
    names = sorted(columns - set(_HEAD))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*head, *names], lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def markdown(sweep: Sweep, jobs: Sequence[Job]) -> str:
    """Formats Markdown tables of means and paired differences over seeds.

    Differences have 95 % intervals (Student's t over the seeds). The first table
    compares the last evaluation of each arm with the baseline's. The second compares
    each arm's last evaluation with its first. A third compares the pairs of
    ``sweep.contrasts``.

    Args:
        sweep: the declaration.
        jobs: its runs, all of them done.
    """
    before, after = (values(sweep, jobs, first=first) for first in (True, False))
    base = sweep.baseline
    variants = [arm for arm in sweep.arms if arm.name != base]
    arms = [arm for arm in sweep.arms if arm.name == base] + variants
    if len(arms) <= _MOST_COLUMNS:
        lines = _tabulate_measures(sweep, arms, before, after)
    else:
        lines = _tabulate_arms(sweep, arms, before, after)
    lines += ['', 'End minus beginning, with its 95 % interval:', '']
    changes = [(arm.label, after[arm.name], before[arm.name]) for arm in arms]
    lines += _tabulate_differences(sweep, changes)
    if sweep.contrasts:
        lines += ['', 'Further differences at the end, with their 95 % intervals:', '']
        labels = {arm.name: arm.label for arm in arms}
        contrasts = [
            (f'{labels[first]} minus {labels[second]}', after[first], after[second])
            for first, second in sweep.contrasts
        ]
        lines += _tabulate_differences(sweep, contrasts)
    return '\n'.join(lines) + '\n'


def _tabulate_differences(
    sweep: Sweep, rows: Sequence[tuple[str, ByMeasure, ByMeasure]]
) -> list[str]:
    """Makes a row for each label, with the first values minus the second."""
    return markdown_table(
        [f'{sweep.split} split', *sweep.measures.values()],
        [
            [label, *(paired(first[name], second[name]) for name in sweep.measures)]
            for label, first, second in rows
        ],
    )


def _tabulate_measures(
    sweep: Sweep, arms: Sequence[Arm], before: Values, after: Values
) -> list[str]:
    """Makes a row for each measure; ``arms[0]`` is the baseline."""
    base, *variants = arms
    return markdown_table(
        [
            f'{sweep.split} split',
            'before RL',
            *(arm.label for arm in arms),
            *(_difference_title(arm, arms) for arm in variants),
        ],
        [
            [
                label,
                _number(before[base.name][name]),
                *(_mean(after[arm.name][name]) for arm in arms),
                *(
                    paired(after[arm.name][name], after[base.name][name])
                    for arm in variants
                ),
            ]
            for name, label in sweep.measures.items()
        ],
    )


def _tabulate_arms(
    sweep: Sweep, arms: Sequence[Arm], before: Values, after: Values
) -> list[str]:
    """Makes a row for each arm; ``arms[0]`` is the baseline."""
    base, *variants = arms

    def row(label: str, of: ByMeasure, other: Arm | None) -> list[str]:
        cells = [_number(of[name]) for name in sweep.measures]
        if other:
            differences = (
                paired(of[name], after[other.name][name]) for name in sweep.measures
            )
            cells = [', '.join(pair) for pair in zip(cells, differences, strict=True)]
        return [label, *cells]

    return markdown_table(
        [f'{sweep.split} split', *sweep.measures.values()],
        [
            row('before RL', before[base.name], None),
            row(base.label, after[base.name], None),
            *(row(arm.label, after[arm.name], base) for arm in variants),
        ],
    )


def values(sweep: Sweep, jobs: Sequence[Job], *, first: bool) -> Values:
    """Returns arm -> measure -> ``[S]``, a value for each seed; NaN where undefined.

    Args:
        sweep, jobs: as in :func:`markdown`.
        first: whether to take the first evaluation of an arm's first stage, or else the
            last evaluation of its last stage.

    Raises:
        InputError: a run does not have exactly one such evaluation.
    """
    by_arm: dict[str, dict[str, list[float]]] = {
        arm.name: {name: [] for name in sweep.measures} for arm in sweep.arms
    }
    for job in jobs:
        if job.run.previous if first else not job.run.last:
            continue
        step = 0 if first else job.steps
        rows = [
            row
            for row in evaluations(job)
            if (row['split'], row['step']) == (sweep.split, step)
        ]
        if len(rows) != 1:
            raise InputError(
                f'run {job.name} has {len(rows)} evaluations of split {sweep.split!r} '
                f'at step {step} and must have one: mend its metrics or the results'
            )
        for name, of_seeds in by_arm[job.run.arm].items():
            of_seeds.append(rows[0].get(name, np.nan))
    return {
        arm: {name: np.array(x, np.float64) for name, x in measures.items()}
        for arm, measures in by_arm.items()
    }


def paired(first: np.ndarray, second: np.ndarray) -> str:
    """Formats the mean of ``first - second``, with an interval if seeds are several."""
    return format_difference(difference(first, second))


def _difference_title(arm: Arm, arms: Sequence[Arm]) -> str:
    """Returns the heading of a column; with two arms, it does not name the arm."""
    return 'difference [95 %]' if len(arms) == 2 else f'{arm.label}, difference [95 %]'


def _mean(of_seeds: np.ndarray) -> str:
    if not np.isfinite(of_seeds).any():
        return 'undefined'
    return f'{_number(of_seeds)} ({" ".join(map(_number, of_seeds))})'


def _number(of_seeds: np.ndarray) -> str:
    """Formats a mean over seeds, which is undefined if a seed's value is."""
    mean = of_seeds.mean()
    return f'{mean:.3f}' if np.isfinite(mean) else 'undefined'
