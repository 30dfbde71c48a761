import math

import pytest
from matplotlib.text import Text

from passk_jax.report import forest
from passk_jax.report.forest import Dots, Forest
from tests import legible

ROWS = ['the first', 'the second', 'the last']
VALUES = [(0.1, 0.0, 0.2), (-0.3, -0.4, -0.2), (0.0, math.nan, math.nan)]


def draw(forests, columns=3, **words):
    words = {'title': 'a title', 'below': 'a line'} | words
    return forest.draw_forests(forests, columns=columns, **words)


@pytest.fixture
def figures(monkeypatch):
    """The figures, in place of their pictures."""
    drawn = []
    monkeypatch.setattr(forest, 'as_png', drawn.append)
    return drawn


def test_the_first_row_is_on_top_and_an_interval_is_a_bar(figures):
    draw([Forest('t', 'x', ROWS, [Dots(VALUES)])], columns=1)
    (ax,) = figures[0].axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    places = ax.transData.transform([(0, y) for y in ax.get_yticks()])[:, 1]
    assert labels == ROWS
    assert places[0] > places[1] > places[2]
    (dots,) = (line for line in ax.lines if line.get_marker() == 'o')
    assert dots.get_xydata().tolist() == [[0.1, 0], [-0.3, 1], [0.0, 2]]
    bars = [
        segment
        for collection in ax.collections
        for segment in collection.get_segments()
    ]
    assert [bar.tolist() for bar in bars[:2]] == [
        [[0.0, 0], [0.2, 0]],
        [[-0.4, 1], [-0.2, 1]],
    ]


def test_several_dots_of_a_row_stand_below_each_other_and_are_in_a_legend(figures):
    dots = [Dots(VALUES, 'A'), Dots(VALUES, 'B', color='#123456', marker='s')]
    draw([Forest('t', 'x', ROWS, dots)], columns=1)
    (ax,) = figures[0].axes
    upper, lower = (
        next(line.get_ydata() for line in ax.lines if line.get_marker() == marker)
        for marker in 'os'
    )
    for row, (one, other) in enumerate(zip(upper, lower, strict=True)):
        assert row - 0.5 < one < row < other < row + 0.5
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ['A', 'B']


def test_rows_are_named_at_the_left_alone_and_empty_places_are_left_out(figures):
    draw([Forest(name, 'x', ROWS, [Dots(VALUES)]) for name in 'abcde'])
    axes = figures[0].axes
    assert [ax.get_title(loc='left') for ax in axes] == [*'abcde']
    has_labels = [[t.get_text() for t in ax.get_yticklabels()] == ROWS for ax in axes]
    assert has_labels == [True, False, False, True, False]


def test_a_panel_is_as_high_as_its_rows(figures):
    panels = [
        Forest('t', 'x', [*'abcdefgh'[:n]], [Dots(VALUES[:1] * n)]) for n in (8, 2)
    ]
    draw(panels, columns=1)
    figures[0].draw_without_rendering()
    tall, low = (ax.get_position().height for ax in figures[0].axes)
    assert tall > 2 * low


def test_it_can_be_read_in_readme_and_equal_ones_are_equal_pictures():
    labels = [f'a label of some length, {i}' for i in range(12)]
    panels = [
        Forest(f'measure {i}', 'a unit', labels, [Dots(VALUES * 4)]) for i in range(6)
    ]
    below = 'difference from the baseline, with its interval, which needs many words'
    with legible.texts() as written:
        picture = draw(panels, below=below)
    legible.check(written)
    assert picture.startswith(b'\x89PNG')
    assert picture == draw(panels, below=below)


@pytest.mark.parametrize('letters', [5, 30, 60])
def test_the_legend_ends_in_the_figure(figures, letters):
    dots = [Dots(VALUES, label=x * letters) for x in 'abc']
    draw([Forest('t', 'x', ROWS, dots)], columns=1)
    (figure,) = figures
    (ax,) = figure.axes
    assert len(ax.get_legend().get_texts()) == 3
    assert ax.get_legend().get_window_extent().x1 <= figure.bbox.x1


def test_a_title_wider_than_the_figure_is_wrapped(figures):
    title = 'distinct answers among four that are wrong'
    draw([Forest(title, 'x', ROWS, [Dots(VALUES)])] * 3)
    (figure,) = figures
    figure.draw_without_rendering()
    titles = [x for x in figure.findobj(Text) if x.get_text() == title]
    assert len(titles) == 3
    for artist in titles:
        assert artist.get_window_extent().x1 <= figure.bbox.x1
