"""Does the steepness of its weight say which estimator keeps more answers alive?

    python -m experiments.steepness

Under an estimator whose advantage is a curve, a problem that is solved with probability
p counts omega(p) times (``passk_jax.advantages.effective_weight``). Its steepness here
is omega(.01) / omega(.3): how much more a hard problem counts than an easy one. The
first expectation of experiments/sweeps/estimators.py is that steepness orders Pass@32
and the entropy at the end of training.

This reads the results of that sweep, or of another variant of it (``--config``). It
writes ``results/<name>_steepness.md`` and a figure, ``.png``. The table has Spearman's
rank correlation over the estimators for each seed, with Student's t interval of the
mean. Other estimators would give another correlation: a second interval, of the means
over seeds, is over estimators. The figure has what each estimator gains on the baseline
in Pass@32 and Pass@1.

Of a sweep that is still running it leaves out the estimators that lack a seed, and says
so. ``--without=nsr,maclaurin`` adds a column without these, and
``--beside=<another variant>`` the rank correlation of Pass@32 in both sweeps.
"""

import functools
import json
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats

from experiments.last_evaluations import LastEvaluations, read_last
from passk_jax import cli
from passk_jax.advantages import ESTIMATORS, effective_weight, select_parameters
from passk_jax.cli import config_file
from passk_jax.errors import InputError
from passk_jax.evaluation import metrics
from passk_jax.files import atomic_write_bytes, atomic_write_text
from passk_jax.report.arms import COLORS, markdown_table
from passk_jax.report.charts import (
    FIGURE_WIDTH,
    PANEL_TITLE,
    TITLE,
    as_png,
    new_figure,
)
from passk_jax.report.scatter import (
    Point,
    draw_points,
    exactly,
    write_legend,
    write_names,
)
from passk_jax.sweeps import Sweep

HARD, EASY = 0.01, 0.3
# The measures of the figure.
_FIGURE_MEASURES = ('pass_at_32', 'pass_at_1')
_TICKS = (1, 1.5, 2, 3, 4, 6, 10, 20, 50, 100, 200)


def main(
    *,
    config: str = 'experiments/sweeps/estimators.py',
    results: str = 'experiments/results',
    without: str = '',
    beside: str = '',
) -> None:
    """Writes the table and the figure, and prints the table."""
    declared = config_file.call(config, 'get_sweep', returns=Sweep)
    directory = pathlib.Path(results)
    last = read_last(declared, directory, [*declared.measures])
    other_sweep = _read_beside(beside, directory, last)
    configs = json.loads((directory / f'{declared.name}.configs.json').read_text())
    steepness = {
        arm: value
        for arm in last.values
        if (value := steepness_of(configs[arm])) is not None
    }
    names = _names(without, steepness)
    text = table(declared, steepness, last, without=names, beside=other_sweep)
    if last.note:
        text += f'\n{last.note}\n'
    name = f'{declared.name}_steepness'
    atomic_write_text(directory / f'{name}.md', text)
    hollow = _not_centered(configs)
    image = draw(declared, steepness, last, hollow=hollow, far=names)
    atomic_write_bytes(directory / f'{name}.png', image)
    print(text, end='')


def steepness_of(saved: Mapping[str, Any]) -> float | None:
    """Computes omega(.01) / omega(.3) of a saved config; ``None`` if it is no curve."""
    if saved['stages']:
        return None
    name = saved['advantage']['name']
    try:
        hard, easy = effective_weight(
            name,
            num_rollouts=saved['sampling']['num_rollouts'],
            p=np.array([HARD, EASY]),
            **select_parameters(name, saved['advantage']),
        )
    except InputError:
        return None
    # Different ways to compute equal weights round differently.
    return round(float(hard / easy), 4)


def _names(without: str, steepness: Mapping[str, float]) -> tuple[str, ...]:
    """Reads a list of arms with commas; InputError for one that is not there."""
    names = tuple(name for name in without.split(',') if name)
    for name in names:
        if name not in steepness:
            raise InputError(f'{without=} has {name!r}, not one of {[*steepness]}')
    if len({*steepness} - {*names}) < 2:
        raise InputError(f'{without=} leaves fewer than two of {[*steepness]}')
    return names


def _read_beside(
    config: str, directory: pathlib.Path, last: LastEvaluations
) -> tuple[Sweep, LastEvaluations] | None:
    """Reads another sweep of the same seeds, if one is named."""
    if not config:
        return None
    sweep = config_file.call(config, 'get_sweep', returns=Sweep)
    evaluations = read_last(sweep, directory, ['pass_at_32'])
    if evaluations.seeds != last.seeds:
        raise InputError(
            f'beside={config!r} has the seeds {[*evaluations.seeds]}, '
            f'not {[*last.seeds]}'
        )
    return sweep, evaluations


