"""What tables and figures that set several arms side by side share."""

import math
from collections.abc import Sequence

import numpy as np

from passk_jax.evaluation import metrics

# Distinct with every kind of colour vision: M. Okabe and K. Ito, "Color universal
# design", 2008.
COLORS = ('#d55e00', '#0072b2', '#009e73', '#cc79a7', '#e69f00', '#56b4e9')
# Distinct without colours too.
MARKERS = ('o', 's', '^', 'D', 'v', 'P')

Interval = tuple[float, float, float]
"""A mean and the two ends of its interval; what is not defined is NaN."""


def difference(first: np.ndarray, second: np.ndarray) -> Interval:
    """The mean of ``first - second`` over seeds, and its 95 % interval.

    Args:
        first, second: ``[S]``, paired. One seed has no interval, and a value that is
            not finite leaves nothing defined.
    """
    if len(first) > 1 and np.isfinite(first - second).all():
        return metrics.paired_interval(first, second)
    return float((first - second).mean()), math.nan, math.nan


def format_difference(interval: Interval, *, digits: int = 3) -> str:
    """A difference as tables have it.

    >>> list(map(format_difference, [(0.25, 0.125, 0.375), (-1.0, *2 * [math.nan])]))
    ['+0.250 [+0.125, +0.375]', '-1.000']
    """
    mean, low, high = (f'{value:+.{digits}f}' for value in interval)
    if math.isnan(interval[0]):
        return 'undefined'
    return mean if math.isnan(interval[1]) else f'{mean} [{low}, {high}]'


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table.

    >>> markdown_table(['k', 'a|b'], [['1', '0.5']])
    ['| k | a\\\\|b |', '| --- | --- |', '| 1 | 0.5 |']
    """
    lines = (head, ['---'] * len(head), *rows)
    return [f'| {" | ".join(map(_cell, line))} |' for line in lines]


def _cell(text: str) -> str:
    """Escapes bars, which would end the cell."""
    return text.replace('|', '\\|')
