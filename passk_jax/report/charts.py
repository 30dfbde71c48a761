"""Draws panels with matplotlib: one PNG of all, or an SVG of each for the page.

The same code draws both and needs no display. In an SVG the colours of text and grid
are variables of the page's style sheet, so that it is legible in dark mode.
"""

import io
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from passk_jax.report.panels import Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEXT, _GRID = '#667085', '#e3e7ee'
_VARIABLES = {_TEXT: 'var(--soft)', _GRID: 'var(--edge)'}
_MOST_POINTS = 400

NOTEBOOK_STYLE: Mapping[str, object] = {
    'figure.dpi': 100,
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.titlelocation': 'left',
    'axes.titleweight': 'bold',
    'axes.grid': True,
    'grid.alpha': 0.25,
    'lines.linewidth': 1.8,
    'legend.frameon': False,
}
"""What ``plt.rcParams`` takes for the figures of notebooks."""


def draw_figure(panels: Sequence[Panel], *, title: str, below: str = '') -> bytes:
    """All panels in rows of three, as a PNG.

    A legend that all panels have in common stands once, below the title.

    Args:
        panels: what to draw.
        title: above them.
        below: a line below them; ``''``: none.
    """
    rows = math.ceil(len(panels) / 3)
    shared = len({_legend(panel) for panel in panels}) == 1 and _legend(panels[0])
    above = 1.05 if shared else 0.8
    beneath = 0.8 if below else 0.5
    width, height = 12, 3.4 * rows + above + beneath - 0.5
    figure = new_figure(width, height)
    figure.suptitle(title, y=1 - 0.2 / height, va='top', fontsize=14, fontweight='bold')
    # Margins in inches, over the height; computing tight ones would double the time.
    margins = {'bottom': beneath / height, 'top': 1 - above / height, 'hspace': 0.32}
    figure.supxlabel(below, y=0.1 / height, va='bottom', fontsize=11)
    figure.subplots_adjust(left=0.6 / width, right=0.985, wspace=0.2, **margins)
    axes = list(figure.subplots(rows, 3, squeeze=False).flat)
    for ax in axes[len(panels) :]:
        ax.remove()
    for panel, ax in zip(panels, axes, strict=False):
        ax.set_title(panel.title, fontsize=12, loc='left', fontweight='bold')
        draw_panel(panel, ax)
        if shared:
            ax.get_legend().remove()
    if shared:
        place = {'loc': 'center', 'bbox_to_anchor': (0.5, 1 - 0.62 / height)}
        style = {'frameon': False, 'ncols': len(shared), 'columnspacing': 1.3}
        figure.legend(*axes[0].get_legend_handles_labels(), **place, **style)
    return as_png(figure)


def _legend(panel: Panel) -> tuple[tuple[str, str, bool], ...]:
    """The labels of a panel of lines with what they look like; none of bars."""
    lines = () if panel.stacked else panel.series
    return tuple((line.label, line.color, line.dashed) for line in lines if line.label)


def as_png(figure: 'Figure') -> bytes:
    """The figure as a PNG; equal figures give equal bytes."""
    stream = io.BytesIO()
    # Without the version in the metadata, equal runs give equal pictures.
    figure.savefig(stream, format='png', dpi=110, metadata={'Software': None})
    return stream.getvalue()


def svg_chart(panel: Panel) -> str:
    """One panel as a ``<figure>``: its title, and its chart as inline SVG.

    Equal panels give equal text. The title seeds the SVG's ids, so charts with
    different titles can share a page.
    """
    import matplotlib

    figure = new_figure(5.0, 2.9)
    # The legend of bars stands above them.
    height = 0.69 if panel.stacked else 0.83
    draw_panel(panel, figure.add_axes((0.11, 0.15, 0.88, height)))
    stream = io.StringIO()
    nothing = dict.fromkeys(('Creator', 'Date', 'Format', 'Type'))
    # Text remains text, in the font of the page.
    with matplotlib.rc_context({'svg.fonttype': 'none', 'svg.hashsalt': panel.title}):
        figure.savefig(stream, format='svg', transparent=True, metadata=nothing)
    title = escape(panel.title)
    svg = _inlined(stream.getvalue(), label=title)
    return f'<figure class="chart"><figcaption>{title}</figcaption>{svg}</figure>'


def _inlined(svg: str, *, label: str) -> str:
    """An SVG document as part of the page, which sets its size, font and colours."""
    head, body = re.search(r'<svg .*?(viewBox="[^"]*").*?>(.*)', svg, re.S).groups()
    # The document's style sheet would apply to the whole page, and all charts have the
    # same group ids.
    body = re.sub(r'<defs>\s*<style.*?</defs>|(?<=<g) id="[^"]*"', '', body, flags=re.S)
    for color, variable in _VARIABLES.items():
        body = body.replace(color, variable)
    return f'<svg {head} role="img" aria-label="{label}">{body}'