def rank_correlations(orders: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Computes Spearman's rank correlation of arrays ``[arms, S]`` by seed, ``[S]``.

    ``orders`` may be ``[arms]``, the same for all seeds.
    """
    orders = np.broadcast_to(orders.T, values.T.shape)
    pairs = zip(orders, values.T, strict=True)
    return np.array([scipy.stats.spearmanr(x, y).statistic for x, y in pairs])


def over_arms(orders: np.ndarray, values: np.ndarray) -> str:
    """Formats the rank correlation of means over seeds, with its interval over arms.

    The 95 % interval is Fisher's, with the standard error of Fieller, Hartley and
    Pearson (1957), sqrt(1.06 / (arms - 3)), as if the arms were independent. There is
    none for fewer than four arms, nor for a perfect correlation.

    Args:
        orders, values: as of :func:`rank_correlations`.
    """
    means = [x.reshape(len(x), -1).mean(axis=1) for x in (orders, values)]
    if np.ptp(means[1]) == 0:
        return 'undefined'
    correlation = scipy.stats.spearmanr(*means).statistic
    if len(values) < 4 or abs(correlation) > 1 - 1e-9:
        return f'{correlation:+.2f}'
    reach = scipy.stats.norm.ppf(0.975) * np.sqrt(1.06 / (len(values) - 3))
    low, high = np.tanh(np.arctanh(correlation) + reach * np.array([-1, 1]))
    return f'{correlation:+.2f} [{low:+.2f}, {high:+.2f}]'


def table(
    sweep: Sweep,
    steepness: Mapping[str, float],
    last: LastEvaluations,
    *,
    without: Collection[str] = (),
    beside: tuple[Sweep, LastEvaluations] | None = None,
) -> str:
    """Returns the correlations, then the estimators in the order of steepness.

    Args:
        sweep: the sweep.
        steepness: arm -> omega(.01) / omega(.3).
        last: the values.
        without: the arms that a further column leaves out.
        beside: another sweep; a row correlates its Pass@32 with that of ``sweep``.
    """
    labels = {arm.name: arm.label for arm in sweep.arms}
    remaining = [arm for arm in steepness if arm not in without]

    def row(label: str, orders: Any, values: Any) -> list[str]:
        """Makes a row; ``orders`` and ``values`` are functions of arms."""
        correlations = rank_correlations(orders(steepness), values(steepness))
        cells = [
            label,
            _with_interval(correlations),
            ' '.join(f'{x:+.2f}' for x in correlations),
        ]
        cells.append(over_arms(orders(steepness), values(steepness)))
        if without:
            cells.append(
                _with_interval(rank_correlations(orders(remaining), values(remaining)))
            )
        return cells

    def steep(arms: Collection[str]) -> np.ndarray:
        return np.array([steepness[arm] for arm in arms])

    rows = [
        row(label, steep, functools.partial(_values, last, measure))
        for measure, label in sweep.measures.items()
    ]
    if beside:
        label = f'Pass@32, against that of {beside[0].name}'
        orders = functools.partial(_values, beside[1], 'pass_at_32')
        rows.append(row(label, orders, functools.partial(_values, last, 'pass_at_32')))
    head = ['at the end, against steepness', 'rank correlation', 'of each seed']
    head.append('of the means, interval over estimators')
    if without:
        head.append(f'without {", ".join(without)}')
    lines = markdown_table(head, rows)
    lines += ['']
    lines += markdown_table(
        ['estimator', 'ω(.01) / ω(.3)', *sweep.measures.values()],
        [
            [
                labels[arm],
                f'{steepness[arm]:.2f}',
                *(f'{x.mean():.3f}' for x in last.values[arm].values()),
            ]
            for arm in sorted(steepness, key=steepness.__getitem__)
        ],
    )
    return '\n'.join(lines) + '\n'


def _values(last: LastEvaluations, measure: str, arms: Collection[str]) -> np.ndarray:
    """Returns a measure of arms, ``[arms, S]``."""
    return np.stack([last.values[arm][measure] for arm in arms])


def _with_interval(of_seeds: np.ndarray) -> str:
    if len(of_seeds) < 2 or not np.isfinite(of_seeds).all():
        return f'{of_seeds.mean():+.2f}'
    # No correlation lies outside of [-1, 1].
    mean, *ends = metrics.paired_interval(of_seeds, np.zeros_like(of_seeds))
    low, high = np.clip(ends, -1, 1)
    return f'{mean:+.2f} [{low:+.2f}, {high:+.2f}]'


def draw(
    sweep: Sweep,
    steepness: Mapping[str, float],
    last: LastEvaluations,
    *,
    hollow: Collection[str],
    far: Collection[str] = (),
) -> bytes:
    """Draws the arms' gain over the baseline against steepness, in two panels.

    Args:
        sweep, steepness, last: as in :func:`table`.
        hollow: the arms with hollow markers.
        far: arms that are named below a panel if they lie far below all others.
    """
    figure = new_figure(FIGURE_WIDTH, 7.2)
    figure.set_layout_engine('constrained', h_pad=0.07)
    axes = figure.subplots(len(_FIGURE_MEASURES), 1, sharex=True)
    title = f'{sweep.title}: {sweep.split} split, {len(last.seeds)} seeds'
    figure.suptitle(title, **TITLE)
    panels = {}
    for measure, ax in zip(_FIGURE_MEASURES, axes, strict=True):
        label = sweep.measures[measure]
        values = _values(last, measure, steepness)
        correlations = rank_correlations(np.array([*steepness.values()]), values)
        text = _with_interval(correlations).replace('-', '−')
        ax.set_title(f'{label}, rank correlation {text}', **PANEL_TITLE)
        ax.set_ylabel(f'{label} minus that of {sweep.baseline}\n(share of problems)')
        ax.set_xscale('log')
        ax.minorticks_off()
        ax.axhline(0.0, color='black', linewidth=0.8)
        ax.grid(alpha=0.25)
        ax.spines[['top', 'right']].set_visible(False)
        panels[ax], below = _split(_points(steepness, last, measure, hollow), far)
        draw_points(panels[ax], ax)
        if below:
            names = ', '.join(f'{x.name} {x.y[0]:.2f}'.replace('-', '−') for x in below)
            place = {'xy': (0.995, 0.02), 'xycoords': 'axes fraction'}
            ax.annotate(f'far below: {names}', fontsize=8, ha='right', **place)
    ticks = [x for x in _TICKS if ax.viewLim.x0 < x < ax.viewLim.x1]
    ax.set_xticks(ticks, [f'{x:g}' for x in ticks])
    axes[-1].set_xlabel(
        'ω(.01) / ω(.3): how much more a problem counts that is solved with '
        'probability .01 than one with .3'
    )
    figure.supxlabel(
        'means with 95 % intervals over seeds; estimators that are equally steep stand '
        'side by side',
        fontsize=9,
    )
    write_legend(axes[0])
    write_names(figure, panels)
    return as_png(figure)


def _split(
    points: Sequence[Point], far: Collection[str]
) -> tuple[list[Point], list[Point]]:
    """Splits points into those to draw, and those of ``far`` far below all others.

    Far is more than the range of the others.
    """
    ends = [point.y[0] for point in points if point.name not in far]
    lowest = min(ends) - (max(ends) - min(ends))
    below = [x for x in points if x.name in far and x.y[0] < lowest]
    return [x for x in points if x not in below], below


def _points(
    steepness: Mapping[str, float],
    last: LastEvaluations,
    measure: str,
    hollow: Collection[str],
) -> list[Point]:
    points = []
    for arm, value in _side_by_side(steepness).items():
        style = {'kind': 'centered', 'color': COLORS[1]}
        if arm in hollow:
            style |= {'kind': 'not centered', 'hollow': True}
        if arm == last.baseline:
            style = {'kind': f'{arm} itself', 'color': 'black', 'marker': 'X'}
        gain = last.difference(arm, measure)
        points.append(Point(exactly(value), gain, arm, **style))
    return points


def _side_by_side(steepness: Mapping[str, float]) -> dict[str, float]:
    """Shifts equal values apart, by the width of a marker."""
    places = {}
    for arm, value in steepness.items():
        equal = [other for other, x in steepness.items() if x == value]
        places[arm] = value * 1.05 ** (equal.index(arm) - (len(equal) - 1) / 2)
    return places


def _not_centered(configs: Mapping[str, Any]) -> set[str]:
    """Returns the arms whose estimators are not centered."""
    names = {arm: saved['advantage']['name'] for arm, saved in configs.items()}
    return {x for x, name in names.items() if not ESTIMATORS[name].centered}


if __name__ == '__main__':
    cli.run(main)
