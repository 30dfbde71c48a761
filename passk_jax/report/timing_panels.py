"""Makes the panels of ``timing.jsonl``, which show how a run spends its time.

Runs older than a timing have no panel of it.
"""

import math

import numpy as np

from passk_jax.report.panels import Panel, Series, plot_every_step
from passk_jax.report.run_data import Row, Run
from passk_jax.report.thinning import MEAN_OF

LEAST_SHARE = 0.005
"""The smallest share of the total time that is shown."""

# The phases of runs/phases.py, from the bottom up. The colours are those of
# report/arms.py, the yellow of the same palette, and grey.
_COLORS = {
    'decode': '#0072b2',
    'verify': '#56b4e9',
    'gather': '#f0e442',
    'estimate': '#cc79a7',
    'update': '#d55e00',
    'wait': '#808080',
    'checkpoint': '#009e73',
    'write': '#e69f00',
}
_REMAINDER, _REMAINDER_COLOR = 'rest', '#c4c4c4'
_MOST_BARS = 60
# Bars are cut off at _FAR_HIGHER times the 90th percentile of their heights.
_FAR_HIGHER = 2.0


def timing_panels(run: Run) -> list[Panel]:
    """Makes panels of seconds by phase, token rate and MFU, as far as measured."""
    rows = steady(run.timing)
    shares = [row | {'mfu': 100 * row['mfu']} for row in rows if 'mfu' in row]
    rates = plot_every_step(rows, 'tokens_per_second_per_chip')
    panels = [
        _phases(rows),
        Panel('Tokens a second and chip', 'step', rates, floor=0.0),
        Panel('MFU (%)', 'step', plot_every_step(shares, 'mfu'), floor=0.0),
    ]
    return [panel for panel in panels if panel.series]


def steady(timing: list[Row]) -> list[Row]:
    """Returns the steps except the first of each process, which compiles."""
    rows = [row for row in timing if 'step' in row]
    return [row for row in rows[1:] if 'start_seconds' not in row]


def phase_shares(rows: list[Row]) -> dict[str, float]:
    """Returns phase -> its share of the seconds of all steps."""
    total: dict[str, float] = {}
    for row in rows:
        for phase, spent in _seconds(row).items():
            total[phase] = total.get(phase, 0.0) + spent * row.get(MEAN_OF, 1)
    return {x: spent / sum(total.values()) for x, spent in total.items() if spent}


def _seconds(row: Row) -> dict[str, float]:
    """Returns phase -> its seconds in a step."""
    return {
        name.removesuffix('_seconds'): spent
        for name, spent in row.items()
        if name.endswith('_seconds')
        and name != 'cpu_seconds'
        and isinstance(spent, float)
    }


def _phases(rows: list[Row]) -> Panel:
    """Makes stacked bars of the phases; phases below LEAST_SHARE share a layer.

    In a long run, bars are means of equally many steps.
    """
    rows = [row for row in rows if _seconds(row)]
    shares = phase_shares(rows)
    phases = [x for x in _COLORS if shares.get(x, 0.0) >= LEAST_SHARE]
    layers: dict[str, list[float]] = {name: [] for name in (*phases, _REMAINDER)}
    for row in rows:
        spent = _seconds(row)
        for name in phases:
            layers[name].append(spent.pop(name, 0.0))
        layers[_REMAINDER].append(sum(spent.values()))
    size = math.ceil(len(rows) / _MOST_BARS)
    steps = [row['step'] for row in rows]
    colors = _COLORS | {_REMAINDER: _REMAINDER_COLOR}
    series = tuple(
        Series(name, _means(steps, size), _means(seconds, size), colors[name])
        for name, seconds in layers.items()
        if any(seconds)
    )
    top = None
    if series:
        bars = np.sum([layer.y for layer in series], axis=0)
        most = _FAR_HIGHER * np.quantile(bars, 0.9)
        top = float(most) if bars.max() > most else None
    size *= max((row.get(MEAN_OF, 1) for row in rows), default=1)
    title = 'Seconds of a step' + (f', means of {size}' if size > 1 else '')
    return Panel(title, 'step', series, stacked=True, top=top)


def _means(values: list[float], size: int) -> list[float]:
    """Returns the means of every ``size`` values; the last may average fewer."""
    starts = range(0, len(values), size)
    return [float(np.mean(values[start : start + size])) for start in starts]
