"""Charts hold every series inside their frame, and fit into a page."""

import itertools
import re
import time
import xml.etree.ElementTree as ElementTree

import matplotlib
import pytest

from passk_jax.report import charts
from passk_jax.report.page import STYLE
from passk_jax.report.panels import Panel, Series
from tests import legible
from tests.tiny import ROOT

COLOR = '#123456'
WIDTH, HEIGHT = 360, 208.8


def _series(x, y, **kwargs):
    return Series('a', x, y, COLOR, **kwargs)


def _chart(panel):
    """The chart's markup, which must be XML but for a name space that HTML knows."""
    figure = charts.svg_chart(panel)
    root = '<figure xmlns:xlink="http://www.w3.org/1999/xlink"'
    ElementTree.fromstring(figure.replace('<figure', root, 1))
    return figure


def _places(svg):
    """Every point of the lines and bands."""
    for band, path, tail in re.findall(r'<path( id="m\w*")? d="([^"]*)"([^>]*)>', svg):
        # A band is drawn from the lower left corner; a dot has curves.
        down = HEIGHT if band else 0
        if ('clip-path' in tail or band) and COLOR in tail and 'C' not in path:
            for x, y in re.findall(r'[ML] ([-\d.e]+) ([-\d.e]+)', path):
                yield float(x), float(y) + down


def _marks(svg):
    """The dots of marked series; those of the legend are not clipped."""
    for group in re.findall(r'<g clip-path=[^>]*>(.*?)</g>', svg, re.S):
        for x, y in re.findall(r'<use [^>]*x="([^"]*)" y="([^"]*)"', group):
            # A band is used at the corner.
            if float(x):
                yield float(x), float(y)


@pytest.mark.parametrize(
    'panel',
    [
        Panel('t', 'x', (_series([0, 5, 9], [0.1, -3.0, 8.0]),)),
        Panel('t', 'x', (_series([0], [0.0], marker='o'),), floor=0.0),
        Panel('t', 'x', (_series([0, 1], [1.0, 1.0]),), floor=0.0, ceiling=1.0),
        Panel('t', 'x', (_series([0, 1], [0.0, 0.0]),), floor=0.0, ceiling=1.0),
        Panel('t', 'x', (_series([1, 4, 32], [0.2, 0.4, 1.0], low=[0.1, 0.3, 0.9],
              high=[0.3, 0.5, 1.0], dashed=True, marker='o'),), log2=True,
              floor=0.0, ceiling=1.0),
        Panel('t', 'x', (_series([0, 1], [1e-9, 2e-9]), _series([5], [3e-9]))),
        Panel('t', 'x', (_series([0, 1], [1e12, -1e12]),), floor=0.0, ceiling=1.0),
    ],
)  # fmt: skip
def test_every_point_is_inside_the_frame(panel):
    places = [*_places(svg := _chart(panel)), *_marks(svg)]
    assert places
    for x, y in places:
        assert 0.11 * WIDTH < x < WIDTH
        assert 0 < y < 0.85 * HEIGHT + 0.1


def test_a_higher_value_is_higher_and_a_later_one_further_right():
    svg = _chart(Panel('t', 'x', (_series([0, 1], [0.0, 1.0]),)))
    (x0, y0), (x1, y1) = _places(svg)
    assert x0 < x1
    assert y0 > y1


def test_powers_of_two_are_evenly_spaced_on_a_logarithmic_axis():
    values = [1, 2, 4, 8]
    panel = Panel('t', 'k', (_series(values, [0.1] * 4, marker='o'),), log2=True)
    svg = _chart(panel)
    gaps = [b - a for (a, _), (b, _) in itertools.pairwise(_marks(svg))]
    assert gaps == pytest.approx([gaps[0]] * 3, abs=0.2)
    texts = re.findall(r'<text[^>]*>([^<]*)</text>', svg)
    assert texts[:4] == ['1', '2', '4', '8']


def test_a_single_place_has_a_single_tick():
    svg = _chart(Panel('t', 'step', (_series([250], [0.5], marker='o'),)))
    texts = re.findall(r'<text[^>]*>([^<]*)</text>', svg)
    assert texts[:2] == ['250', 'step']


def test_a_band_and_a_dashed_line_are_drawn():
    x, y = [0, 1, 2], [0.1, 0.3, 0.2]
    band = {'low': [0.0, 0.1, 0.1], 'high': [0.2, 0.4, 0.3]}
    plain = _chart(Panel('t', 'x', (_series(x, y),)))
    svg = _chart(Panel('t', 'x', (_series(x, y, dashed=True, **band),)))
    assert 'stroke-dasharray' not in plain.replace('stroke-dasharray: none', '')
    assert re.search(rf'stroke-dasharray: [\d., ]+; stroke-dashoffset.*?{COLOR}', svg)
    assert f'fill: {COLOR}; fill-opacity: 0.13' in svg
    assert f'fill: {COLOR}; fill-opacity: 0.13' not in plain


