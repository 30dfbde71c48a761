"""The figure of a sweep: a panel for each measure, a line for each arm."""

from collections.abc import Sequence

import numpy as np

from passk_jax.report.arms import COLORS
from passk_jax.report.charts import draw_figure
from passk_jax.report.panels import Panel, Series
from passk_jax.sweeps.declarations import Arm, Sweep
from passk_jax.sweeps.directories import evaluations
from passk_jax.sweeps.opening import Job

Curve = dict[int, float]


def draw(sweep: Sweep, jobs: Sequence[Job]) -> bytes:
    """The evaluations of ``sweep.curves`` over steps, as a PNG.

    A bold line is the mean over seeds, and a faint one a seed. The steps of a later
    stage follow those of the one before.
    """
    num_seeds = len({job.run.seed for job in jobs})
    seeds = f'{num_seeds} seed' + ('s' if num_seeds > 1 else '')
    title = f'{sweep.title}: {sweep.curves} split, {seeds}'
    panels = [_panel(sweep, jobs, name) for name in sweep.measures]
    return draw_figure(panels, title=title)


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
        # Where one is undefined, a mean of the others would be of other seeds.
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
