"""The figure of a sweep, which has a panel for each measure.

Few arms are lines over steps. Of more arms than there are colours, each is a point: how
its last evaluation differs from the baseline's.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from passk_jax import metrics
from passk_jax.report.arms import COLORS
from passk_jax.report.charts import as_png, draw_figure, new_rows
from passk_jax.report.panels import Panel, Series
from passk_jax.sweeps.declarations import Sweep
from passk_jax.sweeps.directories import evaluations
from passk_jax.sweeps.opening import Job
from passk_jax.sweeps.results import values

Curve = Mapping[int, float]
Curves = Mapping[int, Curve]


def draw(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """The figure, as a PNG: :func:`draw_curves` or :func:`draw_differences`."""
    many = len(sweep.arms) > len(COLORS)
    return draw_differences(sweep, jobs) if many else draw_curves(sweep, jobs)


def draw_curves(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """The evaluations of ``sweep.curves`` over steps.

    A line is the mean over seeds. Around it is the 95 % interval of its paired
    differences from the baseline (Student's t over the seeds): where the band leaves
    the baseline's line, the interval excludes zero. The steps of a later stage follow
    those of the one before.
    """
    panels = [_panel(sweep, jobs, name) for name in sweep.measures]
    (base,) = (arm for arm in sweep.arms if arm.name == sweep.baseline)
    below = ''
    if any(series.low for panel in panels for series in panel.series):
        said = f'95 % intervals of the difference from {base.label}'
        below = f'lines: means; around them: {said}'
    return draw_figure(panels, title=_title(sweep, jobs, sweep.curves), below=below)


def draw_differences(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """The last evaluations of ``sweep.split``, each arm's less the baseline's.

    A point is the mean of the paired differences, and its bar their 95 % interval
    (Student's t over the seeds).
    """
    (base,) = (arm for arm in sweep.arms if arm.name == sweep.baseline)
    others = [arm for arm in sweep.arms if arm is not base][::-1]
    last = values(sweep, jobs, first=False)
    # In inches, as are the margins of the labels.
    height = 0.27 * len(others) + 1.4
    figure, axes = new_rows(
        [arm.label for arm in others],
        [*sweep.measures.values()],
        size=(2.0 + 2.0 * len(sweep.measures), height),
    )
    figure.suptitle(_title(sweep, jobs, sweep.split), fontsize=12, fontweight='bold')
    for ax, name in zip(axes, sweep.measures, strict=True):
        for place, arm in enumerate(others):
            pair = last[arm.name][name], last[base.name][name]
            if not np.isfinite(pair[0] - pair[1]).all():
                continue
            mean, bar = float((pair[0] - pair[1]).mean()), None
            if len(pair[0]) > 1:
                mean, low, high = metrics.paired_interval(*pair)
                bar = [[mean - low], [high - mean]]
            ax.errorbar(mean, place, xerr=bar, fmt='o', color=COLORS[1], markersize=4)
        ax.axvline(0.0, color='black', linewidth=0.8)
    figure.supxlabel(f'difference from {base.label}, 95 % interval', fontsize=9)
    figure.tight_layout()
    return as_png(figure)


def _title(sweep: Sweep, jobs: Sequence[Job], split: str) -> str:
    num_seeds = len({job.run.seed for job in jobs})
    seeds = f'{num_seeds} seed' + ('s' if num_seeds > 1 else '')
    return f'{sweep.title}: {split} split, {seeds}'


def _panel(sweep: Sweep, jobs: Sequence[Job], measure: str) -> Panel:
    bands, lines = [], []
    base = _curves(sweep, jobs, sweep.baseline, measure)
    for number, arm in enumerate(sweep.arms):
        color = COLORS[number]
        curves = _curves(sweep, jobs, arm.name, measure)
        steps = _common_steps(curves.values())
        line = Series(arm.label, steps, _means(curves, steps), color, marked=True)
        lines.append(line)
        if arm.name != sweep.baseline and curves.keys() == base.keys():
            bands += _band(curves, base, color)
    return Panel(sweep.measures[measure], 'step', (*bands, *lines))


def _band(curves: Curves, base: Curves, color: str) -> list[Series]:
    """The means of an arm inside of the interval of its differences; of one seed none.

    Only at the steps that the baseline has too.
    """
    if len(curves) < 2:
        return []
    steps = _common_steps([*curves.values(), *base.values()])
    low, high = [], []
    for step in steps:
        pair = [
            np.array([each[seed][step] for seed in base]) for each in (curves, base)
        ]
        _, *ends = metrics.paired_interval(*pair)
        low.append(pair[1].mean() + ends[0])
        high.append(pair[1].mean() + ends[1])
    means = _means(curves, steps)
    return [Series('', steps, means, color, low=low, high=high, faint=True)]


def _common_steps(curves: Iterable[Curve]) -> list[int]:
    """Where every seed has a value: other means would be of fewer seeds."""
    first, *others = curves
    return [step for step in first if all(step in each for each in others)]


def _means(curves: Curves, steps: Sequence[int]) -> list[float]:
    return [float(np.mean([each[step] for each in curves.values()])) for step in steps]


def _curves(sweep: Sweep, jobs: Sequence[Job], arm: str, measure: str) -> Curves:
    """Seed -> step -> value."""
    by_seed: dict[int, dict[int, float]] = {}
    taken: dict[int, int] = {}
    for job in (job for job in jobs if job.run.arm == arm):
        seed = job.run.seed
        curve, start = by_seed.setdefault(seed, {}), taken.get(seed, 0)
        for row in evaluations(job):
            if row['split'] == sweep.curves and measure in row:
                curve[start + row['step']] = row[measure]
        taken[seed] = start + job.steps
    return by_seed
