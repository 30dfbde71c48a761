r"""The task visual maze: the mazes of :mod:`.task` as pictures, with the same verdict.

A cell is a square of one color: walls are blue, S is green, E is red, and free cells
are white. The same maze as text is an equal problem.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from passk_jax.config.ranges import count, section
from passk_jax.tasks.maze import rule
from passk_jax.tasks.maze.task import ANSWER, MazeParams, MazeTask
from passk_jax.types import PICTURE, Problem

_COLORS = {
    rule.WALL: (30, 50, 110),
    rule.FREE: (245, 245, 245),
    rule.START: (30, 160, 60),
    rule.END: (210, 40, 40),
}
_QUESTION = (
    PICTURE
    + """
The picture shows a maze of square cells. Blue cells are walls and white cells are free. The path begins at the green cell and ends at the red cell. It goes from cell to cell: `U` up, `D` down, `L` left, `R` right. It must neither enter a wall nor leave the maze; it need not be the shortest.

"""  # noqa: E501
)


@section
class VisualMazeParams(MazeParams):
    """The mazes to generate, their pictures and the prompt.

    Attributes:
        cell_pixels: side of a cell in pixels.
    """

    cell_pixels: int = count(1, 256)


class VisualMazeTask(MazeTask):
    """Mazes as pictures; ``Problem.data`` and the verdict are those of the text."""

    name = 'visual_maze'
    Params = VisualMazeParams
    prompts: ClassVar = {
        'bare': (f'{PICTURE}\n', '{moves}'),
        'instruct': (
            _QUESTION + ANSWER.replace('{}', '{{}}'),
            MazeTask.prompts['instruct'][1],
        ),
    }
    about = dataclasses.replace(
        MazeTask.about,
        summary='mazes as pictures: find a path from the green to the red cell',
        example={**MazeTask.about.example, 'cell_pixels': 32},
    )

    def problem(self, maze: str, *, id: int) -> Problem:
        """Makes the problem of a maze, with its picture."""
        problem = super().problem(maze, id=id)
        picture = draw_cells(maze.split('\n'), cell_pixels=self.params.cell_pixels)
        return dataclasses.replace(problem, images=(picture,))


def draw_cells(rows: Sequence[str], *, cell_pixels: int) -> np.ndarray:
    """Draws a maze as uint8 ``[height, width, 3]``.

    >>> draw_cells(['S*', '.E'], cell_pixels=2)[0, :, 2].tolist()
    [60, 60, 110, 110]
    """
    cells = np.array([[_COLORS[cell] for cell in row] for row in rows], np.uint8)
    return cells.repeat(cell_pixels, axis=0).repeat(cell_pixels, axis=1)
