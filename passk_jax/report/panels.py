"""Makes the report's panels of metrics and advantage curves, which ``charts.py`` draws.

A run has six panels of metrics, a mixture two more, a policy with experts three more,
and each estimator three of its advantage curve. ``diagnostic_panels.py`` and
``timing_panels.py`` make the others.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from passk_jax import sharding
from passk_jax.advantages import (
    estimator_row,
    matching_scale,
    select_parameters,
    tabulated_curve,
)
from passk_jax.data.orders import part_of
from passk_jax.errors import InputError
from passk_jax.report.run_data import Row, Run, ks_of
from passk_jax.report.thinning import MEAN_OF

_TRAIN = '#5c7cfa'
SPLITS = ('#f08c00', '#0ca678', '#ae3ec9', '#e03131')
# From small to large k; legible on white and on black.
_BY_K = ('#5f4bd8', '#9440c9', '#c8429d', '#e8566c', '#f28048', '#e9ad2f')
POSITIVE, NEGATIVE, _ETA, _WEIGHT = '#2b9e4b', '#e8590c', '#5c7cfa', '#9440c9'
_SMOOTHED_FROM = 40


@dataclasses.dataclass(frozen=True)
class Series:
    """A line, or a layer of bars, in a panel.

    Attributes:
        label: the name in the legend; ``''``: none.
        x, y: the points.
        color: ``#rrggbb``.
        low, high: the interval around the line, drawn as a band, or as bars at fewer
            than three points; ``None``: no interval.
        dashed, faint: the line's style; faint lines are background.
        marker: a marker of matplotlib; ``''``: none.
        bars: whether to draw intervals as bars at any number of points.
        offset: shift to the right, in points, so that bars of several lines do not
            overlap.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    color: str
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    faint: bool = False
    marker: str = ''
    bars: bool = False
    offset: float = 0.0


@dataclasses.dataclass(frozen=True)
class Panel:
    """A chart of one or more series.

    Attributes:
        title: the chart's title.
        x_label: the label of the x axis.
        series: the lines; none in a young run.
        y_label: the label of the y axis; ``''``: none.
        log2: whether the x axis is logarithmic with base 2.
        floor, ceiling: bounds of the values, which the y axis does not exceed.
        borders: the places on the x axis where later stages of the run begin.
        stacked: whether the series are stacked bars; all then have the same x.
        top: the end of the y axis of stacked bars, which cuts off higher ones;
            ``None``: fits the highest bar.
    """

    title: str
    x_label: str
    series: tuple[Series, ...]
    y_label: str = ''
    log2: bool = False
    floor: float | None = None
    ceiling: float | None = None
    borders: tuple[int, ...] = ()
    stacked: bool = False
    top: float | None = None


def metric_panels(run: Run) -> list[Panel]:
    """Makes panels of reward, pass@k by step and by k, entropy, diversity and length.

    A mixture, or a task with a few categories, has two more: reward and pass@1 by part.
    A policy with experts has three more.
    """
    diversity, length = _both(run, 'rarefied_diversity'), _both(run, 'response_length')
    reward = plot_every_step(run.train, 'reward', 'train')
    panels = [
        Panel('Training reward', 'step', reward, floor=0.0),
        _pass_over_steps(run),
        _pass_over_k(run),
        Panel('Entropy (nats a token)', 'step', _both(run, 'entropy'), floor=0.0),
        Panel('Distinct of 4 wrong answers', 'step', diversity, floor=1.0, ceiling=4.0),
        Panel('Response length (tokens)', 'step', length, floor=0.0),
        *_make_part_panels(run),
        *_make_expert_panels(run),
    ]
    return with_borders(run, panels)


def with_borders(run: Run, panels: list[Panel]) -> list[Panel]:
    """Returns the panels; those over steps mark where later stages begin."""
    borders = run.borders()
    return [
        dataclasses.replace(panel, borders=borders if panel.x_label == 'step' else ())
        for panel in panels
    ]


