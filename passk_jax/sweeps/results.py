"""The tables of a sweep, from the evaluations of its runs alone.

Equal runs give equal bytes: nothing here depends on how the runs came about.
"""

import csv
import gzip
import io
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.errors import InputError
from passk_jax.files import parse_json
from passk_jax.report.arms import difference, format_difference, markdown_table
from passk_jax.report.run_data import Row
from passk_jax.sweeps.declarations import Arm, Sweep
from passk_jax.sweeps.directories import evaluations
from passk_jax.sweeps.opening import Job

# With more arms than this, the table has one row for each.
_MOST_COLUMNS = 3
_HEAD = ('run', 'arm', 'seed', 'stage', 'split', 'step')

Values = Mapping[str, Mapping[str, np.ndarray]]


def tidy_rows(jobs: Sequence[Job]) -> list[Row]:
    """Returns a row for each evaluation of each run: its run, and its metrics.

    Metrics have six digits, so that the files stay small.
    """
    rows = []
    for job in jobs:
        whose = {'run': job.name, 'arm': job.run.arm, 'seed': job.run.seed}
        for row in evaluations(job):
            record = whose | {name: _six_digits(x) for name, x in row.items()}
            head = {name: record.pop(name) for name in _HEAD if name in record}
            rows.append(head | record)
    return rows


def _six_digits(value: Any) -> Any:
    return float(f'{value:.6g}') if isinstance(value, float) else value


def compress_rows(rows: Sequence[Row]) -> bytes:
    """Writes one JSON object a line, compressed; equal rows give equal bytes."""
    text = ''.join(json.dumps(row) + '\n' for row in rows)
    return gzip.compress(text.encode(), mtime=0)


def read_rows(path: pathlib.Path) -> list[Row]:
    """Reads rows that :func:`compress_rows` wrote.

    Raises:
        OSError, EOFError, ValueError: the file is absent or damaged.
    """
    with gzip.open(path, 'rt', encoding='utf-8') as lines:
        return [parse_json(line) for line in lines]


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
    evaluations of the arms with those of the baseline; of many arms it has a row for
    each. The second table compares the last evaluation of each arm with its first, and
    a third one the pairs of ``sweep.contrasts``.

    Args:
        sweep: what is declared.
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
    lines += markdown_table(
        [f'{sweep.split} split', *sweep.measures.values()],
        [
            [
                arm.label,
                *(
                    paired(after[arm.name][name], before[arm.name][name])
                    for name in sweep.measures
                ),
            ]
            for arm in arms
        ],
    )
    if sweep.contrasts:
        lines += ['', 'Further differences at the end, with their 95 % intervals:', '']
        lines += _contrasts(sweep, after)
    return '\n'.join(lines) + '\n'


def _contrasts(sweep: Sweep, after: Values) -> list[str]:
    labels = {arm.name: arm.label for arm in sweep.arms}
    return markdown_table(
        [f'{sweep.split} split', *sweep.measures.values()],
        [
            [
                f'{labels[first]} minus {labels[second]}',
                *(
                    paired(after[first][name], after[second][name])
                    for name in sweep.measures
                ),
            ]
            for first, second in sweep.contrasts
        ],
    )


def _tabulate_measures(
    sweep: Sweep, arms: Sequence[Arm], before: Values, after: Values
) -> list[str]:
    """A row for each measure, with every seed's value; the baseline comes first."""
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
                f'{before[base.name][name].mean():.3f}',
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
    """A row for each arm: its mean, and how it differs from the baseline, the first."""
    base, *variants = arms

    def row(label: str, of: Mapping[str, np.ndarray], other: Arm | None) -> list[str]:
        cells = [f'{of[name].mean():.3f}' for name in sweep.measures]
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
    """Arm -> measure -> ``[S]``, one value for each seed; NaN where undefined.

    Args:
        sweep, jobs: as in :func:`markdown`.
        first: take the first evaluation of an arm's first run, not the last one of its
            last run.

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
    """The mean of ``first - second``, and its interval if there are several seeds."""
    return format_difference(difference(first, second))


def _difference_title(arm: Arm, arms: Sequence[Arm]) -> str:
    """What the column is called; with two arms it is clear whose it is."""
    return 'difference [95 %]' if len(arms) == 2 else f'{arm.label}, difference [95 %]'


def _mean(of_seeds: np.ndarray) -> str:
    if not np.isfinite(of_seeds).any():
        return 'undefined'
    per_seed = ' '.join(f'{value:.3f}' for value in of_seeds)
    return f'{of_seeds.mean():.3f} ({per_seed})'