def test_of_two_points_the_intervals_are_bars():
    band = {'low': [0.0, 0.1], 'high': [0.2, 0.4]}
    plain = _chart(Panel('t', 'x', (_series([0, 1], [0.1, 0.3]),)))
    svg = _chart(Panel('t', 'x', (_series([0, 1], [0.1, 0.3], **band),)))
    assert 'fill-opacity: 0.13' not in svg
    assert len([*_places(svg)]) == len([*_places(plain)]) + 4


def test_lines_side_by_side_have_bars_and_keep_the_axis_of_their_places():
    from passk_jax.report.charts import draw_panel, new_figure

    x, y = [0, 100, 300], [0.1, 0.3, 0.2]
    band = {'low': [0.0, 0.2, 0.1], 'high': [0.2, 0.4, 0.3], 'bars': True}
    limits, places = [], []
    for offsets in ((0.0, 0.0), (-4.0, 4.0)):
        ax = new_figure(4, 3).add_subplot()
        series = tuple(_series(x, y, offset=offset, **band) for offset in offsets)
        draw_panel(Panel('t', 'step', series), ax)
        limits.append((ax.get_xlim(), ax.get_ylim()))
        start = ax.transData.transform((0.0, 0.1))[0]
        ends = [line.get_window_extent().x0 for line in ax.lines[-2:]]
        places.append([end - start for end in ends])
        assert len(ax.collections) == 2
    assert limits[0][1] == limits[1][1]
    assert limits[1][0] == pytest.approx((-0.08 * 300, 1.08 * 300))
    apart = [one - other for one, other in zip(*places, strict=True)]
    assert apart[0] == pytest.approx(4.0 * 100 / 72, abs=0.5)
    assert apart[1] == pytest.approx(-4.0 * 100 / 72, abs=0.5)


def test_a_border_is_a_dotted_line_at_its_step():
    series = _series([0, 10], [0.0, 1.0])
    plain = _chart(Panel('t', 'step', (series,)))
    with_border = _chart(Panel('t', 'step', (series,), borders=(5,)))
    assert with_border.count('stroke-dasharray') == 1 + plain.count('stroke-dasharray')


def test_an_empty_panel_says_so():
    assert 'nothing yet' in _chart(Panel('t', 'x', ()))


def test_a_chart_has_a_caption_a_name_and_a_legend():
    svg = _chart(Panel('Reward', 'step', (_series([0, 1], [0.0, 1.0]),)))
    assert '<figcaption>Reward</figcaption>' in svg
    assert 'role="img" aria-label="Reward"' in svg
    texts = re.findall(r'<text[^>]*>([^<]*)</text>', svg)
    assert {'step', 'a', '0.0'} <= set(texts)


def test_names_are_escaped():
    panel = Panel('<t>"\\1', '<x>', (Series('<script>', [0, 1], [0, 1], COLOR),))
    svg = _chart(panel)
    assert '<script>' not in svg
    assert '&lt;script&gt;' in svg
    assert 'aria-label="&lt;t&gt;&quot;\\1"' in svg


def test_text_and_axes_have_the_colours_of_the_page():
    """A fixed black, or a white ground, could not be read in dark mode."""
    svg = _chart(Panel('t', 'x', (_series([0, 1], [0.0, 1.0], marker='o'),)))
    assert set(re.findall(r'#[0-9a-f]{6}\b', svg)) == {COLOR}
    used = set(re.findall(r'var\((--\w+)\)', svg))
    assert used == {'--soft', '--edge'}
    assert all(f'{name}:#' in STYLE for name in used)
    assert '<style' not in svg


def test_charts_of_one_page_have_no_id_in_common():
    band = {'low': [0.0, 0.0], 'high': [1.0, 1.0], 'marker': 'o'}
    first, second = (
        _chart(Panel(title, 'x', (_series([0, 1], [0.0, 1.0], **band),)))
        for title in ('one', 'two')
    )
    ids = [re.findall(r'\bid="([^"]*)"', svg) for svg in (first, second)]
    assert ids[0]
    assert len({*ids[0], *ids[1]}) == len(ids[0]) + len(ids[1])
    for chart_ids, svg in zip(ids, (first, second), strict=True):
        referred = re.findall(r'url\(#([^)]*)\)|href="#([^"]*)"', svg)
        assert {a or b for a, b in referred} <= set(chart_ids)


def test_a_long_run_is_thinned_and_keeps_its_last_point():
    n = 50_000
    line = _series(range(n), [float(i % 7) for i in range(n)], marker='o')
    started = time.process_time()
    svg = _chart(Panel('t', 'x', (line,)))
    assert time.process_time() - started < 4
    marks = list(_marks(svg))
    assert 350 < len(marks) <= 400
    last = _chart(Panel('t', 'x', (_series([0, n - 1], [0.0, 6.0], marker='o'),)))
    assert marks[-1][0] == pytest.approx(list(_marks(last))[-1][0], abs=0.1)


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
    charts_of_page = [_chart(panel) for panel in panels]
    assert charts_of_page == [_chart(panel) for panel in panels]
    assert not re.search(r'\d{4}-\d\d-\d\d|[Mm]atplotlib', ''.join(charts_of_page))