def new_figure(width: float, height: float) -> 'Figure':
    """An empty figure of this size in inches."""
    # The import takes a second, which other commands should not wait for. A Figure
    # needs neither pyplot nor a backend.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def new_rows(
    rows: Sequence[str], titles: Sequence[str], *, size: tuple[float, float]
) -> tuple['Figure', list['Axes']]:
    """A figure with a panel for each title, side by side, which share labelled rows.

    Args:
        rows: the labels, from the bottom; the first row is at y = 0.
        titles: of the panels.
        size: width and height in inches.
    """
    figure = new_figure(*size)
    axes = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, fontsize=8, loc='left', fontweight='bold')
        ax.set_yticks(range(len(rows)), rows, fontsize=9)
        ax.locator_params(axis='x', nbins=4)
        ax.tick_params(axis='x', labelsize=8)
        ax.grid(alpha=0.3)
        ax.spines[['top', 'right']].set_visible(False)
    return figure, list(axes)


def draw_panel(panel: Panel, ax: 'Axes') -> None:
    """Draws a panel without its title into axes of any figure."""
    ax.set_xlabel(panel.x_label, color=_TEXT)
    ax.spines[['top', 'right']].set_visible(False)
    ax.spines[['left', 'bottom']].set_color(_TEXT)
    ax.tick_params(color=_TEXT, labelcolor=_TEXT)
    ax.grid(color=_GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    places = sorted({x for series in panel.series for x in series.x})
    if not places:
        ax.set(xticks=[], yticks=[])
        middle = {'ha': 'center', 'transform': ax.transAxes}
        ax.text(0.5, 0.5, 'nothing yet', color=_TEXT, **middle)
        return
    if panel.log2:
        ax.set_xscale('log', base=2)
        ax.minorticks_off()
        # Every k of a long curve would cover its neighbours' labels.
        if len(places) > 12:
            places = [place for place in places if math.log2(place).is_integer()]
    if panel.log2 or len(places) == 1:
        ax.set_xticks(places, [f'{place:g}' for place in places])
    for border in panel.borders:
        ax.axvline(border, color=_TEXT, linestyle=':', linewidth=1.2)
    draw = _draw_bars if panel.stacked else _draw_lines
    draw(panel.series, ax)
    ax.set_ylim(*_y_range(panel))
    if any(series.label for series in panel.series):
        style = {'frameon': False, 'fontsize': 9, 'labelcolor': _TEXT}
        columns = 2 if len(panel.series) > 4 else 1
        style |= {'ncols': columns, 'handlelength': 2.8}
        if panel.stacked:
            above = {'loc': 'lower center', 'bbox_to_anchor': (0.5, 0.99)}
            style |= {'ncols': 4, 'handlelength': 1.0, 'columnspacing': 1.4} | above
        ax.legend(**style)


def _draw_lines(lines: Sequence[Series], ax: 'Axes') -> None:
    for series in lines:
        # Counted from the end, to keep the last point.
        stride = max(1, math.ceil(len(series.x) / _MOST_POINTS))
        kept = slice((len(series.x) - 1) % stride, None, stride)
        ax.plot(
            series.x[kept],
            series.y[kept],
            color=series.color,
            linestyle='--' if series.dashed else '-',
            linewidth=1.0 if series.faint else 2.0,
            alpha=0.3 if series.faint else 1.0,
            marker='o' if series.marked else None,
            markersize=3.5,
            label=series.label or None,
        )
        if series.low is not None and series.high is not None:
            band = (series.low[kept], series.high[kept])
            if len(series.x) > 2:
                style = {'color': series.color, 'alpha': 0.13, 'lw': 0}
                ax.fill_between(series.x[kept], *band, **style)
            else:
                # A band from the first to the last would speak of what is between.
                ax.vlines(series.x[kept], *band, color=series.color, lw=1.5)


def _draw_bars(layers: Sequence[Series], ax: 'Axes') -> None:
    """Layers of bars without gaps: each reaches half of the way to its neighbours."""
    x = layers[0].x
    inner = [(a + b) / 2 for a, b in itertools.pairwise(x)]
    first, last = (inner[0], inner[-1]) if inner else (x[0] + 0.5, x[0] - 0.5)
    edges = [2 * x[0] - first, *inner, 2 * x[-1] - last]
    below = [0.0] * len(x)
    for series in layers:
        above = [a + b for a, b in zip(below, series.y, strict=True)]
        style = {'color': series.color, 'label': series.label or None, 'linewidth': 0}
        ax.stairs(above, edges, baseline=below, fill=True, **style)
        below = above


def _y_range(panel: Panel) -> tuple[float, float]:
    """The range of the values with a margin, which stops at a floor or ceiling."""
    if panel.stacked:
        totals = map(sum, zip(*(series.y for series in panel.series), strict=True))
        return 0.0, panel.top or 1.06 * max(totals) or 1.0
    values = []
    for series in panel.series:
        values += [*series.y, *(series.low or ()), *(series.high or ())]
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 0.1
    bottom, top = low - room, high + room
    if panel.floor is not None and low >= panel.floor:
        bottom = max(bottom, panel.floor)
        # The axis starts at the floor unless the curve stays high above it.
        if low - panel.floor < 0.6 * (high - panel.floor):
            bottom = panel.floor
    if panel.ceiling is not None and high <= panel.ceiling:
        top = min(top, panel.ceiling)
    return bottom, top if top > bottom else bottom + room
