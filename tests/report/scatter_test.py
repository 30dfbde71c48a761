import itertools

import numpy as np
import pytest

from passk_jax.report.charts import FIGURE_WIDTH, as_png, new_figure
from passk_jax.report.scatter import (
    Point,
    draw_points,
    exactly,
    write_legend,
    write_names,
)
from tests import legible


def drawn(points, **limits):
    """A figure of one panel, and its axes."""
    figure = new_figure(FIGURE_WIDTH, 4)
    figure.set_layout_engine('constrained')
    ax = figure.add_subplot()
    ax.set(**limits)
    draw_points(points, ax)
    write_names(figure, {ax: points})
    return figure, ax


def names(ax):
    return {text.get_text(): text.get_window_extent() for text in ax.texts}


def overlap(one, other):
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    return min(width, min(one.y1, other.y1) - max(one.y0, other.y0))


@pytest.mark.parametrize('seed', range(3))
def test_names_cover_neither_each_other_nor_points_nor_intervals(seed):
    rng = np.random.default_rng(seed)
    # Two clouds, so that names must go apart.
    places = rng.normal(scale=0.1, size=(14, 2)) + rng.integers(0, 2, (14, 1))
    points = [
        Point(exactly(x), (y, y - 0.08, y + 0.08), f'estimator_{i}')
        for i, (x, y) in enumerate(places)
    ]
    figure, ax = drawn(points)
    boxes = names(ax)
    assert boxes.keys() == {point.name for point in points}
    for one, other in itertools.combinations(boxes.values(), 2):
        assert overlap(one, other) < 1
    markers = [
        line.get_window_extent() for line in ax.lines if line.get_marker() == 'o'
    ]
    assert len(markers) == len(points)
    for name, marker in itertools.product(boxes.values(), markers):
        assert overlap(name, marker) < 1
    for name in boxes.values():
        assert ax.bbox.x0 <= name.x0 < name.x1 <= ax.bbox.x1
    with legible.texts() as written:
        as_png(figure)
    legible.check(written)


def test_a_name_stands_beside_its_point_and_a_line_leads_to_one_far_away():
    alone = [Point(exactly(0.0), exactly(0.0), 'alone')]
    _, ax = drawn(alone, xlim=(-1, 1), ylim=(-1, 1))
    x, y = ax.transData.transform((0, 0))
    name = names(ax)['alone']
    assert x < name.x0 < x + 15
    assert name.y0 < y < name.y1
    without = len(ax.lines)
    # So many around it that its own place is taken.
    other_points = [
        Point(exactly(0.07 * np.cos(a)), exactly(0.07 * np.sin(a)))
        for a in np.linspace(0, 2 * np.pi, 40)
    ]
    _, ax = drawn(alone + other_points, xlim=(-1, 1), ylim=(-1, 1))
    lines = len(ax.lines) - without * (1 + len(other_points))
    assert lines == 1


def test_a_line_to_a_name_is_neither_level_nor_upright():
    """It would look like an interval."""
    points = [
        Point(exactly(0.04 * i), (0.0, -0.8, 0.8), f'estimator_{i}') for i in range(6)
    ]
    _, ax = drawn(points, xlim=(-1, 1), ylim=(-1, 1))
    leaders = [line for line in ax.lines if line.get_linewidth() == 0.5]
    assert leaders
    for line in leaders:
        x, y = np.abs(np.diff(ax.transData.transform(line.get_xydata()), axis=0)[0])
        assert min(x, y) > 2


def test_a_point_outside_has_no_name_and_moves_no_axis():
    points = [Point(exactly(x), exactly(0.0), f'at {x:g}') for x in (0.0, 5.0)]
    _, ax = drawn(points, xlim=(-1, 1), ylim=(-1, 1))
    assert names(ax).keys() == {'at 0'}
    assert ax.get_xlim() == (-1, 1)


def test_a_cross_has_its_intervals_and_a_hollow_marker_its_edge_alone():
    figure = new_figure(4, 3)
    ax = figure.add_subplot()
    draw_points([Point((0.0, -1.0, 2.0), (3.0, 2.5, 4.0), hollow=True)], ax)
    across, along, marker = ax.lines
    assert across.get_xydata().tolist() == [[-1, 3], [2, 3]]
    assert along.get_xydata().tolist() == [[0, 2.5], [0, 4]]
    assert marker.get_markerfacecolor() == 'white'
    assert marker.get_markeredgecolor() != 'white'


def test_the_legend_has_each_kind_once():
    figure = new_figure(4, 3)
    ax = figure.add_subplot()
    kinds = ('one', 'other', 'one', '')
    draw_points(
        [Point(exactly(i), exactly(i), kind=x) for i, x in enumerate(kinds)], ax
    )
    write_legend(ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ['one', 'other']
