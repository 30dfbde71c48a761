"""Tabulates Pass@1 and Pass@k by category, as the paper's tables do."""

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.evaluation import metrics
from passk_jax.report.arms import markdown_table

LeftOut = Mapping[str, Mapping[str, int] | None]
"""Reason for leaving out problems -> category -> their number; ``None``: unknown."""


def category_table(
    evaluations: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    groups: Mapping[str, Mapping[str, str]],
    left_out: Mapping[str, LeftOut],
) -> str:
    """Returns a Markdown table of Pass@1 and Pass@k in percent.

    k is the largest power of two for which every problem has enough responses. The
    row ``all problems`` is the paper's overall score for Enigmata. ``mean of
    categories`` weighs all categories alike, as the paper does for benchmarks of
    mathematics. Problems that were left out are counted but not averaged.

    Args:
        evaluations: task -> a record for each problem, with ``category``, ``n`` and
            ``c``.
        groups: task -> category -> the name of its row; the default is the category.
        left_out: task -> the numbers of problems without a record. All tasks have the
            same reasons; each reason is a column.
    """
    k = min(
        metrics.powers_of_two(np.array([row['n'] for row in rows]))[-1]
        for rows in evaluations.values()
    )
    sizes = list(dict.fromkeys((1, k)))
    lines = [
        [task, *cells]
        for task, rows in evaluations.items()
        for cells in _tabulate_task(rows, sizes, groups.get(task, {}), left_out[task])
    ]
    reasons = list(next(iter(left_out.values())))
    head = ['task', 'category', 'problems', *reasons, *(f'Pass@{k}' for k in sizes)]
    return '\n'.join(markdown_table(head, lines)) + '\n'


def _tabulate_task(
    rows: Sequence[Mapping[str, Any]],
    sizes: Sequence[int],
    names: Mapping[str, str],
    left_out: LeftOut,
) -> list[list[str]]:
    """Returns the rows of a task, without the task's name."""
    of_row = np.array([names.get(x := row['category'], x) for row in rows])
    n, c = (np.array([row[x] for row in rows]) for x in ('n', 'c'))
    values = np.array([metrics.pass_at_k(n, c, k=size) for size in sizes])
    without = [_rename(counts, names) for counts in left_out.values()]
    lines, means = [], []
    # All problems of a category may have been left out.
    for name in dict.fromkeys(
        [*of_row.tolist(), *(x for counter in without for x in counter or ())]
    ):
        chosen = of_row == name
        mean = values[:, chosen].mean(axis=1) if chosen.any() else None
        counts = [None if counter is None else counter[name] for counter in without]
        lines.append(_line(name, chosen.sum(), counts, mean, sizes))
        means += [] if mean is None else [mean]
    if len(lines) > 1:
        counts = [None if counter is None else counter.total() for counter in without]
        overall = ('all problems', values.mean(axis=1))
        for name, mean in (overall, ('mean of categories', np.mean(means, axis=0))):
            lines.append(_line(name, len(rows), counts, mean, sizes))
    return lines


def _rename(
    counts: Mapping[str, int] | None, names: Mapping[str, str]
) -> collections.Counter[str] | None:
    if counts is None:
        return None
    renamed = collections.Counter()
    for category, count in counts.items():
        renamed[names.get(category, category)] += count
    return renamed


def _line(
    name: str,
    count: int,
    left_out: Sequence[int | None],
    mean: np.ndarray | None,
    sizes: Sequence[int],
) -> list[str]:
    counts = ['?' if x is None else str(x) for x in (count, *left_out)]
    shares = ['-'] * len(sizes) if mean is None else [f'{100 * x:.1f}' for x in mean]
    return [name, *counts, *shares]
