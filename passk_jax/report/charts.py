"""Draws panels with matplotlib: all in one PNG, or each as an SVG for the page.

Needs no display. In an SVG, the colours of text and grid are variables of the page's
style sheet, so that charts are legible in dark mode.
"""

import contextlib
import io
import itertools
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from passk_jax.report.panels import Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEXT, _GRID = '#667085', '#e3e7ee'
_VARIABLES = {_TEXT: 'var(--soft)', _GRID: 'var(--edge)'}
_MOST_POINTS = 400
# The most characters of a text in a chart.
_MOST_TEXT = 120
# Steps between ticks; others, such as 2.5, need longer labels.
TICKS = (1, 2, 5, 10)

FIGURE_WIDTH = 8.5
"""Inches. README shows figures 830 pixels wide, so 8 points are 11 pixels."""

_DPI = 180
TITLE = {'fontsize': 11, 'fontweight': 'bold'}


class TitleStyle(TypedDict):
    """Keywords of ``Axes.set_title``."""

    fontsize: float
    fontweight: str
    loc: Literal['left']


PANEL_TITLE: TitleStyle = {'fontsize': 9.5, 'fontweight': 'bold', 'loc': 'left'}

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
"""Values of ``plt.rcParams`` for the figures of notebooks."""


def drawing(**style: object) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which matplotlib draws text literally.

    Otherwise matplotlib parses text between two dollars, for example in a category's
    name, as mathematics, and raises an error if it is none.
    """
    from matplotlib import rc_context

    return rc_context({'text.parse_math': False, 'text.usetex': False, **style})


def plain(text: str) -> str:
    """Returns a text as one line that matplotlib can draw, cut if it is too long.

    >>> plain('a\\nb \\0'), plain('_hidden')
    ('a b \N{REPLACEMENT CHARACTER}', ' _hidden')
    """
    text = ' '.join(text.split())
    if len(text) > _MOST_TEXT:
        text = text[: _MOST_TEXT - 1] + '…'
    text = ''.join(x if x.isprintable() else '\N{REPLACEMENT CHARACTER}' for x in text)
    # A legend omits labels that begin with an underscore.
    return f' {text}' if text.startswith('_') else text


def draw_figure(panels: Sequence[Panel], *, title: str, below: str = '') -> bytes:
    """Draws all panels, up to three in a row, as a PNG.

    A legend that all panels share is drawn once, below the title.

    Args:
        panels: the panels.
        title: the figure's title.
        below: text below the panels, whose long lines are wrapped; ``''``: none.
    """
    shared = len({_legend(panel) for panel in panels}) == 1 and _legend(panels[0])
    below = '\n'.join(textwrap.fill(line, 110) for line in below.splitlines())
    columns = columns_for(len(panels))
    rows = math.ceil(len(panels) / columns)
    # Margins in inches; letting matplotlib compute them would double the time.
    beside, between, tall = 0.55, 0.75, 1.9 if shared else 2.3
    if any(panel.y_label for panel in panels):
        beside = 0.75
    top = 0.8 if shared else 0.6
    bottom = 0.5 + (0.1 + 0.17 * len(below.splitlines()) if below else 0.0)
    wide = (FIGURE_WIDTH - 0.15) / columns - beside
    height = top + rows * tall + (rows - 1) * between + bottom
    with drawing(**{'font.size': 9}):
        figure = new_figure(FIGURE_WIDTH, height)
        figure.suptitle(plain(title), y=1 - 0.08 / height, va='top', **TITLE)
        figure.supxlabel(below, y=0.08 / height, va='bottom', fontsize=9)
        figure.subplots_adjust(
            left=beside / FIGURE_WIDTH,
            right=1 - 0.15 / FIGURE_WIDTH,
            bottom=bottom / height,
            top=1 - top / height,
            wspace=beside / wide,
            hspace=between / tall,
        )
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for ax in axes[len(panels) :]:
            ax.remove()
        entries: tuple[list[Any], list[Any]] = [], []
        for panel, ax in zip(panels, axes, strict=False):
            ax.set_title(plain(panel.title), **PANEL_TITLE)
            draw_panel(panel, ax)
            # A panel without data has no legend.
            if shared and (legend := ax.get_legend()):
                legend.remove()
                entries = ax.get_legend_handles_labels()
        if shared:
            figure.legend(
                *entries,
                loc='center',
                bbox_to_anchor=(0.5, 1 - 0.42 / height),
                frameon=False,
                ncols=len(shared),
                columnspacing=1.3,
                fontsize=9,
                handlelength=2.8,
            )
        return as_png(figure)


def columns_for(panels: int) -> int:
    """Returns how many of the panels to put side by side."""
    return 2 if panels in (2, 4) else min(3, panels)


def _legend(panel: Panel) -> tuple[tuple[str, str, bool, str], ...]:
    """Returns the legend entries of lines with their style; none for bars."""
    lines = () if panel.stacked else panel.series
    return tuple(
        (line.label, line.color, line.dashed, line.marker)
        for line in lines
        if line.label
    )


def as_png(figure: 'Figure') -> bytes:
    """Returns the figure as a PNG; equal figures give equal bytes."""
    stream = io.BytesIO()
    # By default the metadata name the version of matplotlib.
    figure.savefig(stream, format='png', dpi=_DPI, metadata={'Software': None})
    return stream.getvalue()


def svg_chart(panel: Panel) -> str:
    """Draws a panel as an HTML ``<figure>`` with its title and an inline SVG.

    Equal panels give equal text. The title seeds the SVG's ids, so charts with
    different titles can share a page.
    """
    stream, title = io.StringIO(), plain(panel.title)
    # The legend of bars is above them.
    height = 0.69 if panel.stacked else 0.83
    nothing = dict.fromkeys(('Creator', 'Date', 'Format', 'Type'))
    # Keep text as text, in the page's font.
    with drawing(**{'svg.fonttype': 'none', 'svg.hashsalt': title}):
        figure = new_figure(5.0, 2.9)
        draw_panel(panel, figure.add_axes((0.11, 0.15, 0.88, height)))
        figure.savefig(stream, format='svg', transparent=True, metadata=nothing)
    title = escape(title)
    svg = _inline(stream.getvalue(), label=title)
    return f'<figure class="chart"><figcaption>{title}</figcaption>{svg}</figure>'


def _inline(svg: str, *, label: str) -> str:
    """Converts an SVG document to inline SVG; the page sets size, font and colours."""
    parts = re.search(r'<svg .*?(viewBox="[^"]*").*?>(.*)', svg, re.S)
    assert parts, 'Matplotlib writes a viewBox'
    head, body = parts.groups()
    # The document's style sheet would apply to the whole page, and all charts have the
    # same group ids.
    body = re.sub(r'<defs>\s*<style.*?</defs>|(?<=<g) id="[^"]*"', '', body, flags=re.S)
    for color, variable in _VARIABLES.items():
        body = body.replace(color, variable)
    return f'<svg {head} role="img" aria-label="{label}">{body}'


def new_figure(width: float, height: float) -> 'Figure':
    """Returns an empty figure of this size in inches."""
    # Imported here, because it takes a second that other commands need not spend. A
    # Figure needs neither pyplot nor a backend.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def draw_panel(panel: Panel, ax: 'Axes') -> None:
    """Draws a panel, except its title, into axes of any figure."""
    from matplotlib.font_manager import FontProperties

    ax.set_xlabel(plain(panel.x_label), color=_TEXT)
    ax.set_ylabel(plain(panel.y_label), color=_TEXT)
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
        # In a long curve, labels of all k would overlap.
        if len(places) > 12:
            places = [place for place in places if math.log2(place).is_integer()]
    if panel.log2 or len(places) == 1:
        ax.set_xticks(places, [f'{place:g}' for place in places])
    for border in panel.borders:
        ax.axvline(border, color=_TEXT, linestyle=':', linewidth=1.2)
    draw = _draw_bars if panel.stacked else _draw_lines
    draw(panel.series, ax)
    ax.locator_params(axis='y', steps=TICKS)
    ax.set_ylim(*_y_range(panel))
    if any(series.label for series in panel.series):
        # The PNG and the SVG have different font sizes.
        size = 0.9 * FontProperties().get_size_in_points()
        style = {'frameon': False, 'fontsize': size, 'labelcolor': _TEXT}
        columns = 2 if len(panel.series) > 4 else 1
        style |= {'ncols': columns, 'handlelength': 2.8, 'labelspacing': 0.35}
        if panel.stacked:
            above = {'loc': 'lower center', 'bbox_to_anchor': (0.5, 0.99)}
            style |= {'ncols': 4, 'handlelength': 1.0, 'columnspacing': 1.4} | above
        ax.legend(**style)


def _draw_lines(lines: Sequence[Series], ax: 'Axes') -> None:
    from matplotlib.transforms import offset_copy

    if any(series.offset for series in lines):
        # Room for the outermost bars.
        ax.set_xmargin(0.08)
    for series in lines:
        place = ax.transData
        if series.offset:
            place = offset_copy(
                place, ax.get_figure(root=True), x=series.offset, units='points'
            )
            # Shifted points do not extend the axes by themselves.
            ax.update_datalim([*zip(series.x, series.y, strict=True)])
            ax.autoscale_view()
        # Start so that the last point is included.
        stride = max(1, math.ceil(len(series.x) / _MOST_POINTS))
        subset = slice((len(series.x) - 1) % stride, None, stride)
        ax.plot(
            series.x[subset],
            series.y[subset],
            color=series.color,
            linestyle='--' if series.dashed else '-',
            linewidth=1.0 if series.faint else 2.0,
            alpha=0.3 if series.faint else 1.0,
            marker=series.marker or None,
            markersize=4,
            markevery=_marked(series.x[subset], ax),
            label=plain(series.label) or None,
            transform=place,
        )
        if series.low is not None and series.high is not None:
            band = (series.low[subset], series.high[subset])
            if len(series.x) > 2 and not series.bars:
                style = {'color': series.color, 'alpha': 0.13, 'lw': 0}
                ax.fill_between(series.x[subset], *band, **style)
            else:
                # A band would claim values between only two points.
                style = {'color': series.color, 'lw': 1.5, 'transform': place}
                ax.vlines(series.x[subset], *band, **style)


def _marked(x: Sequence[float], ax: 'Axes') -> list[int] | None:
    """Returns the points with markers: those at ticks of a log axis, else all."""
    if ax.get_xscale() != 'log':
        return None
    ticks = {*ax.get_xticks()}
    return [i for i, place in enumerate(x) if place in ticks]


def _draw_bars(layers: Sequence[Series], ax: 'Axes') -> None:
    """Draws layers of bars without gaps; bars meet halfway between their places."""
    x = layers[0].x
    inner = [(a + b) / 2 for a, b in itertools.pairwise(x)]
    first, last = (inner[0], inner[-1]) if inner else (x[0] + 0.5, x[0] - 0.5)
    edges = [2 * x[0] - first, *inner, 2 * x[-1] - last]
    below = [0.0] * len(x)
    for series in layers:
        above = [a + b for a, b in zip(below, series.y, strict=True)]
        style = {
            'color': series.color,
            'label': plain(series.label) or None,
            'linewidth': 0,
        }
        ax.stairs(above, edges, baseline=below, fill=True, **style)
        below = above


def _y_range(panel: Panel) -> tuple[float, float]:
    """Returns the range of the values with a margin, limited by floor and ceiling."""
    if panel.stacked:
        columns = zip(*(series.y for series in panel.series), strict=True)
        totals = [sum(column, start=0.0) for column in columns]
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
