"""An SVG drawing of an answer's grid in the colours of ARC-AGI."""

from collections.abc import Mapping
from typing import Any

from passk_jax.tasks.arc.grids import read_grid
from passk_jax.tasks.enigmata.answers import Wrong

_COLOURS = (
    *('#000000', '#0074d9', '#ff4136', '#2ecc40', '#ffdc00'),
    *('#aaaaaa', '#f012be', '#ff851b', '#7fdbff', '#870c25'),
)
_CELL = 10


def draw_grid(data: Mapping[str, Any], parsed: str, *, correct: bool) -> str:
    """Draws the grid of an answer; a dot marks a cell that differs from the right one.

    Args:
        data: holds ``output``, the right grid.
        parsed: the answer; anything but a grid is drawn as ``''``.
        correct: the recorded verdict.
    """
    try:
        grid = read_grid(parsed)
    except Wrong:
        return ''
    wanted = data['output']
    same_size = (len(grid), len(grid[0])) == (len(wanted), len(wanted[0]))
    parts = []
    for r, row in enumerate(grid):
        for c, cell in enumerate(row):
            parts.append(
                f'<rect x="{c * _CELL}" y="{r * _CELL}" width="{_CELL}" '
                f'height="{_CELL}" fill="{_COLOURS[cell]}" stroke="#555"/>'
            )
            if same_size and cell != wanted[r][c]:
                parts.append(
                    f'<circle cx="{(c + 0.5) * _CELL}" cy="{(r + 0.5) * _CELL}" '
                    f'r="{_CELL * 0.2}" fill="#fff" stroke="#000"/>'
                )
    verdict = 'right' if correct else 'wrong'
    height, width = len(grid), len(grid[0])
    box = f'-1 -1 {width * _CELL + 2} {height * _CELL + 2}'
    return (
        f'<svg class="grid {verdict}" style="display:block;width:100%" viewBox="{box}" '
        f'role="img" aria-label="{verdict} grid of {height} x {width}">'
        f'{"".join(parts)}</svg>'
    )
