"""Differences that depend on a group of problems and on a seed, both random effects.

Each of G groups is crossed with each of S seeds. Intervals over groups, over seeds and
over both answer for a new group, a new seed, and both. The standard deviations of
groups, of seeds and of what is left are the components of a two-way layout without
repetition (H. Scheffé, "The Analysis of Variance", 1959, section 7.4), negative ones
as 0.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from passk_jax.report.arms import (
    Interval,
    format_difference,
    markdown_table,
    mean_interval,
)


@dataclasses.dataclass(frozen=True)
class Crossed:
    """The analysis of values ``[G, S]``.

    Attributes:
        interval: the mean and its 95 % interval, for a new group and a new seed.
        groups, seeds, residual: standard deviations of the three components.
    """

    interval: Interval
    groups: float
    seeds: float
    residual: float


def analyse(values: np.ndarray) -> Crossed:
    """Takes values ``[G, S]`` apart into components of groups, seeds and the rest.

    The variance of the mean is (M_groups + M_seeds - M_rest) / (G S), of the three mean
    squares; if that is less than M_rest / (G S), M_rest / (G S). The degrees of freedom
    are Satterthwaite's.
    """
    num_groups, num_seeds = values.shape
    mean = values.mean()
    of_groups, of_seeds = values.mean(axis=1), values.mean(axis=0)
    residuals = values - of_groups[:, None] - of_seeds + mean
    free = (num_groups - 1) * (num_seeds - 1)
    m_groups = num_seeds * of_groups.var(ddof=1)
    m_seeds = num_groups * of_seeds.var(ddof=1)
    m_residual = (residuals**2).sum() / free
    square = max(m_groups + m_seeds - m_residual, m_residual)
    terms = (
        m_groups**2 / (num_groups - 1),
        m_seeds**2 / (num_seeds - 1),
        m_residual**2 / free,
    )
    degrees = square**2 / sum(terms)
    half = special.stdtrit(degrees, 0.975) * math.sqrt(square / values.size)
    return Crossed(
        interval=(float(mean), float(mean - half), float(mean + half)),
        groups=math.sqrt(max(m_groups - m_residual, 0) / num_seeds),
        seeds=math.sqrt(max(m_seeds - m_residual, 0) / num_groups),
        residual=math.sqrt(m_residual),
    )


def table(
    names: Sequence[str],
    differences: Mapping[str, np.ndarray],
    *,
    factor: str,
    last: Sequence[Sequence[str]] = (),
) -> list[str]:
    """Returns a row for each group, for all groups, and for each component.

    Args:
        names: those of the groups.
        differences: measure -> values ``[G, S]``, on the test split.
        factor: what the groups are, in the plural.
        last: rows that come after these.
    """
    num_groups, num_seeds = next(iter(differences.values())).shape
    arrays = differences.values()
    rows = [
        [name, *(_over(values[row]) for values in arrays)]
        for row, name in enumerate(names)
    ]
    analysed = [analyse(values) for values in arrays]
    rows += [
        [f'all, over {factor}', *(_over(values.mean(axis=1)) for values in arrays)],
        ['all, over seeds', *(_over(values.mean(axis=0)) for values in arrays)],
        ['all, over both', *(format_difference(x.interval) for x in analysed)],
        [f'deviation of {factor}', *(f'{x.groups:.3f}' for x in analysed)],
        ['deviation of seeds', *(f'{x.seeds:.3f}' for x in analysed)],
        ['deviation of the rest', *(f'{x.residual:.3f}' for x in analysed)],
    ]
    head = f'test split, {num_groups} {factor} x {num_seeds} seeds'
    return markdown_table([head, *differences], [*rows, *last])


def _over(values: np.ndarray) -> str:
    return format_difference(mean_interval(values))
