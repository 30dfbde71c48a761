"""From how many attempts on does Pass@k Training pay?

    python -m experiments.break_even

It reads the results of the sweeps below and trains nothing. For each setting it
compares Pass@k of Pass@4 Training with that of Pass@1 Training at the end of training,
for k of 1 to 32, seed by seed. *Break-even* is the k from which the difference is
positive: between two powers of two each seed's difference is a line in log2 k. Its
interval is the set of k at which the 95 % interval of the difference holds zero; it
ends at 1 or at 32 where the set does.

It writes ``results/break_even.md`` and ``results/break_even.png``: Pass@k against k of
the first policy and of both trainings, with bands of 95 % over seeds.
"""

import pathlib
from collections.abc import Mapping

import numpy as np

from experiments.last_evaluations import read_first, read_last
from passk_jax import cli
from passk_jax.cli import config_file
from passk_jax.errors import InputError
from passk_jax.evaluation import metrics
from passk_jax.files import atomic_write_bytes, atomic_write_text
from passk_jax.report.arms import COLORS, MARKERS, markdown_table
from passk_jax.report.charts import (
    FIGURE_WIDTH,
    PANEL_TITLE,
    TITLE,
    as_png,
    new_figure,
)
from passk_jax.sweeps import Sweep
from passk_jax.sweeps.results import paired

_SWEEPS = {
    'language model': 'experiments/sweeps/smollm2.py',
    'medium mazes': 'experiments/sweeps/passk_vs_pass1.py',
    'hard mazes': 'experiments/sweeps/estimators.py',
    'easy mazes': 'experiments/sweeps/estimators.py:variant=easy',
    'mazes with one solution': 'experiments/sweeps/perfect_mazes.py',
    'mazes of four sizes': 'experiments/sweeps/maze_table.py',
    'five puzzles': 'experiments/sweeps/puzzles.py',
}
POWERS = (1, 2, 4, 8, 16, 32)
_ARMS = {
    'first policy': (None, '#808080', 'o'),
    'Pass@1 Training': ('pass_at_1', COLORS[0], MARKERS[0]),
    'Pass@4 Training': ('pass_at_k', COLORS[1], MARKERS[1]),
}
# Grid points in the search for the k whose intervals contain zero.
_STEPS = 2_000

Curves = Mapping[str, np.ndarray]
"""Arm -> Pass@k ``[S, 6]`` of each seed, for k of :data:`POWERS`."""


def main(*, results: str = 'experiments/results') -> None:
    """Writes the table and the figure, and prints the table."""
    directory = pathlib.Path(results)
    curves = {
        setting: read_curves(
            config_file.call(config, 'get_sweep', returns=Sweep), directory
        )
        for setting, config in _SWEEPS.items()
    }
    text = '\n'.join(table(curves)) + '\n'
    atomic_write_text(directory / 'break_even.md', text)
    atomic_write_bytes(directory / 'break_even.png', draw(curves))
    print(text, end='')


def read_curves(sweep: Sweep, directory: pathlib.Path) -> Curves:
    """Reads Pass@k of the first policy and of both trainings, on the test split.

    Raises:
        InputError: an arm or a seed has none.
    """
    measures = [f'pass_at_{k}' for k in POWERS]
    last = read_last(sweep, directory, measures)
    if absent := {arm for arm, *_ in _ARMS.values() if arm} - {*last.values}:
        raise InputError(f'{sweep.name} lacks seeds of {sorted(absent)}, so run it on')
    of_arms = {'first policy': read_first(sweep, directory, measures, last)}
    of_arms |= {label: last.values[arm] for label, (arm, *_) in _ARMS.items() if arm}
    return {
        label: np.stack([values[measure] for measure in measures], axis=-1)
        for label, values in of_arms.items()
    }


def break_even(differences: np.ndarray) -> tuple[float, float, float]:
    """Computes from which k on the mean difference is positive, and the interval.

    Args:
        differences: ``[S, 6]``, of each seed, for k of :data:`POWERS`.

    Returns:
        The k, 1 if all differences are positive and infinite if the last is not; and
        the smallest and the largest k in [1, 32] whose interval holds zero, NaN if
        none does.
    """
    places = np.linspace(0, len(POWERS) - 1, _STEPS)
    indices = np.arange(len(POWERS))
    lines = np.array([np.interp(places, indices, row) for row in differences])
    mean, low, high = _intervals(lines)
    if mean[-1] <= 0:
        point = np.inf
    else:
        negative = np.flatnonzero(mean <= 0)
        point = 2.0 ** places[negative[-1] + 1] if len(negative) else 1.0
    unclear = places[(low <= 0) & (high >= 0)]
    if not len(unclear):
        return point, np.nan, np.nan
    return point, 2.0 ** unclear[0], 2.0 ** unclear[-1]


def _intervals(values: np.ndarray) -> np.ndarray:
    """Returns ``[3, K]``: the mean over seeds of ``[S, K]``, and its interval."""
    zeros = np.zeros(len(values))
    return np.array([metrics.paired_interval(x, zeros) for x in values.T]).T


def table(by_setting: Mapping[str, Curves]) -> list[str]:
    """Returns a row for each setting: differences by k, and the break-even."""
    rows = []
    for setting, curves in by_setting.items():
        of_k, of_1 = curves['Pass@4 Training'], curves['Pass@1 Training']
        cells = [paired(x, y) for x, y in zip(of_k.T, of_1.T, strict=True)]
        cells.append(_format_break_even(*break_even(of_k - of_1)))
        rows.append([f'{setting}, {len(of_k)} seeds', *cells])
    head = ['Pass@4 minus Pass@1 Training', *(f'Pass@{k}' for k in POWERS)]
    return markdown_table([*head, 'break-even k'], rows)


def _format_break_even(point: float, low: float, high: float) -> str:
    text = 'none to 32' if np.isinf(point) else f'{point:.1f}'
    return text if np.isnan(low) else f'{text} [{low:.1f}, {high:.1f}]'


def draw(by_setting: Mapping[str, Curves]) -> bytes:
    """Draws a panel for each setting."""
    figure = new_figure(FIGURE_WIDTH, 6.4)
    figure.set_layout_engine('constrained', h_pad=0.07)
    figure.suptitle('Pass@k on test problems, by the number of attempts k', **TITLE)
    axes = figure.subplots(2, 4, sharex=True)
    *panels, last = axes.flat
    for (setting, curves), ax in zip(by_setting.items(), panels, strict=True):
        ax.set_title(setting, **PANEL_TITLE)
        for label, (_, color, marker) in _ARMS.items():
            mean, low, high = _intervals(curves[label])
            style = {'color': color, 'marker': marker, 'markersize': 4}
            ax.plot(POWERS, mean, label=label, linewidth=1.5, **style)
            ax.fill_between(POWERS, low, high, color=color, alpha=0.2, linewidth=0)
        ax.set_xscale('log', base=2)
        ax.set_xticks(POWERS, [str(k) for k in POWERS])
        ax.grid(alpha=0.25)
        ax.spines[['top', 'right']].set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel('share solved')
    for ax in axes[-1]:
        ax.set_xlabel('attempts k')
    last.axis('off')
    last.legend(*panels[0].get_legend_handles_labels(), loc='center', frameon=False)
    # Below it is the legend, which has no numbers.
    panels[3].tick_params(labelbottom=True)
    panels[3].set_xlabel('attempts k')
    return as_png(figure)


if __name__ == '__main__':
    cli.run(main)
