"""Draws forest plots: points with intervals in labelled rows, in one or more panels.

``sweeps/figure.py`` uses them for differences of many arms or many measures.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from passk_jax.report.arms import COLORS, Interval
from passk_jax.report.charts import (
    FIGURE_WIDTH,
    PANEL_TITLE,
    TICKS,
    TITLE,
    as_png,
    drawing,
    new_figure,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches: a row with one point, each further point, and the space around a panel.
_ROW, _FURTHER, _AROUND = 0.18, 0.1, 0.62


@dataclasses.dataclass(frozen=True)
class Dots:
    """A set of points, one in each row, of the same colour and marker.

    Attributes:
        values: a mean with its interval for each row, from the top; NaN is not drawn.
        label: the name in the legend; ``''``: none.
        color: ``#rrggbb``.
        marker: a marker of matplotlib.
    """

    values: Sequence[Interval]
    label: str = ''
    color: str = COLORS[1]
    marker: str = 'o'


@dataclasses.dataclass(frozen=True)
class Forest:
    """A panel of a forest plot.

    Attributes:
        title: the panel's title.
        x_label: the label of the x axis.
        rows: the labels of the rows, from the top.
        dots: the points in each row, from the top.
    """

    title: str
    x_label: str
    rows: Sequence[str]
    dots: Sequence[Dots]


def draw_forests(
    forests: Sequence[Forest], *, columns: int, title: str, below: str
) -> bytes:
    """Draws all panels as a PNG, with row labels only at the left.

    Args:
        forests: the panels; those side by side must have the same rows and dots.
        columns: the number of panels side by side.
        title: the figure's title.
        below: text below the panels.
    """
    firsts = forests[::columns]
    heights = [
        len(first.rows) * (_ROW + _FURTHER * (len(first.dots) - 1)) + _AROUND
        for first in firsts
    ]
    with drawing():
        figure = new_figure(FIGURE_WIDTH, sum(heights) + 0.8)
        figure.set_layout_engine('constrained', h_pad=0.07, wspace=0.04, hspace=0.03)
        figure.suptitle(plain(title), **TITLE)
        figure.supxlabel(below, fontsize=9)
        ratios = {'height_ratios': heights}
        size = len(heights), columns
        axes = figure.subplots(*size, squeeze=False, gridspec_kw=ratios)
        for i, (forest, ax) in enumerate(itertools.zip_longest(forests, axes.flat)):
            if forest is None:
                ax.remove()
                continue
            _draw(forest, ax, num_ticks=12 // columns)
            if i % columns:
                ax.set_yticklabels([])
        if len(forests[0].dots) > 1:
            _write_legend(axes[0, 0], figure)
        return as_png(figure)


def _write_legend(ax: 'Axes', figure: 'Figure') -> None:
    """Writes the legend above the axes, in as many columns as the figure has room.

    The figure grows by the lines after the first.
    """
    height, labels = figure.get_figheight(), ax.get_legend_handles_labels()[1]
    for columns in (4, 3, 2, 1):
        more = math.ceil(len(labels) / columns) - math.ceil(len(labels) / 4)
        figure.set_figheight(height + _ROW * more)
        legend = ax.legend(
            loc='lower left',
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            frameon=False,
            fontsize=9,
            handletextpad=0.2,
        )
        # Otherwise the layout would make room for a legend that is too wide.
        legend.set_in_layout(False)
        figure.draw_without_rendering()
        if legend.get_window_extent().x1 <= figure.bbox.x1:
            break
    legend.set_in_layout(True)


def _draw(forest: Forest, ax: 'Axes', *, num_ticks: int) -> None:
    ax.set_title(plain(forest.title), wrap=True, **PANEL_TITLE)
    ax.set_xlabel(forest.x_label, fontsize=9)
    ax.tick_params(labelsize=9)
    ax.set_yticks(range(len(forest.rows)), map(plain, forest.rows))
    # The first row is at the top.
    ax.set_ylim(len(forest.rows) - 0.5, -0.5)
    ax.locator_params(axis='x', nbins=num_ticks, steps=TICKS)
    ax.grid(axis='x', alpha=0.3)
    for place in range(1, len(forest.rows), 2):
        ax.axhspan(place - 0.5, place + 0.5, color='#f2f4f8', zorder=0)
    ax.spines[['top', 'right']].set_visible(False)
    ax.axvline(0.0, color='black', linewidth=0.8)
    for i, dots in enumerate(forest.dots):
        # A row's points are spread around its middle.
        shift = (i - (len(forest.dots) - 1) / 2) / (len(forest.dots) + 1)
        means, lows, highs = zip(*dots.values, strict=True)
        y = [place + shift for place in range(len(forest.rows))]
        style = {'color': dots.color, 'linewidth': 1.5}
        ax.hlines(y, lows, highs, **style)
        ax.plot(
            *(means, y),
            dots.marker,
            color=dots.color,
            markersize=4.5,
            label=plain(dots.label),
        )
