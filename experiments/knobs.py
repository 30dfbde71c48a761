"""Is one estimator better than another, or is its knob only turned further?

    python -m experiments.knobs --setting=medium

It reads the results of experiments/sweeps/knobs.py and trains nothing. Points of one
knob, with Pass@1 Training as their end, are a *front*: Pass@32 as a function of Pass@1,
linear between points, of means over seeds. The table has each point's Pass@1 and
Pass@32, and by how much its Pass@32 is higher than the front of ``pass_at_k`` at the
same Pass@1. Pass@1 Training that stops early is a front too, of its steps.

A front has no value for one seed, for a seed's points need not fall. So the interval of
that difference is from the means without each seed in turn: Student's t of the
jackknife's pseudo-values (J. W. Tukey, "Bias and confidence in not-quite large
samples", 1958), moved from their mean to the difference itself. Where a front is steep
the two are far apart, and the interval means little. A point whose Pass@1 the front
does not reach has no difference.

It writes ``results/knobs_<setting>_fronts.md`` and ``.png``.
"""

import pathlib
from collections.abc import Mapping

import numpy as np

from experiments.fronts import Front, draw_fronts
from experiments.last_evaluations import read_last, read_steps
from experiments.sweeps.knobs import KNOBS, get_sweep, name_of
from passk_jax import cli
from passk_jax.files import atomic_write_bytes, atomic_write_text
from passk_jax.report.arms import (
    Interval,
    difference,
    format_difference,
    markdown_table,
    mean_interval,
)

MEASURES = ('pass_at_1', 'pass_at_32')
REFERENCE, STOPPED = 'pass_at_k', 'stopped early'

Fronts = Mapping[str, Mapping[str, np.ndarray]]
"""Front -> name of a point -> Pass@1 and Pass@32 of each seed, ``[2, S]``."""


def main(*, setting: str = 'medium', results: str = 'experiments/results') -> None:
    """Writes the table and the figure, and prints the table."""
    directory = pathlib.Path(results)
    fronts = read(setting, directory)
    text = '\n'.join(table(fronts)) + '\n'
    path = directory / f'knobs_{setting}_fronts'
    atomic_write_text(path.with_suffix('.md'), text)
    atomic_write_bytes(path.with_suffix('.png'), draw(fronts, setting))
    print(text, end='')


def read(setting: str, directory: pathlib.Path) -> Fronts:
    """Reads the fronts; raises InputError if the results lack seeds."""
    sweep = get_sweep(f'difficulty={setting}')
    last = read_last(sweep, directory, MEASURES)
    points = {
        arm: np.stack([values[name] for name in MEASURES])
        for arm, values in last.values.items()
    }
    steps = read_steps(sweep, directory, MEASURES, last, arm='pass_at_1')
    stopped = {
        f'pass_at_1, step {step}': np.stack([values[name] for name in MEASURES])
        for step, values in steps.items()
        if 0 < step < max(steps)
    }
    begin = {'pass_at_1': points['pass_at_1']}
    by_front = {
        front: {
            name: points[name]
            for value in values
            if (name := name_of(front, value)) in points
        }
        for front, (_, values) in KNOBS.items()
    }
    return {
        **{front: begin | of_knob for front, of_knob in by_front.items()},
        'maxrl': begin | {'maxrl': points['maxrl']},
        STOPPED: begin | dict(reversed(stopped.items())),
    }


def above(point: np.ndarray, front: Mapping[str, np.ndarray]) -> Interval:
    """Computes how far a point's Pass@32 is above a front at the same Pass@1.

    Args:
        point: Pass@1 and Pass@32 of each seed, ``[2, S]``.
        front: points of the front, ``[2, S]`` each.

    Returns:
        The difference of means over seeds, and its interval. They are NaN if the point
        is outside of the front, with all seeds or without one of them.
    """
    values = np.stack([*front.values()])
    seeds = np.arange(point.shape[1])

    def without(seed: int) -> float:
        remaining = seeds != seed
        return _above(
            point[:, remaining].mean(axis=1), values[..., remaining].mean(axis=-1)
        )

    estimate, count = without(-1), len(seeds)
    pseudo = np.array([count * estimate - (count - 1) * without(s) for s in seeds])
    _, low, high = mean_interval(pseudo)
    shift = estimate - pseudo.mean()
    return estimate, low + shift, high + shift


def _above(point: np.ndarray, front: np.ndarray) -> float:
    """Does so for means over seeds, ``[2]`` and ``[points, 2]``."""
    x, y = front[front[:, 0].argsort()].T
    return float(point[1] - np.interp(point[0], x, y, left=np.nan, right=np.nan))


def table(fronts: Fronts) -> list[str]:
    """Returns a row for each point, front by front."""
    reference = fronts[REFERENCE]
    base = reference['pass_at_1']
    rows = [['`pass_at_1`', *(f'{x:.3f}' for x in base.mean(axis=1)), '']]
    for front, points in fronts.items():
        for name, point in points.items():
            if name == 'pass_at_1':
                continue
            cells = [
                format_difference(difference(*x)) for x in zip(point, base, strict=True)
            ]
            on_front = front == REFERENCE
            cells.append('' if on_front else _format(above(point, reference)))
            rows.append([f'`{name}`' if front != STOPPED else name, *cells])
    head = f'test split, {base.shape[1]} seeds'
    more = 'Pass@32 above the front of `pass_at_k`'
    return markdown_table([head, 'Pass@1', 'Pass@32', more], rows)


def _format(interval: Interval) -> str:
    return 'outside' if np.isnan(interval[0]) else format_difference(interval)


def draw(fronts: Fronts, setting: str) -> bytes:
    """Draws each front as a line; points are labelled with the knob's value."""
    lines = {}
    for front, points in fronts.items():
        x, y = np.stack([point.mean(axis=1) for point in points.values()]).T
        between = ' ' if front == STOPPED else '_'
        names = [
            '' if name in ('pass_at_1', 'maxrl') else name.rpartition(between)[2]
            for name in points
        ]
        lines[front] = Front(names, x, y)
    return draw_fronts(lines, title=f'Pass@32 against Pass@1 by knob: {setting} mazes')


if __name__ == '__main__':
    cli.run(main)
