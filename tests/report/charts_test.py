"""Charts hold every series inside their frame, and are well-formed."""

import itertools
import re
import time
import xml.etree.ElementTree as ElementTree

import pytest

from passk_jax.report import charts
from passk_jax.report.panels import Panel, Series


def _series(x, y, **kwargs):
    return Series('a', x, y, '#123456', **kwargs)


def _places(svg):
    for points in re.findall(r'points="([^"]*)"', svg):
        for pair in points.split():
            x, y = pair.split(',')
            yield float(x), float(y)


@pytest.mark.parametrize(
    'panel',
    [
        Panel('t', 'x', (_series([0, 5, 9], [0.1, -3.0, 8.0]),)),
        Panel('t', 'x', (_series([0], [0.0], marked=True),), floor=0.0),
        Panel('t', 'x', (_series([0, 1], [1.0, 1.0]),), floor=0.0, ceiling=1.0),
        Panel('t', 'x', (_series([0, 1], [0.0, 0.0]),), floor=0.0, ceiling=1.0),
        Panel('t', 'x', (_series([1, 4, 32], [0.2, 0.4, 1.0], low=[0.1, 0.3, 0.9],
              high=[0.3, 0.5, 1.0], dashed=True, marked=True),), log2=True,
              floor=0.0, ceiling=1.0),
        Panel('t', 'x', (_series([0, 1], [1e-9, 2e-9]), _series([5], [3e-9]))),
        Panel('t', 'x', (_series([0, 1], [1e12, -1e12]),), floor=0.0, ceiling=1.0),
    ],
)  # fmt: skip
def test_every_point_is_inside_the_frame_and_the_svg_is_well_formed(panel):
    svg = charts.svg_chart(panel)
    ElementTree.fromstring(svg)
    places = list(_places(svg))
    assert places
    for x, y in places:
        assert 43 < x < 410
        assert 7 < y < 198


def test_a_higher_value_is_higher_and_a_later_one_further_right():
    svg = charts.svg_chart(Panel('t', 'x', (_series([0, 1], [0.0, 1.0]),)))
    (x0, y0), (x1, y1) = _places(svg)
    assert x0 < x1
    assert y0 > y1


def test_powers_of_two_are_evenly_spaced_on_a_logarithmic_axis():
    panel = Panel('t', 'k', (_series([1, 2, 4, 8], [0.1] * 4),), log2=True)
    xs = [x for x, _ in _places(charts.svg_chart(panel))]
    gaps = [b - a for a, b in itertools.pairwise(xs)]
    assert gaps == pytest.approx([gaps[0]] * 3, abs=0.2)


def test_an_empty_panel_says_so():
    assert 'nothing yet' in charts.svg_chart(Panel('t', 'x', ()))


def test_names_are_escaped():
    panel = Panel('<t>', '<x>', (Series('<script>', [0, 1], [0, 1], '#123456'),))
    svg = charts.svg_chart(panel)
    assert '<script>' not in svg
    ElementTree.fromstring(svg)


def test_a_long_run_is_thinned_and_keeps_its_last_point():
    n = 50_000
    panel = Panel('t', 'x', (_series(range(n), [float(i % 7) for i in range(n)]),))
    started = time.process_time()
    places = list(_places(charts.svg_chart(panel)))
    assert time.process_time() - started < 2
    assert len(places) <= 401
    assert places[-1][0] == 408.0


@pytest.mark.parametrize(
    ('low', 'high', 'ticks'),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-0.31, 2.7, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]),
        (12, 16, [12, 13, 14, 15, 16]),
        (0, 200, [0, 50, 100, 150, 200]),
    ],
)
def test_ticks_are_round_numbers(low, high, ticks):
    assert charts.nice_ticks(low, high) == ticks


def test_equal_panels_give_equal_pictures():
    panels = [
        Panel('t', 'x', (_series([1, 2], [0.0, 1.0], low=[0, 0], high=[1, 1]),)),
        Panel('k', 'k', (_series([1, 2, 4], [0.0, 1.0, 1.0]),), log2=True),
        Panel('empty', 'x', ()),
        Panel('fourth', 'x', ()),
    ]
    first = charts.draw_figure(panels, title='a')
    assert first.startswith(b'\x89PNG')
    assert first == charts.draw_figure(panels, title='a')
    assert first != charts.draw_figure(panels[:3], title='a')
