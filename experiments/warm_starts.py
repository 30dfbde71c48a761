"""Do gain and price of Pass@k Training follow how good the first policy is?

    python -m experiments.warm_starts

It reads the results of experiments/sweeps/warm_starts.py for each number of supervised
steps, and trains nothing. For each it compares Pass@4 Training with Pass@1 Training at
the end of training, seed by seed, beside the share of problems that the first policy
solves in at least 60 % of its responses. The last row is the slope: of each seed, the
least squares line of the difference over that share, per .1 of it.

It writes ``results/warm_starts.md`` and ``.png``.
"""

import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from experiments.last_evaluations import read_first, read_last
from experiments.sweeps.warm_starts import STEPS, get_sweep
from passk_jax import cli
from passk_jax.files import atomic_write_bytes, atomic_write_text
from passk_jax.report.arms import (
    COLORS,
    Interval,
    format_difference,
    markdown_table,
    mean_interval,
)
from passk_jax.report.charts import (
    FIGURE_WIDTH,
    PANEL_TITLE,
    TITLE,
    as_png,
    new_figure,
)
from passk_jax.report.scatter import Point, draw_points, exactly, write_names

MEASURES = {'pass_at_1': 'Pass@1', 'pass_at_8': 'Pass@8', 'pass_at_32': 'Pass@32'}
SOLVED = 'cover_at_0.6'


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """The results after a warm start, by seed.

    Attributes:
        first: measure -> ``[S]`` of the first policy.
        differences: measure -> ``[S]``, Pass@4 minus Pass@1 Training at the end.
    """

    first: Mapping[str, np.ndarray]
    differences: Mapping[str, np.ndarray]


def main(*, results: str = 'experiments/results') -> None:
    """Writes the table and the figure, and prints the table."""
    directory = pathlib.Path(results)
    by_steps = {steps: read(steps, directory) for steps in STEPS}
    text = '\n'.join(table(by_steps)) + '\n'
    atomic_write_text(directory / 'warm_starts.md', text)
    atomic_write_bytes(directory / 'warm_starts.png', draw(by_steps))
    print(text, end='')


def read(steps: int, directory: pathlib.Path) -> WarmStart:
    """Reads the results of a sweep; raises InputError if seeds are missing."""
    sweep = get_sweep(f'steps={steps}')
    last = read_last(sweep, directory, [*MEASURES])
    first = read_first(sweep, directory, [*MEASURES, SOLVED], last)
    of_k, of_1 = last.values['pass_at_k'], last.values['pass_at_1']
    return WarmStart(first, {name: of_k[name] - of_1[name] for name in MEASURES})


def slope(by_steps: Mapping[int, WarmStart], measure: str) -> Interval:
    """Returns by how much a difference changes with .1 of the solved share.

    The mean over seeds of least squares lines through the warm starts, and its
    interval.
    """
    shares = np.stack([x.first[SOLVED] for x in by_steps.values()])
    values = np.stack([x.differences[measure] for x in by_steps.values()])
    centered = shares - shares.mean(axis=0)
    slopes = (centered * values).sum(axis=0) / (centered**2).sum(axis=0)
    return mean_interval(slopes / 10)


def table(by_steps: Mapping[int, WarmStart]) -> list[str]:
    """Returns a row for each warm start, and the slopes."""
    rows = []
    for steps, warm in by_steps.items():
        first = [warm.first[x].mean() for x in ('pass_at_1', 'pass_at_32', SOLVED)]
        differences = map(mean_interval, warm.differences.values())
        cells = [f'{value:.3f}' for value in first]
        rows.append([f'{steps}', *cells, *map(format_difference, differences)])
    slopes = [format_difference(slope(by_steps, name)) for name in MEASURES]
    rows.append(['per .1 solved', '', '', '', *slopes])
    seeds = len(next(iter(by_steps.values())).first[SOLVED])
    firsts = ('first Pass@1', 'first Pass@32', 'solved in 60 %')
    head = [f'warm start, test split, {seeds} seeds', *firsts]
    return markdown_table([*head, *MEASURES.values()], rows)


def draw(by_steps: Mapping[int, WarmStart]) -> bytes:
    """Draws gain and price against the solved share."""
    figure = new_figure(FIGURE_WIDTH, 3.6)
    figure.set_layout_engine('constrained')
    figure.suptitle('Pass@4 minus Pass@1 Training, by the first policy', **TITLE)
    names, panels = ('pass_at_1', 'pass_at_32'), {}
    for ax, name, color in zip(figure.subplots(1, 2), names, COLORS, strict=False):
        ax.set_title(MEASURES[name], **PANEL_TITLE)
        ax.axhline(0.0, color='black', linewidth=0.8)
        ax.grid(alpha=0.25)
        ax.spines[['top', 'right']].set_visible(False)
        ax.set(xlabel='share solved in 60 % at first', ylabel='difference')
        panels[ax] = [
            Point(
                exactly(float(warm.first[SOLVED].mean())),
                mean_interval(warm.differences[name]),
                name=f'{steps} steps',
                color=color,
            )
            for steps, warm in by_steps.items()
        ]
        draw_points(panels[ax], ax)
    write_names(figure, panels)
    return as_png(figure)


if __name__ == '__main__':
    cli.run(main)
