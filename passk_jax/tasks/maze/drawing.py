"""Draws the path of a response through its maze as SVG.

The path is green if the recorded verdict is correct and orange if not. The drawing
shows that verdict and does not judge again.
"""

from collections.abc import Mapping
from html import escape
from typing import Any

from passk_jax.tasks.drawings import CELL, draw_way
from passk_jax.tasks.maze.rule import END, START, STEPS, WALL


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
    """Returns the cells on an answer's path, and the cell that stops it, if any.

    >>> walk({(0, 0): 'S', (0, 1): '.'}, (0, 0), 'RR')
    ([(0, 0), (0, 1)], (0, 2))
    """
    path = [start]
    for letter in parsed.upper():
        if letter not in STEPS:
            continue
        (row, column), (down, right) = path[-1], STEPS[letter]
        place = row + down, column + right
        if cells.get(place, WALL) == WALL:
            return path, place
        path.append(place)
    return path, None
