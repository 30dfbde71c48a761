"""What does each estimator buy, and what does it cost?

    python -m experiments.frontier

A point is an estimator: how its Pass@1 and its Pass@32 at the end of training differ
from those of ``pass_at_1`` with the same seeds. Up is what it buys, and left what it
costs. Named are the estimators that the sweep on medium mazes compares; the others are
grey. Those that lie farther out are listed in their panel, and the table has them.

It reads the results of four sweeps and writes ``results/frontier.png`` and
``results/frontier.md``, which has maj@32 besides: the share of problems that the most
frequent of 32 answers solves. An estimator that lacks a seed is left out, and the table
says so.
"""

import itertools
import pathlib
import textwrap
from collections.abc import Iterable, Mapping

import numpy as np

from experiments.last_evaluations import LastEvaluations, read_last
from passk_jax import cli
from passk_jax.cli import config_file
from passk_jax.files import atomic_write_bytes, atomic_write_text
from passk_jax.report.arms import COLORS, MARKERS, format_difference, markdown_table
from passk_jax.report.charts import (
    FIGURE_WIDTH,
    PANEL_TITLE,
    TITLE,
    as_png,
    new_figure,
)
from passk_jax.report.scatter import Point, draw_points, write_names
from passk_jax.sweeps import Sweep

_SWEEPS = {
    'hard mazes': 'experiments/sweeps/estimators.py',
    'medium mazes': 'experiments/sweeps/estimators.py:variant=medium',
    'easy mazes': 'experiments/sweeps/estimators.py:variant=easy',
    'five puzzles': 'experiments/sweeps/puzzles.py:variant=estimators',
}
_MEASURES = {'pass_at_1': 'Pass@1', 'pass_at_32': 'Pass@32', 'maj_at_32': 'maj@32'}
_GREY = '#b4bac6'
# As in the figures of sweeps, Pass@1 and Pass@k Training come first.
_STYLES = {
    name: {'name': name, 'color': color, 'marker': marker}
    for name, color, marker in zip(
        (
            *('pass_at_1', 'pass_at_k', 'canonical_k', 'maxrl', 'rs_grpo', 'f_grpo'),
            'curverl',
        ),
        (*COLORS, 'black'),
        (*MARKERS, 'X'),
        strict=True,
    )
}


def main(*, results: str = 'experiments/results') -> None:
    """Writes the table and the figure, and prints the table."""
    directory = pathlib.Path(results)
    by_setting = {
        setting: read_last(
            config_file.call(config, 'get_sweep', returns=Sweep), directory, _MEASURES
        )
        for setting, config in _SWEEPS.items()
    }
    tables = [table(setting, last) for setting, last in by_setting.items()]
    text = '\n\n'.join(tables) + '\n'
    atomic_write_text(directory / 'frontier.md', text)
    atomic_write_bytes(directory / 'frontier.png', draw(by_setting))
    print(text, end='')


def table(setting: str, last: LastEvaluations) -> str:
    """Returns a table: the baseline, and the other estimators' differences from it."""
    head = f'{setting}, test split, {len(last.seeds)} seeds'
    base = last.values[last.baseline]
    values = [f'{base[measure].mean():.3f}' for measure in _MEASURES]
    lines = markdown_table(
        [head, *_MEASURES.values()],
        [
            [f'`{last.baseline}`', *values],
            *(
                [
                    f'`{arm}`',
                    *(format_difference(last.difference(arm, x)) for x in _MEASURES),
                ]
                for arm in last.values
                if arm != last.baseline
            ),
        ],
    )
    if last.note:
        lines += ['', last.note]
    return '\n'.join(lines)


def draw(by_setting: Mapping[str, LastEvaluations]) -> bytes:
    """Draws a panel for each setting."""
    figure = new_figure(FIGURE_WIDTH, 8.2)
    figure.set_layout_engine('constrained', h_pad=0.07)
    figure.suptitle('What each estimator buys and costs', **TITLE)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    drawn = {setting: points(last) for setting, last in by_setting.items()}
    corners = _reach(itertools.chain(*(x.values() for x in drawn.values())))
    (left, bottom), (right, top) = corners
    axes[0, 0].set(xlim=(left, right), ylim=(bottom, top))
    panels = {}
    for (setting, last), ax in zip(by_setting.items(), axes.flat, strict=True):
        ax.set_title(f'{setting}, {len(last.seeds)} seeds', **PANEL_TITLE)
        ax.axhline(0.0, color='black', linewidth=0.8)
        ax.axvline(0.0, color='black', linewidth=0.8)
        ax.grid(alpha=0.25)
        ax.spines[['top', 'right']].set_visible(False)
        # No interval of a point outside reaches inside.
        inside = {
            arm: point
            for arm, point in drawn[setting].items()
            if left <= point.x[0] <= right and bottom <= point.y[0] <= top
        }
        panels[ax] = [*inside.values()]
        draw_points(panels[ax], ax)
        if outside := [arm for arm in last.values if arm not in inside]:
            listed = textwrap.fill(f'outside: {", ".join(outside)}', 40)
            place = {'xy': (0.02, 0.98), 'xycoords': 'axes fraction'}
            ax.annotate(listed, va='top', fontsize=8, **place)
    for ax in axes[-1]:
        ax.set_xlabel('difference in Pass@1 (share of problems)')
    for ax in axes[:, 0]:
        ax.set_ylabel('difference in Pass@32 (share of problems)')
    figure.supxlabel(
        'minus pass_at_1 at the end, test split: means and 95 % intervals over seeds; '
        'up and right is better;\ngrey: the other estimators; medium mazes and puzzles '
        'have no others',
        fontsize=9,
    )
    write_names(figure, panels)
    return as_png(figure)


def points(last: LastEvaluations) -> dict[str, Point]:
    """Returns estimator -> point; named points come last, in front of the others."""
    labeled, unlabeled = {}, {}
    for arm in last.values:
        x, y = (
            last.difference(arm, measure) for measure in ('pass_at_1', 'pass_at_32')
        )
        if arm in _STYLES:
            labeled[arm] = Point(x, y, **_STYLES[arm])
        else:
            unlabeled[arm] = Point(x, y, color=_GREY, size=4)
    return unlabeled | labeled


def _reach(points: Iterable[Point]) -> np.ndarray:
    """Returns the lower left and upper right corner of the named points, ``[2, 2]``."""
    ends = np.array([(point.x, point.y) for point in points if point.name])
    low, high = ends.min(axis=(0, 2)), ends.max(axis=(0, 2))
    return np.array([low, high]) + 0.05 * (high - low) * [[-1], [1]]


if __name__ == '__main__':
    cli.run(main)
