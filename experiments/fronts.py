"""Draws Pass@32 against Pass@1, a line for each front; for other experiments.

A *front* is what one setting trades along one knob: a temperature, k, or a step.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from passk_jax.report.arms import COLORS, MARKERS
from passk_jax.report.charts import FIGURE_WIDTH, TITLE, as_png, new_figure
from passk_jax.report.scatter import Point, exactly, write_names

_STYLES = tuple(zip((*COLORS, 'black'), (*MARKERS, 'X'), strict=True))


@dataclasses.dataclass(frozen=True)
class Front:
    """The points of a front, in the order of its knob.

    Attributes:
        names: the text beside each point; ``''``: none.
        pass_at_1, pass_at_32: ``[points]``, means over seeds.
    """

    names: Sequence[str]
    pass_at_1: np.ndarray
    pass_at_32: np.ndarray


def draw_fronts(fronts: Mapping[str, Front], *, title: str) -> bytes:
    """Returns a PNG with at most seven fronts by name."""
    figure = new_figure(FIGURE_WIDTH, 5.2)
    figure.set_layout_engine('constrained')
    figure.suptitle(title, **TITLE)
    ax = figure.subplots()
    points = []
    for (label, front), (color, marker) in zip(fronts.items(), _STYLES, strict=False):
        x, y = front.pass_at_1, front.pass_at_32
        ax.plot(x, y, color=color, marker=marker, markersize=4, label=label)
        points += [
            Point(exactly(across), exactly(up), name, color=color, name_color=color)
            for across, up, name in zip(x, y, front.names, strict=True)
        ]
    ax.set(xlabel='Pass@1', ylabel='Pass@32')
    ax.grid(alpha=0.25)
    ax.spines[['top', 'right']].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    write_names(figure, {ax: points})
    return as_png(figure)
