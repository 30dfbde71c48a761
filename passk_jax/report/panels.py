"""What the report plots: panels of named series.

A run has six panels, a mixture two more, a policy with experts three more, and each
has three for the advantage curve of its estimator. Those of diagnostics and timings
have modules of their own. ``charts.py`` draws them.
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
    own_parameters,
    tabulated_curve,
)
from passk_jax.data.orders import part_of
from passk_jax.errors import InputError
from passk_jax.report.run_data import Row, Run, ks_of
from passk_jax.report.thinning import MEAN_OF

_TRAIN = '#5c7cfa'
SPLITS = ('#f08c00', '#0ca678', '#ae3ec9', '#e03131')
# From small k to large: dark to bright, and legible on white and on black.
_BY_K = ('#5f4bd8', '#9440c9', '#c8429d', '#e8566c', '#f28048', '#e9ad2f')
POSITIVE, NEGATIVE, _ETA, _WEIGHT = '#2b9e4b', '#e8590c', '#5c7cfa', '#9440c9'
_SMOOTHED_FROM = 40


@dataclasses.dataclass(frozen=True)
class Series:
    """One line.

    Attributes:
        label: its name in the legend; ``''``: not in the legend.
        x, y: its points.
        color: as ``#rrggbb``.
        low, high: a band around the line, bars at fewer than three points, or ``None``.
        dashed, faint: its style; a faint line is the background of another.
        marker: of each point, in the letters of matplotlib; ``''``: none.
        bars: whether low and high are bars at any number of points.
        offset: how far to the right of x it is drawn, in points: bars of several lines
            would cover each other.
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
    """One chart.

    Attributes:
        title: above the chart.
        x_label: under the x axis.
        series: the lines; none in a young run.
        y_label: beside the y axis; ``''``: the title says enough.
        log2: whether the x axis shows powers of two.
        floor, ceiling: bounds of the values, which the y axis does not exceed.
        borders: where a stage of the run begins, on the x axis.
        stacked: whether the series are layers of bars, each on top of the one before;
            all have the same x.
        top: where the y axis of stacked series ends, and cuts off what is higher;
            ``None``: nothing is.
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
    """Reward, pass@k over steps, pass@k over k, entropy, diversity, length.

    Two more show reward and pass@1 of each part, if training has a few, and three the
    experts of a policy that has them.
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
    """The panels, those over steps with a mark where a later stage begins."""
    borders = run.borders()
    return [
        dataclasses.replace(panel, borders=borders if panel.x_label == 'step' else ())
        for panel in panels
    ]


def _points(rows: list[Row], name: str) -> tuple[list[float], list[float]]:
    pairs = [(row['step'], row[name]) for row in rows if row.get(name) is not None]
    return [x for x, _ in pairs], [y for _, y in pairs]


def plot_every_step(rows: list[Row], name: str, label: str = '') -> tuple[Series, ...]:
    """A metric of every step; a long run adds a moving mean."""
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
    """Means over the values so far, at most a twentieth of all, and that number."""
    window = max(5, len(y) // 20)
    sums = np.cumsum([0.0, *y])
    starts = np.maximum(np.arange(1, len(y) + 1) - window, 0)
    means = (sums[1:] - sums[starts]) / (np.arange(1, len(y) + 1) - starts)
    return means.tolist(), window


def color_of(i: int, count: int) -> str:
    """The color of series ``i`` of ``count``, spread over the scale."""
    return _BY_K[round(i * (len(_BY_K) - 1) / max(1, count - 1))]


def _make_part_panels(run: Run) -> list[Panel]:
    """The parts of a mixture, or the categories of a task, if they fit in a chart."""
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
    """What tells whether the router of a policy with experts goes wrong."""
    metrics = {
        'Load of the busiest expert (1: even)': 'expert_load_max',
        'Entropy of the router (nats)': 'layers_router_entropy',
        'Gap of sampler and learner (nats)': 'sampler_gap_mean',
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
    """The split with the most evaluations; ``''`` without any."""
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
    """The first and the last evaluation of each split."""
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
    """The advantage curve of an estimator of the run, tabulated and scaled as there.

    Args:
        run: the run.
        section: the ``advantage`` of one of its stages; ``None``: of the first.

    Returns:
        What ``advantages.tabulated_curve`` returns; ``None`` without a config, or of an
        estimator that is not known here.
    """
    num_rollouts = run.option('sampling.num_rollouts')
    section = run.advantages()[0][1] if section is None else section
    name = section.get('name', '')
    try:
        estimator_row(name)
    except InputError:
        # The estimator is of another version, or its file is gone.
        return None
    if not num_rollouts:
        return None
    parameters = own_parameters(name, section)
    # Process 0 draws alone: a mesh that the caller has set would want the others.
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
        f' All are scaled by {scale:.3g}, so that they weigh as much as those of '
        f'pass_at_1 where a response is right with probability {p:g}.'
    )
    return curve


def advantage_panels(curve: Mapping[str, Any]) -> list[Panel]:
    """Advantages of right and wrong responses, eta and weight, against accuracy."""
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
