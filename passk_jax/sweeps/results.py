"""The tables of a sweep, from the directories of its runs alone.

Equal runs give equal bytes: nothing here depends on how the runs came about.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence

import numpy as np

from passk_jax import metrics
from passk_jax.report.arms import markdown_table
from passk_jax.report.run_data import Row
from passk_jax.sweeps.declarations import Arm, Sweep
from passk_jax.sweeps.directories import evaluations
from passk_jax.sweeps.opening import Job

_HEAD = ('run', 'arm', 'seed', 'stage', 'split', 'step')

Values = Mapping[str, Mapping[str, np.ndarray]]


def tidy_rows(jobs: Sequence[Job]) -> list[Row]:
    """A row for each evaluation of each run: whose it is, and its metrics."""
    rows = []
    for job in jobs:
        whose = {'run': job.name, 'arm': job.run.arm, 'seed': job.run.seed}
        for row in evaluations(job):
            whole = whose | row
            head = {name: whole.pop(name) for name in _HEAD if name in whole}
            rows.append(head | whole)
    return rows


def as_json_lines(rows: Sequence[Row]) -> str:
    """One JSON object a line."""
    return ''.join(json.dumps(row) + '\n' for row in rows)


def as_csv(rows: Sequence[Row]) -> str:
    """A column for each metric of any row; a cell is empty where it is undefined."""
    names = sorted({name for row in rows for name in row} - set(_HEAD))
    text = io.StringIO()
    writer = csv.DictWriter(text, [*_HEAD, *names], lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def markdown(sweep: Sweep, jobs: Sequence[Job]) -> str:
    """Means over seeds, and paired differences with 95 % intervals.

    The interval is Student's t over the seeds. The first table compares the last
    evaluations of the arms with those of the baseline, the second compares the last
    evaluation of each arm with its first.

    Args:
        sweep: what is declared.
        jobs: its runs, all of them done.
    """
    before, after = (values(sweep, jobs, first=first) for first in (True, False))
    base = sweep.baseline
    others = [arm for arm in sweep.arms if arm.name != base]
    arms = [arm for arm in sweep.arms if arm.name == base] + others
    lines = markdown_table(
        [
            f'{sweep.split} split',
            'before RL',
            *(arm.label for arm in arms),
            *(_difference_title(arm, arms) for arm in others),
        ],
        [
            [
                label,
                f'{before[base][name].mean():.3f}',
                *(_mean(after[arm.name][name]) for arm in arms),
                *(paired(after[arm.name][name], after[base][name]) for arm in others),
            ]
            for name, label in sweep.measures.items()
        ],
    )
    lines += ['', 'End less beginning, with its 95 % interval:', '']
    lines += markdown_table(
        [f'{sweep.split} split', *(arm.label for arm in arms)],
        [
            [label, *(paired(after[x.name][name], before[x.name][name]) for x in arms)]
            for name, label in sweep.measures.items()
        ],
    )
    return '\n'.join(lines) + '\n'


def values(sweep: Sweep, jobs: Sequence[Job], *, first: bool) -> Values:
    """Arm -> measure -> ``[S]``, one value for each seed; NaN where undefined.

    Args:
        sweep, jobs: as in :func:`markdown`.
        first: take the first evaluation of an arm's first run, not the last one of its
            last run.
    """
    found: dict[str, dict[str, list[float]]] = {
        arm.name: {name: [] for name in sweep.measures} for arm in sweep.arms
    }
    for job in jobs:
        if job.run.previous if first else not job.run.last:
            continue
        step = 0 if first else job.steps
        (row,) = (
            row
            for row in evaluations(job)
            if (row['split'], row['step']) == (sweep.split, step)
        )
        for name, of_seeds in found[job.run.arm].items():
            of_seeds.append(row.get(name, np.nan))
    return {
        arm: {name: np.array(x, np.float64) for name, x in measures.items()}
        for arm, measures in found.items()
    }


def paired(first: np.ndarray, second: np.ndarray) -> str:
    """The mean of ``first - second``, and its interval if there are several seeds."""
    if not np.isfinite(first - second).all():
        return 'undefined'
    if len(first) == 1:
        return f'{first[0] - second[0]:+.3f}'
    mean, low, high = metrics.paired_interval(first, second)
    return f'{mean:+.3f} [{low:+.3f}, {high:+.3f}]'


def _difference_title(arm: Arm, arms: Sequence[Arm]) -> str:
    """What the column is called; with two arms it is clear whose it is."""
    return 'difference [95 %]' if len(arms) == 2 else f'{arm.label}, difference [95 %]'


def _mean(of_seeds: np.ndarray) -> str:
    each = ' '.join(f'{value:.3f}' for value in of_seeds)
    return f'{of_seeds.mean():.3f} ({each})'
