"""An SVG drawing of the path that a response takes through its maze.

The path is green if the recorded verdict is correct and orange if not. The drawing
shows that verdict and never makes its own.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from passk_jax.tasks.maze.rule import END, START, STEPS, WALL

# The side of a cell.
CELL = 16


def draw_maze(data: Mapping[str, Any], parsed: str, *, correct: bool) -> str:
    """Draws a maze and an answer's path, with a cross where it leaves the free cells.

    Args:
        data: holds ``maze``: lines of ``*`` (wall), ``.``, ``S`` and ``E``.
        parsed: the answer; as in the verifier, only the letters U, D, L and R count as
            moves, in either case.
        correct: the recorded verdict.
    """
    rows = str(data['maze']).strip().split('\n')
    height, width = len(rows), max(len(row) for row in rows)
    cells = {(r, c): cell for r, row in enumerate(rows) for c, cell in enumerate(row)}
    parts = [f'<rect class="floor" width="{width * CELL}" height="{height * CELL}"/>']
    letters = []
    for (row, column), cell in cells.items():
        kind = {WALL: 'wall', START: 'start', END: 'end'}.get(cell)
        if kind:
            # Slightly wider, so that no seam shows between walls.
            parts.append(
                f'<rect class="{kind}" x="{column * CELL}" y="{row * CELL}" '
                f'width="{CELL + 0.4}" height="{CELL + 0.4}"/>'
            )
        if kind in ('start', 'end'):
            letters.append(
                f'<text x="{(column + 0.5) * CELL}" y="{(row + 0.76) * CELL}" '
                f'text-anchor="middle">{cell}</text>'
            )
    start = next((place for place, cell in cells.items() if cell == START), None)
    if start is not None:
        parts.append(draw_way(*walk(cells, start, parsed)))
    verdict = 'right' if correct else 'wrong'
    return (
        f'<svg class="maze {verdict}" viewBox="-5 -5 {width * CELL + 10} '
        f'{height * CELL + 10}" role="img" aria-label="maze, {verdict} path '
        f'{escape(parsed[:200])}">{"".join(parts + letters)}</svg>'
    )


def walk(
    cells: Mapping[tuple[int, int], str], start: tuple[int, int], parsed: str
) -> tuple[list[tuple[int, int]], tuple[int, int] | None]:
    """The cells on an answer's path, and the wall or outside cell that stops it.

    >>> walk({(0, 0): 'S', (0, 1): '.'}, (0, 0), 'RR')
    ([(0, 0), (0, 1)], (0, 2))
    """
    path = [start]
    for letter in parsed.upper():
        if letter not in STEPS:
            continue
        place = tuple(a + b for a, b in zip(path[-1], STEPS[letter], strict=True))
        if cells.get(place, WALL) == WALL:
            return path, place
        path.append(place)
    return path, None


def draw_way(path: Sequence[tuple[int, int]], blocked: tuple[int, int] | None) -> str:
    """A line through cells, with a tip, or a cross where the next cell blocks it.

    Args:
        path: cells as (row, column), at least one.
        blocked: the cell that stops it, beside the last one; ``None``: none does.
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
