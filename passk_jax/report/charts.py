"""Two renderers of panels: a PNG by matplotlib, and SVG in the colours of the page.

The SVG has no colours but the series' own; axes and text take the CSS classes of
``page.py``, so a page in dark mode stays legible. Neither needs a display.
"""

import dataclasses
import io
import math
from collections.abc import Sequence
from html import escape

from passk_jax.report.panels import Panel, Series

_WIDTH, _HEIGHT = 420, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 8, 34
_MOST_POINTS = 400


def draw_figure(panels: Sequence[Panel], *, title: str) -> bytes:
    """All panels in rows of three, as a PNG."""
    # Here: importing it takes a second that no other command should wait for. The
    # object interface leaves pyplot, and whichever backend it has, alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = math.ceil(len(panels) / 3)
    figure = Figure(figsize=(15, 4.2 * rows + 0.5), dpi=110, layout='constrained')
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=15, fontweight='bold')
    axes = figure.subplots(rows, 3, squeeze=False).flat
    for panel, ax in zip(panels, axes, strict=False):
        _draw_panel(panel, ax)
    stream = io.BytesIO()
    # Without the version in the metadata, equal runs give equal pictures.
    figure.savefig(stream, format='png', metadata={'Software': None})
    return stream.getvalue()


def _draw_panel(panel: Panel, ax) -> None:
    ax.set_title(panel.title, fontsize=12, loc='left', fontweight='bold')
    ax.set_xlabel(panel.x_label)
    ax.spines[['top', 'right']].set_visible(False)
    ax.grid(color='#e4e7ec', linewidth=0.8)
    ax.set_axisbelow(True)
    if not any(series.x for series in panel.series):
        ax.set(xticks=[], yticks=[])
        ax.text(
            0.5,
            0.5,
            'nothing yet',
            color='#98a2b3',
            ha='center',
            transform=ax.transAxes,
        )
        return
    if panel.log2:
        ax.set_xscale('log', base=2)
        ticks = sorted({x for series in panel.series for x in series.x})
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
    for series in panel.series:
        ax.plot(
            series.x,
            series.y,
            color=series.color,
            linestyle='--' if series.dashed else '-',
            linewidth=1.0 if series.faint else 2.0,
            alpha=0.3 if series.faint else 1.0,
            marker='o' if series.marked else None,
            markersize=3.5,
            label=series.label or None,
        )
        if series.low is not None:
            ax.fill_between(
                series.x, series.low, series.high, color=series.color, alpha=0.13, lw=0
            )
    bottom, top = _y_range(panel)
    ax.set_ylim(bottom, top)
    if any(series.label for series in panel.series):
        many = len(panel.series) > 4
        ax.legend(frameon=False, fontsize=9, ncols=2 if many else 1, handlelength=2.8)


def svg_chart(panel: Panel) -> str:
    """One panel as a ``<figure>`` with title, legend and chart."""
    head = f'<figcaption>{escape(panel.title)}</figcaption>'
    if not any(len(series.x) for series in panel.series):
        return f'<figure class="chart">{head}<p class="empty">nothing yet</p></figure>'
    legend = ''.join(
        f'<span><i class="{"dashed" if s.dashed else ""}" '
        f'style="border-color:{s.color}"></i>{escape(s.label)}</span>'
        for s in panel.series
        if s.label
    )
    scale = _scale(panel)
    body = _axes(panel, scale) + ''.join(_line(s, scale) for s in panel.series)
    return (
        f'<figure class="chart">{head}<div class="legend">{legend}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(panel.title)}">{body}</svg></figure>'
    )


@dataclasses.dataclass(frozen=True)
class _Scale:
    """From values to places in the SVG; the attributes are the ends of the axes."""

    left: float
    right: float
    bottom: float
    top: float
    log2: bool

    def x(self, value: float) -> float:
        ends = (self.left, self.right, float(value))
        left, right, value = map(math.log2, ends) if self.log2 else ends
        share = 0.5 if left == right else (value - left) / (right - left)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (self.top - value) / (self.top - self.bottom)
        return _TOP + share * (_HEIGHT - _TOP - _BOTTOM)


def _scale(panel: Panel) -> _Scale:
    places = [x for series in panel.series for x in series.x]
    return _Scale(min(places), max(places), *_y_range(panel), panel.log2)


def _axes(panel: Panel, scale: _Scale) -> str:
    parts = []
    for tick in nice_ticks(scale.bottom, scale.top):
        y = scale.y(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" '
            f'y2="{y:.1f}"/><text x="{_LEFT - 6}" y="{y + 3.5:.1f}" '
            f'text-anchor="end">{tick:g}</text>'
        )
    if panel.log2 or scale.left == scale.right:
        ticks = sorted({x for series in panel.series for x in series.x})
    else:
        ticks = nice_ticks(scale.left, scale.right)
    for tick in ticks:
        parts.append(
            f'<text x="{scale.x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 15}" '
            f'text-anchor="middle">{tick:g}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" '
        f'y1="{_HEIGHT - _BOTTOM}" y2="{_HEIGHT - _BOTTOM}"/>'
        f'<text x="{middle:.0f}" y="{_HEIGHT - 3}" text-anchor="middle">'
        f'{escape(panel.x_label)}</text>'
    )
    return ''.join(parts)


def _line(series: Series, scale: _Scale) -> str:
    stride = max(1, math.ceil(len(series.x) / _MOST_POINTS))
    # From the end, so that the last point is always there.
    kept = range(len(series.x) - 1, -1, -stride)[::-1]

    def point(i: int, values: Sequence[float]) -> str:
        return f'{scale.x(series.x[i]):.1f},{scale.y(values[i]):.1f}'

    parts = []
    if series.low is not None:
        band = [point(i, series.high) for i in kept]
        band += [point(i, series.low) for i in reversed(kept)]
        parts.append(
            f'<polygon points="{" ".join(band)}" fill="{series.color}" opacity=".13"/>'
        )
    dashes = 'stroke-dasharray="5 4"' if series.dashed else ''
    parts.append(
        f'<polyline points="{" ".join(point(i, series.y) for i in kept)}" fill="none" '
        f'stroke="{series.color}" stroke-width="{1 if series.faint else 2}" '
        f'opacity="{0.35 if series.faint else 1}" stroke-linejoin="round" {dashes}/>'
    )
    if series.marked:
        for i in kept:
            x, y = point(i, series.y).split(',')
            name = f'{series.label}: ' if series.label else ''
            parts.append(
                f'<circle cx="{x}" cy="{y}" r="2.6" fill="{series.color}"><title>'
                f'{escape(name)}{series.y[i]:.4g} at {series.x[i]:g}</title></circle>'
            )
    return ''.join(parts)


def _y_range(panel: Panel) -> tuple[float, float]:
    """From the values, with room; a floor or ceiling is not passed."""
    values = [
        value
        for series in panel.series
        for many in (series.y, series.low or (), series.high or ())
        for value in many
    ]
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 0.1
    bottom, top = low - room, high + room
    if panel.floor is not None and low >= panel.floor:
        bottom = max(bottom, panel.floor)
        # A curve that stays in the lower part of its range begins at the floor.
        if low - panel.floor < 0.6 * (high - panel.floor):
            bottom = panel.floor
    if panel.ceiling is not None and high <= panel.ceiling:
        top = min(top, panel.ceiling)
    return bottom, top if top > bottom else bottom + room


def nice_ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers from ``low`` to ``high``: steps of 1, 2 or 5 times a power of 10.

    >>> nice_ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.75)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f'{i * step:.10g}') for i in range(first, last + 1)]
