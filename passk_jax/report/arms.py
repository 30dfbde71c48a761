"""Computes and formats differences between arms, for tables and figures."""

import math
from collections.abc import Sequence

import numpy as np

from passk_jax.evaluation import metrics

# Distinguishable with any colour vision: M. Okabe and K. Ito, "Color universal design",
# 2008.
COLORS = ('#d55e00', '#0072b2', '#009e73', '#cc79a7', '#e69f00', '#56b4e9')
# Distinguishable without colours.
MARKERS = ('o', 's', '^', 'D', 'v', 'P')

Interval = tuple[float, float, float]
"""A mean and the two ends of its interval; NaN where undefined."""


def difference(first: np.ndarray, second: np.ndarray) -> Interval:
    """Returns the mean of ``first - second`` over seeds, and its 95 % interval.

    A single seed has no interval. If a value is not finite, neither is the mean, and
    there is no interval.

    Args:
        first, second: ``[S]``, paired by seed.
    """
    if len(first) > 1 and np.isfinite(first - second).all():
        return metrics.paired_interval(first, second)
    return float((first - second).mean()), math.nan, math.nan


def mean_interval(values: np.ndarray) -> Interval:
    """Returns the mean of ``[S]`` over seeds, and its interval like difference()."""
    return difference(values, np.zeros_like(values))


def format_difference(interval: Interval, *, digits: int = 3) -> str:
    """Formats a difference for a table.

    >>> list(map(format_difference, [(0.25, 0.125, 0.375), (-1.0, *2 * [math.nan])]))
    ['+0.250 [+0.125, +0.375]', '-1.000']
    """
    mean, low, high = (f'{value:+.{digits}f}' for value in interval)
    if math.isnan(interval[0]):
        return 'undefined'
    return mean if math.isnan(interval[1]) else f'{mean} [{low}, {high}]'


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a Markdown table.

    >>> markdown_table(['k', 'a|b'], [['1', '0.5']])
    ['| k | a\\\\|b |', '| --- | --- |', '| 1 | 0.5 |']
    """
    lines = (head, ['---'] * len(head), *rows)
    # A bar would end the cell.
    escaped = [[cell.replace('|', '\\|') for cell in line] for line in lines]
    return [f'| {" | ".join(line)} |' for line in escaped]
