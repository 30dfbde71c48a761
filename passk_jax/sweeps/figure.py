"""Draws the figure of a sweep: lines over steps, or a forest plot of final differences.

Lines show at most four arms and six measures, a panel for each measure, and need at
least three evaluations. Otherwise a forest plot shows each arm's final difference from
the baseline. With at least as many measures as arms, it has a row for each measure and
a marker for each arm. Otherwise it has a panel for each measure and a row for each arm.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from passk_jax.evaluation import metrics
from passk_jax.report.arms import COLORS, MARKERS, Interval, difference
from passk_jax.report.charts import columns_for, draw_figure
from passk_jax.report.forest import Dots, Forest, draw_forests
from passk_jax.report.panels import Panel, Series
from passk_jax.sweeps.declarations import SHARE, Arm, Sweep, unit_of
from passk_jax.sweeps.directories import evaluations
from passk_jax.sweeps.opening import Job
from passk_jax.sweeps.results import values

_MOST_LINES, _MOST_PANELS = 4, 6
# Points between the bars of two arms.
_APART = 2.5

Curve = Mapping[int, float]
Curves = Mapping[int, Curve]
# For each arm: its label, and measure -> difference from the baseline.
Differences = Sequence[tuple[str, Mapping[str, Interval]]]


def draw(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """Draws the figure as a PNG by :func:`draw_curves` or :func:`draw_differences`."""
    many = len(sweep.arms) > _MOST_LINES or len(sweep.measures) > _MOST_PANELS
    if many or _has_only_ends(sweep, jobs):
        return draw_differences(sweep, jobs)
    return draw_curves(sweep, jobs)


def draw_curves(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """Draws the evaluations of ``sweep.curves`` over steps, as a PNG.

    A line is the mean over seeds. Around it is the 95 % interval of the paired
    difference from the baseline (Student's t over the seeds): where the interval leaves
    the baseline's line, it excludes zero. One arm's interval is a band; those of
    several arms are bars, side by side at each step. The steps of a later stage
    continue those of the previous stage.
    """
    panels = [_panel(sweep, jobs, name) for name in sweep.measures]
    below = 'lines: means over seeds'
    if any(series.low for panel in panels for series in panel.series):
        base = _baseline(sweep).label
        shape = 'bar' if len(sweep.arms) > 2 else 'band'
        below += (
            f'; {shape}s: 95 % intervals of the paired difference from {base},\n'
            f'drawn around the mean (where a {shape} leaves the line of {base}, '
            'its interval excludes zero)'
        )
    return draw_figure(panels, title=_title(sweep, jobs, sweep.curves), below=below)


def draw_differences(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """Draws each arm's last evaluation minus the baseline's, as a PNG.

    A point is the mean of the paired differences, and a bar is their 95 % interval
    (Student's t over the seeds).
    """
    base = _baseline(sweep)
    last = values(sweep, jobs, first=False)
    of_base = last[base.name]
    differences = [
        (arm.label, {x: difference(y, of_base[x]) for x, y in last[arm.name].items()})
        for arm in sweep.arms
        if arm is not base
    ]
    by_measure = len(sweep.arms) <= min(len(sweep.measures), len(COLORS))
    forests = (_group_by_measure if by_measure else _group_by_arm)(sweep, differences)
    whose = differences[0][0] if len(differences) == 1 else 'each arm'
    return draw_forests(
        forests,
        columns=1 if by_measure else columns_for(len(forests)),
        title=_title(sweep, jobs, sweep.split),
        below=f'{whose} minus the baseline, {base.label}, at the end: '
        'mean and 95 % interval over seeds',
    )


def _group_by_arm(sweep: Sweep, differences: Differences) -> list[Forest]:
    """Makes a panel for each measure, with a row for each arm."""
    rows = [label for label, _ in differences]
    return [
        Forest(
            *(_name(sweep, measure), _difference_in(unit_of(measure)), rows),
            [Dots([of_arm[measure] for _, of_arm in differences])],
        )
        for measure in sweep.measures
    ]


def _group_by_measure(sweep: Sweep, differences: Differences) -> list[Forest]:
    """Makes a panel for each unit, with a row for each of its measures."""
    forests = []
    for unit in dict.fromkeys(map(unit_of, sweep.measures)):
        measures = [name for name in sweep.measures if unit_of(name) == unit]
        dots = [
            Dots([of_arm[name] for name in measures], label, color, marker)
            for (label, of_arm), color, marker in zip(
                differences, COLORS[1:], MARKERS[1:], strict=False
            )
        ]
        rows = [_name(sweep, name) for name in measures]
        forests.append(Forest('', _difference_in(unit), rows, dots))
    return forests


def _difference_in(unit: str) -> str:
    return f'difference ({unit})' if unit else 'difference'


def _has_only_ends(sweep: Sweep, jobs: Sequence[Job]) -> bool:
    """Returns whether ``sweep.curves`` was evaluated only before and after training."""
    return len(sweep.arms) > 1 and all(
        len(curve) < 3
        for measure in sweep.measures
        for curve in _curves(sweep, jobs, sweep.baseline, measure).values()
    )


def _baseline(sweep: Sweep) -> Arm:
    return next(arm for arm in sweep.arms if arm.name == sweep.baseline)


def _name(sweep: Sweep, measure: str) -> str:
    """Returns the label of a measure without its unit, which the axis shows."""
    return sweep.measures[measure].removesuffix(f' ({unit_of(measure)})')


def _title(sweep: Sweep, jobs: Sequence[Job], split: str) -> str:
    num_seeds = len({job.run.seed for job in jobs})
    seeds = f'{num_seeds} seed' + ('s' if num_seeds > 1 else '')
    return f'{sweep.title}: {split} split, {seeds}'


def _panel(sweep: Sweep, jobs: Sequence[Job], measure: str) -> Panel:
    bands, lines = [], []
    base = _curves(sweep, jobs, sweep.baseline, measure)
    unit = unit_of(measure)
    most = 1.0 if unit == SHARE else math.inf
    several = len(sweep.arms) > 2
    for i, (arm, color) in enumerate(zip(sweep.arms, COLORS, strict=False)):
        curves = _curves(sweep, jobs, arm.name, measure)
        steps = _common_steps(curves.values())
        offset = _APART * (i - (len(sweep.arms) - 1) / 2) if several else 0.0
        style = {'color': color, 'offset': offset}
        means = _means(curves, steps)
        lines.append(Series(arm.label, steps, means, marker=MARKERS[i], **style))
        if arm.name != sweep.baseline and curves.keys() == base.keys():
            bands += _band(curves, base, most=most, bars=several, **style)
    series = (*bands, *lines)
    return Panel(_name(sweep, measure), 'step', series, y_label=unit)


def _band(curves: Curves, base: Curves, *, most: float, **style: Any) -> list[Series]:
    """Makes the interval around an arm's means, or nothing for a single seed.

    Covers the steps that the baseline has too, and is cut off at ``most``.
    """
    if len(curves) < 2:
        return []
    steps = _common_steps([*curves.values(), *base.values()])
    low, high = [], []
    for step in steps:
        first, second = (
            np.array([by_seed[seed][step] for seed in base])
            for by_seed in (curves, base)
        )
        _, *ends = metrics.paired_interval(first, second)
        low.append(second.mean() + ends[0])
        high.append(min(second.mean() + ends[1], most))
    means = _means(curves, steps)
    return [Series('', steps, means, low=low, high=high, faint=True, **style)]


def _common_steps(curves: Iterable[Curve]) -> list[int]:
    """Returns the steps at which every seed has a value, so that means compare."""
    first, *later = curves
    return [step for step in first if all(step in curve for curve in later)]


def _means(curves: Curves, steps: Sequence[int]) -> list[float]:
    return [
        float(np.mean([curve[step] for curve in curves.values()])) for step in steps
    ]


def _curves(sweep: Sweep, jobs: Sequence[Job], arm: str, measure: str) -> Curves:
    """Returns seed -> step -> value of one arm."""
    by_seed: dict[int, dict[int, float]] = {}
    ends: dict[int, int] = {}
    for job in (job for job in jobs if job.run.arm == arm):
        seed = job.run.seed
        curve, start = by_seed.setdefault(seed, {}), ends.get(seed, 0)
        for row in evaluations(job):
            if row['split'] == sweep.curves and measure in row:
                curve[start + row['step']] = row[measure]
        ends[seed] = start + job.steps
    return by_seed
