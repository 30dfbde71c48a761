"""SVG drawings that several tasks share: grids of ARC-AGI and paths through cells."""

from collections.abc import Mapping, Sequence
from typing import Any

from passk_jax.verifiers.answers import Wrong
from passk_jax.verifiers.grids import read_grid

_COLOURS = (
    *('#000000', '#0074d9', '#ff4136', '#2ecc40', '#ffdc00'),
    *('#aaaaaa', '#f012be', '#ff851b', '#7fdbff', '#870c25'),
)
_GRID_CELL = 10

# The side of a cell that a path goes through.
CELL = 16


def draw_grid(data: Mapping[str, Any], parsed: str, *, correct: bool) -> str:
    """Draws the grid of an answer; a dot marks each wrong cell.

    Args:
        data: holds ``output``, the right grid.
        parsed: the answer; for anything but a grid the result is ``''``.
        correct: the recorded verdict.
    """
    try:
        grid = read_grid(parsed)
    except Wrong:
        return ''
    gold = data['output']
    same_size = (len(grid), len(grid[0])) == (len(gold), len(gold[0]))
    parts = []
    for r, row in enumerate(grid):
        for c, cell in enumerate(row):
            parts.append(
                f'<rect x="{c * _GRID_CELL}" y="{r * _GRID_CELL}" width="{_GRID_CELL}" '
                f'height="{_GRID_CELL}" fill="{_COLOURS[cell]}" stroke="#555"/>'
            )
            if same_size and cell != gold[r][c]:
                parts.append(
                    f'<circle cx="{(c + 0.5) * _GRID_CELL}" '
                    f'cy="{(r + 0.5) * _GRID_CELL}" '
                    f'r="{_GRID_CELL * 0.2}" fill="#fff" stroke="#000"/>'
                )
    verdict = 'right' if correct else 'wrong'
    height, width = len(grid), len(grid[0])
    box = f'-1 -1 {width * _GRID_CELL + 2} {height * _GRID_CELL + 2}'
    return (
        f'<svg class="grid {verdict}" style="display:block;width:100%" viewBox="{box}" '
        f'role="img" aria-label="{verdict} grid of {height} x {width}">'
        f'{"".join(parts)}</svg>'
    )


def draw_way(path: Sequence[tuple[int, int]], blocked: tuple[int, int] | None) -> str:
    """Draws a line through cells that ends in a tip, or in a cross if it is blocked.

    Args:
        path: cells as (row, column), at least one.
        blocked: the cell after the last one that stops the path; ``None`` if none does.
    """
    centres = [((c + 0.5) * CELL, (r + 0.5) * CELL) for r, c in path]
    points = ' '.join(f'{x},{y}' for x, y in centres)
    x, y = centres[-1]
    parts = [f'<polyline class="path" points="{points}"/>']
    if blocked is None:
        parts.append(f'<circle class="tip" cx="{x}" cy="{y}" r="{CELL * 0.24}"/>')
        return ''.join(parts)
    # The cross lies on the border between the cells, so it stays inside the picture.
    x += (blocked[1] - path[-1][1]) * CELL * 0.5
    y += (blocked[0] - path[-1][0]) * CELL * 0.5
    arm = CELL * 0.27
    parts.append(
        f'<line class="path" x1="{centres[-1][0]}" y1="{centres[-1][1]}" x2="{x}" '
        f'y2="{y}"/><path class="cross" d="M{x - arm},{y - arm}L{x + arm},{y + arm}'
        f'M{x - arm},{y + arm}L{x + arm},{y - arm}"><title>move {len(path)} fails'
        '</title></path>'
    )
    return ''.join(parts)
