"""The figure of a sweep: lines over steps, or forests of differences at the end.

Up to four arms and six measures are lines, with a panel for each measure, if there are
three evaluations or more. What is more, or has no course, is a forest, whose points are
differences from the baseline at the end. If there are as many measures as arms, each
measure has a row, in which every arm has its own marker. Otherwise each arm has a row,
and each measure a panel.
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
# Between the bars of two arms, in points.
_APART = 2.5

Curve = Mapping[int, float]
Curves = Mapping[int, Curve]
# The label of each arm, and how its measures differ.
Differences = Sequence[tuple[str, Mapping[str, Interval]]]


def draw(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """The figure, as a PNG: :func:`draw_curves` or :func:`draw_differences`."""
    many = len(sweep.arms) > _MOST_LINES or len(sweep.measures) > _MOST_PANELS
    if many or _has_no_course(sweep, jobs):
        return draw_differences(sweep, jobs)
    return draw_curves(sweep, jobs)


def draw_curves(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """The evaluations of ``sweep.curves`` over steps.

    A line is the mean over seeds. Around it is the 95 % interval of its paired
    differences from the baseline (Student's t over the seeds): where it leaves the
    baseline's line, it excludes zero. It is a band, or bars if several arms have one;
    then the arms stand side by side at each step. The steps of a later stage follow
    those of the one before.
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
    """The last evaluations of ``sweep.split``, each arm's minus the baseline's.

    A point is the mean of the paired differences, and its bar their 95 % interval
    (Student's t over the seeds).
    """
    base = _baseline(sweep)
    last = values(sweep, jobs, first=False)
    differences = [
        (
            arm.label,
            {
                name: difference(last[arm.name][name], last[base.name][name])
                for name in sweep.measures
            },
        )
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
    """A panel for each measure, and a row for each arm."""
    rows = [label for label, _ in differences]
    return [
        Forest(
            *(_name(sweep, measure), _difference_in(unit_of(measure)), rows),
            [Dots([of_arm[measure] for _, of_arm in differences])],
        )
        for measure in sweep.measures
    ]


def _group_by_measure(sweep: Sweep, differences: Differences) -> list[Forest]:
    """A panel for each unit, and a row for each of its measures."""
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


def _has_no_course(sweep: Sweep, jobs: Sequence[Job]) -> bool:
    """Whether ``sweep.curves`` has only a beginning and an end."""
    return len(sweep.arms) > 1 and all(
        len(curve) < 3
        for measure in sweep.measures
        for curve in _curves(sweep, jobs, sweep.baseline, measure).values()
    )


def _baseline(sweep: Sweep) -> Arm:
    return next(arm for arm in sweep.arms if arm.name == sweep.baseline)


def _name(sweep: Sweep, measure: str) -> str:
    """What the sweep calls a measure, without the unit, which the axis has."""
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
        line = Series(
            arm.label, steps, _means(curves, steps), marker=MARKERS[i], **style
        )
        lines.append(line)
        if arm.name != sweep.baseline and curves.keys() == base.keys():
            bands += _band(curves, base, most=most, bars=several, **style)
    series = (*bands, *lines)
    return Panel(_name(sweep, measure), 'step', series, y_label=unit)


def _band(curves: Curves, base: Curves, *, most: float, **style: Any) -> list[Series]:
    """The means of an arm inside of the interval of its differences; of one seed none.

    Only at the steps that the baseline has too. No interval goes above ``most``.
    """
    if len(curves) < 2:
        return []
    steps = _common_steps([*curves.values(), *base.values()])
    low, high = [], []
    for step in steps:
        pair = [
            np.array([by_seed[seed][step] for seed in base])
            for by_seed in (curves, base)
        ]
        _, *ends = metrics.paired_interval(*pair)
        low.append(pair[1].mean() + ends[0])
        high.append(min(pair[1].mean() + ends[1], most))
    means = _means(curves, steps)
    return [Series('', steps, means, low=low, high=high, faint=True, **style)]


def _common_steps(curves: Iterable[Curve]) -> list[int]:
    """Where every seed has a value: other means would be of fewer seeds."""
    first, *later = curves
    return [step for step in first if all(step in curve for curve in later)]


def _means(curves: Curves, steps: Sequence[int]) -> list[float]:
    return [
        float(np.mean([curve[step] for curve in curves.values()])) for step in steps
    ]


def _curves(sweep: Sweep, jobs: Sequence[Job], arm: str, measure: str) -> Curves:
    """Seed -> step -> value."""
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
