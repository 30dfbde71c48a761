"""Whether the texts of a figure can be read where README shows it."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from unittest import mock

from matplotlib.backend_bases import RendererBase
from matplotlib.text import Text

README_WIDTH, LEAST_HEIGHT = 830, 9


class Written(NamedTuple):
    """A text that was drawn: its height in README, and its edges in the figure."""

    text: str
    height: float
    left: float
    bottom: float
    right: float
    top: float


@contextlib.contextmanager
def texts() -> Iterator[list[Written]]:
    """The texts of the figures that are drawn meanwhile; edges are shares of 1."""
    written, draw = [], Text.draw

    def drawn(text: Text, renderer: RendererBase) -> None:
        # Layouts draw too, with a renderer that does nothing.
        if 'draw_text' not in vars(renderer) and text.get_visible() and text.get_text():
            size = renderer.points_to_pixels(text.get_size())
            edges = text.get_window_extent(renderer).extents
            edges = edges / ([*renderer.get_canvas_width_height()] * 2)
            scale = README_WIDTH / renderer.width
            written.append(Written(text.get_text(), size * scale, *edges))
        draw(text, renderer)

    with mock.patch.object(Text, 'draw', drawn):
        yield written


def check(written: Sequence[Written]) -> None:
    """Asserts that each text is high enough, inside of the figure, and alone there."""
    assert written
    for text in written:
        assert text.height >= LEAST_HEIGHT, text
        assert min(text[2:]) >= 0, text
        assert max(text[2:]) <= 1, text
    for one, other in itertools.combinations(written, 2):
        width = min(one.right, other.right) - max(one.left, other.left)
        height = min(one.top, other.top) - max(one.bottom, other.bottom)
        assert min(width, height) < 1e-3, (one, other)