def _points(rows: list[Row], name: str) -> tuple[list[float], list[float]]:
    pairs = [(row['step'], row[name]) for row in rows if row.get(name) is not None]
    return [x for x, _ in pairs], [y for _, y in pairs]


def plot_every_step(rows: list[Row], name: str, label: str = '') -> tuple[Series, ...]:
    """Plots a metric of every step; a long run adds a moving mean."""
    x, y = _points(rows, name)
    if not x:
        return ()
    if len(x) < _SMOOTHED_FROM:
        return (Series(label, x, y, _TRAIN),)
    means, window = _moving_mean(y)
    window *= max(row.get(MEAN_OF, 1) for row in rows)
    legend = ', '.join(filter(None, (label, f'mean of {window} steps')))
    return Series('', x, y, _TRAIN, faint=True), Series(legend, x, means, _TRAIN)


def _moving_mean(y: Sequence[float]) -> tuple[list[float], int]:
    """Returns trailing means and their window, a twentieth of the values or 5."""
    window = max(5, len(y) // 20)
    sums = np.cumsum([0.0, *y])
    starts = np.maximum(np.arange(1, len(y) + 1) - window, 0)
    means = (sums[1:] - sums[starts]) / (np.arange(1, len(y) + 1) - starts)
    return means.tolist(), window


def color_of(i: int, count: int) -> str:
    """Returns the color of series ``i`` of ``count`` on a scale from dark to bright."""
    return _BY_K[round(i * (len(_BY_K) - 1) / max(1, count - 1))]


def _make_part_panels(run: Run) -> list[Panel]:
    """Makes panels by part of a mixture, or by category, if they fit in a chart."""
    matches = (
        re.fullmatch(r'(.+)/problems', name, re.S) for row in run.train for name in row
    )
    parts = sorted({part_of(match[1]) for match in matches if match})
    if not 1 < len(parts) <= len(_BY_K):
        return []
    split = most_evaluated(run)
    rewards, passes = [], []
    for i, part in enumerate(parts):
        color = color_of(i, len(parts))
        x, y = _points(run.train, f'{part}/reward')
        means = y if len(y) < _SMOOTHED_FROM else _moving_mean(y)[0]
        rewards.append(Series(part, x, means, color))
        x, y = _points(run.evaluations.get(split, []), f'{part}/pass_at_1')
        passes.append(Series(part, x, y, color, marker='o'))
    title = f'Pass@1 by part, {split}'
    return [
        Panel('Training reward by part', 'step', tuple(rewards), floor=0.0),
        *(
            [Panel(title, 'step', tuple(passes), floor=0.0, ceiling=1.0)]
            if split
            else []
        ),
    ]


def _make_expert_panels(run: Run) -> list[Panel]:
    """Makes panels that show whether the router of a policy with experts goes wrong."""
    metrics = {
        'Load of the busiest expert': 'expert_load_max',
        'Entropy of the router (nats)': 'layers_router_entropy',
        'Sampler-learner gap (nats)': 'sampler_gap_mean',
    }
    if not any('expert_load_max' in row for row in run.train):
        return []
    return [
        Panel(title, 'step', plot_every_step(run.train, name, 'train'), floor=0.0)
        for title, name in metrics.items()
    ]


def _both(run: Run, name: str) -> tuple[Series, ...]:
    series = list(plot_every_step(run.train, name, 'train'))
    for split, color in _colored(run):
        x, y = _points(run.evaluations[split], name)
        if x:
            series.append(Series(split, x, y, color, marker='o'))
    return tuple(series)


def _colored(run: Run) -> list[tuple[str, str]]:
    splits = list(run.evaluations)
    return [(split, SPLITS[i % len(SPLITS)]) for i, split in enumerate(splits)]


def most_evaluated(run: Run) -> str:
    """Returns the split with the most evaluations; ``''`` without evaluations."""
    evaluated = run.evaluations
    return max(evaluated, key=lambda split: len(evaluated[split]), default='')


def _pass_over_steps(run: Run) -> Panel:
    split = most_evaluated(run)
    rows, series = run.evaluations.get(split, []), []
    ks = ks_of(rows)
    for i, k in enumerate(ks):
        complete = [row for row in rows if row.get(f'pass_at_{k}') is not None]
        x, y = _points(complete, f'pass_at_{k}')
        low, high = (
            [row.get(f'pass_at_{k}_{end}', row[f'pass_at_{k}']) for row in complete]
            for end in ('low', 'high')
        )
        color = color_of(i, len(ks))
        series.append(Series(f'k={k}', x, y, color, low, high, marker='o'))
    title = f'Pass@k, {split}' if split else 'Pass@k'
    return Panel(title, 'step', tuple(series), floor=0.0, ceiling=1.0)


def _pass_over_k(run: Run) -> Panel:
    """Plots pass@k over k of the first and last evaluation of each split."""
    series = []
    for split, color in _colored(run):
        rows = run.evaluations[split]
        for row in rows[:1] + rows[1:][-1:]:
            ks = [k for k in ks_of([row]) if row[f'pass_at_{k}'] is not None]
            y = [row[f'pass_at_{k}'] for k in ks]
            bounds = [
                [row.get(f'pass_at_{k}_{end}', row[f'pass_at_{k}']) for k in ks]
                for end in ('low', 'high')
            ]
            style = {'dashed': row is rows[0] and len(rows) > 1, 'marker': 'o'}
            label = f'{split}, step {row["step"]}'
            series.append(Series(label, ks, y, color, *bounds, **style))
    title, lines = 'Pass@k by k, first and last', tuple(series)
    return Panel(title, 'k', lines, log2=True, floor=0.0, ceiling=1.0)


def curve_in_use(
    run: Run, section: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Tabulates the advantage curve of the run's estimator, scaled as in the run.

    Args:
        run: the run.
        section: the section ``advantage`` of a stage; ``None``: of the first stage.

    Returns:
        The table of ``advantages.tabulated_curve``; ``None`` without a config, or for
        an unknown estimator.
    """
    num_rollouts = run.option('sampling.num_rollouts')
    section = run.advantages()[0][1] if section is None else section
    name = section.get('name', '')
    try:
        estimator_row(name)
    except InputError:
        # From another version, or from a file that no longer exists.
        return None
    if not num_rollouts:
        return None
    parameters = select_parameters(name, section)
    # Only process 0 draws; the caller's mesh would need all processes.
    with jax.set_mesh(sharding.one_device_mesh(jax.local_devices()[0])):
        size = {'num_rollouts': num_rollouts}
        curve = tabulated_curve(name, **size, **parameters)
        p = section.get('match_weight_at')
        if not p:
            return curve
        scale = matching_scale(name, p=p, **size, **parameters)
    for key in ('positive', 'negative', 'eta', 'weight'):
        curve[key] = [scale * value for value in curve[key]]
    curve['note'] += (
        f' All values are scaled by {scale:.3g}, so that the weight equals that of '
        f'pass_at_1 where a response is right with probability {p:g}.'
    )
    return curve


def advantage_panels(curve: Mapping[str, Any]) -> list[Panel]:
    """Makes panels of the advantages, their absolute sum eta, and the weight."""
    accuracy = curve['accuracy']
    label = 'accuracy: the share of a problem’s responses that are right'
    return [
        Panel(
            f'Advantage, {curve["name"]}',
            label,
            (
                Series('right response', accuracy, curve['positive'], POSITIVE),
                Series('wrong response', accuracy, curve['negative'], NEGATIVE),
            ),
        ),
        Panel(
            'Sum of absolute advantages η',
            label,
            (Series('η', accuracy, curve['eta'], _ETA),),
            floor=0.0,
        ),
        Panel(
            'Weight ω on the gradient of p',
            'p: the probability that a response to a problem is right',
            (Series('ω', accuracy, curve['weight'], _WEIGHT),),
            floor=min(0.0, *curve['weight']),
        ),
    ]
