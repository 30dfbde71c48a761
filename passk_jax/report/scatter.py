"""Draws scatter plots of points with intervals, and places their names.

``experiments/steepness.py`` and ``experiments/frontier.py`` draw with them.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from passk_jax.report.arms import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Candidate places of a name around its point, in points and radians, best first.
_DISTANCES = (6, 12, 20, 30, 42, 56, 72)
_DIRECTIONS = np.deg2rad((0, 180, 30, -30, 150, -150, 60, -60, 120, -120, 90, -90))
# The margin around a name, in points.
_GAP = 2
_TEXT, _GREY = '#20242c', '#667085'

Boxes = Float[np.ndarray, '*B 4']
"""Boxes: left, bottom, right and top, in pixels."""


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of a scatter plot.

    Attributes:
        x, y: its coordinates, with their intervals.
        name: the text beside it; ``''``: none.
        kind: its entry in the legend; points of a kind look alike.
        color: ``#rrggbb``.
        marker: a marker of matplotlib.
        hollow: whether only the marker's edge is coloured.
        size: the marker's size, in points.
        name_color: ``#rrggbb`` of the name.
    """

    x: Interval
    y: Interval
    name: str = ''
    kind: str = ''
    color: str = _GREY
    marker: str = 'o'
    hollow: bool = False
    size: float = 6.0
    name_color: str = _TEXT


def exactly(value: float) -> Interval:
    """Returns a value as an :data:`Interval` without ends."""
    return value, math.nan, math.nan


def draw_points(points: Sequence[Point], ax: 'Axes') -> None:
    """Draws points and intervals, but no names."""
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
    """Writes a legend of the kinds of points above the axes."""
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
    """Writes the names beside their points; call it when everything else is drawn.

    Puts each name as near to its point as it can without covering other marks or
    earlier names, or else where it covers the least. A line connects a distant name to
    its point. Points outside the axes get no name.
    """
    figure.draw_without_rendering()
    # Freeze the layout, because names are placed in pixels.
    figure.set_layout_engine('none')
    for ax, points in panels.items():
        ax.autoscale(False)
        occupied = _boxes(ax)
        for point in points:
            if point.name and ax.viewLim.contains(point.x[0], point.y[0]):
                occupied = np.append(occupied, _write(point, ax, occupied), axis=0)


def _boxes(ax: 'Axes') -> Boxes:
    """Returns the boxes of all markers, intervals and lines."""
    boxes = [np.empty((0, 4))]
    for line in ax.lines:
        corners = line.get_transform().transform(line.get_xydata())
        if not np.isfinite(corners).all():
            continue  # an undefined interval
        if len(corners) == 1:
            marker = line.get_window_extent().padded(_pixels(ax))
            boxes.append(np.array([marker.extents]))
        boxes += [_along(*ends) for ends in itertools.pairwise(corners)]
    return np.concatenate(boxes)


def _along(start: np.ndarray, end: np.ndarray) -> Boxes:
    """Returns small boxes, four pixels apart, along a line between two points."""
    # A line may end far outside the figure.
    num_boxes = 2 + min(1000, int(math.dist(start, end) // 4))
    middles = np.linspace(start, end, num_boxes)
    return np.concatenate([middles - 1, middles + 1], axis=-1)


def _write(point: Point, ax: 'Axes', occupied: Boxes) -> Boxes:
    """Writes the name of a point; returns the boxes of the name and its line."""
    where = point.x[0], point.y[0]
    style = {'fontsize': 8, 'color': point.name_color, 'ha': 'center', 'va': 'center'}
    text = ax.text(*where, point.name, **style)
    size = np.array(text.get_window_extent().size)
    start = ax.transData.transform(where)
    toward = np.stack([np.cos(_DIRECTIONS), np.sin(_DIRECTIONS)], axis=-1)
    # The offset from the text's nearest edge to its middle.
    half = np.clip(1.5 * toward, -1, 1) * size / 2
    steps = np.array(_DISTANCES)[:, None, None] * _pixels(ax) * toward
    middles = start + (steps + half).reshape(-1, 2)
    boxes = np.concatenate([middles - size / 2, middles + size / 2], axis=-1)
    inside = _common(boxes, np.array([ax.bbox.extents]))[:, 0]
    covered = _common(boxes, occupied).sum(axis=1) + size.prod() - inside
    # A horizontal or vertical line would look like an interval.
    nearest = np.arange(len(boxes)) < len(_DIRECTIONS)
    slanted = np.tile(np.abs(toward).min(axis=1) > 0.1, len(_DISTANCES))
    covered[~(nearest | slanted)] += size.prod()
    # argmin() chooses the nearest of equal places.
    best = int(np.round(covered).argmin())
    to_data = ax.transData.inverted().transform
    x, y = to_data(middles[best])
    text.set_position((x, y))
    added = [boxes[best] + _GAP * _pixels(ax) * np.array([-1, -1, 1, 1])]
    if not nearest[best]:
        end = np.clip(start, boxes[best, :2], boxes[best, 2:])
        line = zip(where, to_data(end), strict=True)
        ax.plot(*line, color=_GREY, linewidth=0.5, zorder=1)
        added += [*_along(start, end)]
    return np.array(added)


def _pixels(ax: 'Axes') -> float:
    """Returns the pixels of a point."""
    return ax.figure.dpi / 72


def _common(first: Boxes, second: Boxes) -> Float[np.ndarray, 'A B']:
    """Returns the area of intersection of each pair of boxes."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    return np.prod(np.clip(high - low, 0, None), axis=-1)
