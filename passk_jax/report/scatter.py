"""Scatters: points with their intervals, and their names where they cover nothing.

``experiments/steepness.py`` and ``experiments/frontier.py`` draw with them.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from passk_jax.report.arms import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Where a name may stand, in points and radians, the best places first.
_DISTANCES = (6, 12, 20, 30, 42, 56, 72)
_DIRECTIONS = np.deg2rad((0, 180, 30, -30, 150, -150, 60, -60, 120, -120, 90, -90))
# Around a name, in points.
_GAP = 2
_TEXT, _GREY = '#20242c', '#667085'

Boxes = Float[np.ndarray, '*B 4']
"""Left, bottom, right and top, in pixels."""


@dataclasses.dataclass(frozen=True)
class Point:
    """One point.

    Attributes:
        x, y: where it is, with the ends of its intervals.
        name: written beside it; ``''``: nothing.
        kind: what it is, in the legend; points of a kind look alike.
        color: as ``#rrggbb``.
        marker: in the letters of matplotlib.
        hollow: whether only its edge is coloured.
        size: of the marker, in points.
    """

    x: Interval
    y: Interval
    name: str = ''
    kind: str = ''
    color: str = _GREY
    marker: str = 'o'
    hollow: bool = False
    size: float = 6.0


def exactly(value: float) -> Interval:
    """A number without an interval."""
    return value, math.nan, math.nan


def draw_points(points: Sequence[Point], ax: 'Axes') -> None:
    """Draws points and intervals without the names."""
    for point in points:
        (x, left, right), (y, low, high) = point.x, point.y
        bar = {'color': point.color, 'linewidth': 1.2, 'alpha': 0.6, 'markersize': 0}
        ax.plot((left, right), (y, y), **bar)
        ax.plot((x, x), (low, high), **bar)
        style = {'color': point.color, 'markersize': point.size}
        if point.hollow:
            style['markerfacecolor'] = 'white'
        ax.plot(x, y, point.marker, label=point.kind, **style)


def write_legend(ax: 'Axes') -> None:
    """Says above the axes what each kind of point is."""
    handles, kinds = ax.get_legend_handles_labels()
    entries = dict(zip(kinds, handles, strict=True))
    ax.legend(
        entries.values(),
        entries.keys(),
        loc='lower center',
        bbox_to_anchor=(0.5, 1.06),
        ncols=len(entries),
        frameon=False,
        fontsize=9,
        handletextpad=0.2,
    )


def write_names(figure: 'Figure', panels: Mapping['Axes', Sequence[Point]]) -> None:
    """Writes the names beside their points, when everything else is drawn.

    A name stands as near to its point as it can without covering anything that is drawn
    or a name before it; a line leads to it unless it is next to its point. If there is
    no such place, it covers as little as it can. The name of a point outside of the
    axes is left out.
    """
    figure.draw_without_rendering()
    # Nothing moves from here on.
    figure.set_layout_engine('none')
    for ax, points in panels.items():
        ax.autoscale(False)
        occupied = _boxes(ax)
        for point in points:
            if point.name and ax.viewLim.contains(point.x[0], point.y[0]):
                occupied = np.append(occupied, _write(point, ax, occupied), axis=0)


def _boxes(ax: 'Axes') -> Boxes:
    """What is drawn: markers, intervals and lines."""
    drawn = [line.get_window_extent() for line in ax.lines]
    boxes = np.array([extent.padded(_pixels(ax)).extents for extent in drawn])
    # An interval that is not defined has no place.
    return boxes[np.isfinite(boxes).all(axis=1)]


def _write(point: Point, ax: 'Axes', occupied: Boxes) -> Boxes:
    """Writes the name of a point; returns what it and the line to it cover."""
    where = point.x[0], point.y[0]
    style = {'fontsize': 8, 'color': _TEXT, 'ha': 'center', 'va': 'center'}
    text = ax.text(*where, point.name, **style)
    size = np.array(text.get_window_extent().size)
    start = ax.transData.transform(where)
    toward = np.stack([np.cos(_DIRECTIONS), np.sin(_DIRECTIONS)], axis=-1)
    # From the end of the text that is next to the point to its middle.
    half = np.clip(1.5 * toward, -1, 1) * size / 2
    steps = np.array(_DISTANCES)[:, None, None] * _pixels(ax) * toward
    middles = start + (steps + half).reshape(-1, 2)
    boxes = np.concatenate([middles - size / 2, middles + size / 2], axis=-1)
    inside = _common(boxes, np.array([ax.bbox.extents]))[:, 0]
    covered = _common(boxes, occupied).sum(axis=1) + size.prod() - inside
    # A level or upright line would look like an interval.
    nearest = np.arange(len(boxes)) < len(_DIRECTIONS)
    slanted = np.tile(np.abs(toward).min(axis=1) > 0.1, len(_DISTANCES))
    covered[~(nearest | slanted)] += size.prod()
    # argmin takes the first of equal places: the nearest.
    best = int(np.round(covered).argmin())
    to_data = ax.transData.inverted().transform
    x, y = to_data(middles[best])
    text.set_position((x, y))
    added = [boxes[best] + _GAP * _pixels(ax) * np.array([-1, -1, 1, 1])]
    if not nearest[best]:
        end = np.clip(start, boxes[best, :2], boxes[best, 2:])
        line = zip(where, to_data(end), strict=True)
        ax.plot(*line, color=_GREY, linewidth=0.5, zorder=1)
        along = start + np.linspace(0, 1, 20)[:, None] * (end - start)
        added += [np.concatenate([at - 1, at + 1]) for at in along]
    return np.array(added)


def _pixels(ax: 'Axes') -> float:
    """In a point."""
    return ax.figure.dpi / 72


def _common(first: Boxes, second: Boxes) -> Float[np.ndarray, 'A B']:
    """The area that each box of ``first`` has in common with each of ``second``."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    return np.prod(np.clip(high - low, 0, None), axis=-1)
