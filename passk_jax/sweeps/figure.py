"""The figure of a sweep, which has a panel for each measure.

Few arms are lines over steps. Of more arms than there are colours, each is a point: how
its last evaluation differs from the baseline's.
"""

from collections.abc import Sequence

import numpy as np

from passk_jax import metrics
from passk_jax.report.arms import COLORS
from passk_jax.report.charts import as_png, draw_figure, new_rows
from passk_jax.report.panels import Panel, Series
from passk_jax.sweeps.declarations import Arm, Sweep
from passk_jax.sweeps.directories import evaluations
from passk_jax.sweeps.opening import Job
from passk_jax.sweeps.results import values

Curve = dict[int, float]


def draw(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """The figure, as a PNG: :func:`draw_curves` or :func:`draw_differences`."""
    many = len(sweep.arms) > len(COLORS)
    return draw_differences(sweep, jobs) if many else draw_curves(sweep, jobs)


def draw_curves(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """The evaluations of ``sweep.curves`` over steps.

    A bold line is the mean over seeds, and a faint one a seed. The steps of a later
    stage follow those of the one before.
    """
    panels = [_panel(sweep, jobs, name) for name in sweep.measures]
    title = _title(sweep, jobs, sweep.curves)
    return draw_figure(panels, title=f'{title} (faint) and their mean')


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
    faint, bold = [], []
    for number, arm in enumerate(sweep.arms):
        style = {
            'color': COLORS[number % len(COLORS)],
            'dashed': number >= len(COLORS),
        }
        curves = _curves(sweep, jobs, arm, measure)
        for curve in curves:
            faint.append(Series('', [*curve], [*curve.values()], faint=True, **style))
        # Only where every seed has a value: other means would be of fewer seeds.
        common = [step for step in curves[0] if all(step in each for each in curves)]
        means = [float(np.mean([each[step] for each in curves])) for step in common]
        bold.append(Series(arm.label, common, means, marked=True, **style))
    return Panel(sweep.measures[measure], 'step', (*faint, *bold))


def _curves(sweep: Sweep, jobs: Sequence[Job], arm: Arm, measure: str) -> list[Curve]:
    """Step -> value, for each seed."""
    by_seed: dict[int, Curve] = {}
    taken: dict[int, int] = {}
    for job in (job for job in jobs if job.run.arm == arm.name):
        seed = job.run.seed
        curve, start = by_seed.setdefault(seed, {}), taken.get(seed, 0)
        for row in evaluations(job):
            if row['split'] == sweep.curves and measure in row:
                curve[start + row['step']] = row[measure]
        taken[seed] = start + job.steps
    return list(by_seed.values())
