"""Compares two result directories of a sweep that was run twice.

After a second run, on another machine or with a changed program, it shows whether the
final results of each arm, and the differences between arms, are reproduced.
"""

import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from passk_jax.errors import InputError, prefixed
from passk_jax.evaluation.metrics import independent_interval
from passk_jax.report.arms import (
    Interval,
    difference,
    format_difference,
    markdown_table,
)
from passk_jax.report.run_data import Row, ks_of
from passk_jax.sweeps.rows import read_rows

# Columns that describe the run, not the result of the evaluation.
_RUN = ('run', 'arm', 'seed', 'processor', 'stage', 'split', 'step')

Ends = Mapping[str, Mapping[int, Row]]
"""Arm -> seed -> the last evaluation."""


def compare_results(
    name: str, directories: Sequence[str], *, split: str, measures: Sequence[str] = ()
) -> str:
    """Formats as Markdown how the last evaluations in two directories differ.

    Seeds that both have are paired, because they have the same problems. Without such
    seeds, the intervals are those of independent samples.

    Args:
        name: the sweep's name.
        directories: two directories that have ``<name>.jsonl.gz``.
        split: the split of the evaluations.
        measures: metrics; none: Pass@1 and the largest Pass@k.

    Raises:
        InputError: there are not two directories, a file is absent or damaged, no arm
            is in both, or an arm has no such evaluation or metric.
    """
    if len(directories) != 2:
        raise InputError(f'sweep={name!r} needs two directories, not {directories}')
    paths = [pathlib.Path(x).expanduser() / f'{name}.jsonl.gz' for x in directories]
    first, second = (_read_ends(path, split) for path in paths)
    arms = [arm for arm in first if arm in second]
    if not arms:
        raise InputError(f'no arm is in both: {list(first)} and {list(second)}')
    ks = ks_of([*first[arms[0]].values()])
    names = [*measures] or [f'pass_at_{k}' for k in sorted({1, *ks[-1:]})]
    absent = sorted(first.keys() ^ second.keys())
    lines = [
        *_tabulate_ends(arms, first, second, names),
        '',
        *_tabulate_arms(arms, first, second, names),
        '',
        f'- first: {paths[0]}',
        f'- second: {paths[1]}',
        *([f'- arms in one of them only: {", ".join(absent)}'] if absent else []),
        '',
        f'The last evaluation of split {split!r}. Seeds that both have are paired; '
        "without any, intervals are Welch's. Equal: the evaluations of shared seeds.",
    ]
    return '\n'.join(lines) + '\n'


def _read_ends(path: pathlib.Path, split: str) -> Ends:
    with prefixed(f'{path} cannot be read', (OSError, EOFError, ValueError)):
        rows = [row for row in read_rows(path) if row.get('split') == split]
    if not rows:
        raise InputError(f'{path} has no evaluation of {split=}')
    ends: dict[str, dict[int, Row]] = {}
    # The rows of an arm's later stage follow those of the earlier ones.
    for row in rows:
        ends.setdefault(row['arm'], {})[row['seed']] = row
    return ends


def _tabulate_ends(
    arms: Sequence[str], first: Ends, second: Ends, names: Sequence[str]
) -> list[str]:
    """Makes a row for each arm: where it ended in both directories."""
    head, rows = ['arm', 'seeds', 'equal'], []
    for name in names:
        head += [f'{name}, first', 'second', 'second minus first [95 %]']
    for arm in arms:
        seeds = sorted(first[arm].keys() & second[arm].keys())
        same = [
            _evaluation(first[arm][seed]) == _evaluation(second[arm][seed])
            for seed in seeds
        ]
        sizes = f'{len(first[arm])}, {len(second[arm])}'
        rows.append([arm, sizes, f'{sum(same)} of {len(seeds)}'])
        interval = difference if seeds else _unpaired
        for name in names:
            before, after = (
                _values(ends[arm], seeds or sorted(ends[arm]), name, arm)
                for ends in (first, second)
            )
            rows[-1] += [f'{before.mean():.3f}', f'{after.mean():.3f}']
            rows[-1].append(format_difference(interval(after, before)))
    return markdown_table(head, rows)


def _tabulate_arms(
    arms: Sequence[str], first: Ends, second: Ends, names: Sequence[str]
) -> list[str]:
    """Makes a row for each arm but the first: its difference from the first arm."""
    base, *variants = arms
    rows = [
        [
            arm,
            *(
                _paired(ends, arm, base, name)
                for name in names
                for ends in (first, second)
            ),
        ]
        for arm in variants
    ]
    head = [f'minus {base}']
    for name in names:
        head += [f'{name}, first', f'{name}, second']
    return markdown_table(head, rows) if rows else []


def _paired(ends: Ends, arm: str, base: str, name: str) -> str:
    seeds = sorted(ends[arm].keys() & ends[base].keys())
    pair = [_values(ends[x], seeds, name, x) for x in (arm, base)]
    return format_difference(difference(*pair)) if seeds else 'no shared seed'


def _unpaired(first: np.ndarray, second: np.ndarray) -> Interval:
    """Computes :func:`difference` for different, unpaired seeds."""
    if min(len(first), len(second)) > 1 and np.isfinite([*first, *second]).all():
        return independent_interval(first, second)
    return float(first.mean() - second.mean()), math.nan, math.nan


def _evaluation(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in _RUN}


def _values(
    rows: Mapping[int, Row], seeds: Sequence[int], name: str, arm: str
) -> np.ndarray:
    metrics = sorted({name for row in rows.values() for name in _evaluation(row)})
    if name not in metrics:
        raise InputError(f'{name!r} is no metric of arm {arm!r}: {metrics}')
    return np.array([rows[seed].get(name, math.nan) for seed in seeds], np.float64)