def test_a_legend_that_all_panels_share_stands_once(monkeypatch):
    legends = []
    monkeypatch.setattr(charts, 'as_png', lambda figure: legends.append(figure.legends))
    one, other = (Panel('t', 'x', (_series([1, 2], y),)) for y in ([0, 1], [1, 0]))
    charts.draw_figure([one, other], title='a')
    charts.draw_figure([one, Panel('bare', 'x', ())], title='a')
    # A panel that has no values yet has no legend from which to take it.
    empty = Panel('t', 'x', (_series([], []),))
    charts.draw_figure([empty, one], title='a')
    (shared,), apart, (behind,) = legends
    assert [text.get_text() for text in behind.get_texts()] == ['a']
    assert [text.get_text() for text in shared.get_texts()] == ['a']
    assert apart == []


def test_a_figure_can_be_read_in_readme():
    line = _series([1, 2, 4], [0.0, 0.5, 1.0], marker='o')
    panels = [
        Panel(f'Pass@{k}', 'step', (line,), y_label='share of problems')
        for k in (1, 2, 4, 8, 16)
    ]
    # A long line below is broken.
    with legible.texts() as written:
        charts.draw_figure(panels, title='a title', below='some words ' * 30)
    legible.check(written)
    texts = [text.text for text in written]
    assert texts.count('share of problems') == len(panels)


def test_the_figures_of_all_results_are_as_wide_as_one_that_can_be_read():
    drawn = charts.draw_figure([Panel('t', 'x', ())], title='a title')
    paths = [*(ROOT / 'experiments' / 'results').glob('*.png')]
    assert paths
    for path in paths:
        # The header of a PNG has its width here.
        assert path.read_bytes()[16:20] == drawn[16:20], path
        assert path.with_suffix('.md').exists(), path


def test_panels_stand_in_rows_that_they_fill():
    assert [charts.columns_for(n) for n in range(1, 8)] == [1, 2, 3, 2, 3, 3, 3]


def test_on_a_logarithmic_axis_the_markers_are_at_the_ticks():
    n = 32
    line = _series(range(1, n + 1), [k / n for k in range(1, n + 1)], marker='o')
    long, plain = (
        len([*_marks(_chart(Panel('t', 'k', (line,), log2=log2)))])
        for log2 in (True, False)
    )
    assert (long, plain) == (6, n)


def test_a_panel_is_drawn_into_axes_of_any_figure_without_its_title():
    figure = charts.new_figure(4, 3)
    ax = figure.add_subplot()
    ax.set_title('of the figure')
    panel = Panel('of the panel', 'step', (_series([0, 5], [0.1, 0.3]),))
    charts.draw_panel(panel, ax)
    assert (ax.get_title(), ax.get_xlabel()) == ('of the figure', 'step')
    assert ax.lines[0].get_xydata().tolist() == [[0, 0.1], [5, 0.3]]


def test_the_style_of_notebooks_has_only_what_matplotlib_knows():
    with matplotlib.rc_context(charts.NOTEBOOK_STYLE):
        assert matplotlib.rcParams['axes.spines.top'] is False


def test_layers_of_bars_stand_on_each_other():
    layers = [
        Series(name, [2, 4], y, COLOR) for name, y in (('a', [1, 2]), ('b', [3, 1]))
    ]
    figure = charts.new_figure(4, 3)
    ax = figure.add_subplot()
    charts.draw_panel(Panel('t', 'step', tuple(layers), stacked=True), ax)
    below, above = (patch.get_data() for patch in ax.patches)
    assert [*below.values] == [*above.baseline] == [1, 2]
    assert [*above.values] == [4, 3]
    # Each as wide as the way to the next one.
    assert [*below.edges] == [*above.edges] == [1, 3, 5]
    assert ax.get_ylim() == (0, pytest.approx(1.06 * 4))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ['a', 'b']


def test_a_single_bar_is_a_step_wide_and_a_high_one_is_cut_off():
    for x, top, edges in (([7], None, [6.5, 7.5]), ([7, 8], 2.5, [6.5, 7.5, 8.5])):
        layer = Series('a', x, [9.0] * len(x), COLOR)
        ax = charts.new_figure(4, 3).add_subplot()
        charts.draw_panel(Panel('t', 'step', (layer,), stacked=True, top=top), ax)
        (bars,) = ax.patches
        assert [*bars.get_data().edges] == edges
        assert ax.get_ylim()[1] == (top or 1.06 * 9)


def test_a_chart_of_bars_has_room_for_its_legend_above():
    layers = tuple(Series(f'phase {i}', [0, 1], [1, 1], COLOR) for i in range(8))
    svg = _chart(Panel('t', 'step', layers, stacked=True))
    heights = {
        float(y)
        for y in re.findall(r'translate\([\d.]+ ([\d.]+)\)[^>]*>phase', svg)
        + re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>phase', svg)
    }
    assert heights
    assert max(heights) < 0.16 * HEIGHT
    assert min(heights) > 0
