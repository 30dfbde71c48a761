"""Draws a puzzle's board with an answer in it as SVG.

The frame has the colour of the recorded verdict and is dashed if the answer is wrong;
the drawing does not judge again. Cells that break a rule have a marked corner and a
border, so that colour is not the only sign. The report's style sheet has the colours.
"""

from collections.abc import Iterable, Mapping
from html import escape

from passk_jax.tasks.drawings import CELL, draw_way
from passk_jax.tasks.enigmata.boards import KINDS, Board, Cell, Place

# Shape -> its path in a cell.
SHAPES = {
    'star': (
        'M8,2.6l1.4,3.6l3.9,.2l-3,2.4l1,3.8l-3.3,-2.1l-3.3,2.1l1,-3.8l-3,-2.4l3.9,-.2z'
    ),
    'tent': 'M8,3L13.6,13H10L8,9.2L6,13H2.4Z',
    'tree': 'M7.2,10.4V13.8h1.6V10.4a4.1,4.1 0 1,0 -1.6,0Z',
    'bulb': (
        'M8,4.8a3.2,3.2 0 1,0 .01,0ZM8,1.8v1.2M8,13v1.2M1.8,8h1.2M13,8h1.2'
        'M3.6,3.6l.9,.9M11.5,11.5l.9,.9M12.4,3.6l-.9,.9M4.5,11.5l-.9,.9'
    ),
    'mine': (
        'M8,4.4a3.6,3.6 0 1,0 .01,0ZM8,2.2V13.8M2.2,8H13.8M3.9,3.9L12.1,12.1'
        'M12.1,3.9L3.9,12.1'
    ),
    'ring': 'M8,4a4,4 0 1,0 .01,0ZM8,5a3,3 0 1,1 -.01,0Z',
    '/': 'M1,15L15,1',
    '\\': 'M1,1L15,15',
    'arrow': 'M3,8H12M9.6,5.2L13,8L9.6,10.8Z',
}

_GAP = 1.5 * CELL
_EDGE, _CORNER = 3, 4.4
_DARK = ('wall', 'picked', 'hidden')
_NOTE = 12
_FONT, _SMALL_FONT, _ROOM = 9.5, 6.2, 24
_MOST_TEXT = 6
# Boards of fewer columns are not enlarged; boards of more columns get more room.
_NARROW, _WIDE = 5, 11


def draw_board(board: Board, name: str, *, correct: bool) -> str:
    """Draws a board, and to its right the board after the answer, if there is one.

    Args:
        board: the board; its texts are escaped and truncated.
        name: the name of the puzzle.
        correct: the recorded verdict.
    """
    parts = [_draw(board)]
    left, top, right, bottom = _box(board.cells)
    if board.after:
        shift = right + _GAP
        arrow = Cell(shape='arrow')
        parts.append(_shape(arrow, right + (_GAP - CELL) / 2, (bottom - CELL) / 2))
        parts.append(f'<g transform="translate({shift:g})">{_draw(board.after)}</g>')
        right = shift + _box(board.after.cells)[2]
    if board.note:
        place = f'x="{(left + right) / 2:g}" y="{bottom + _NOTE - 1}"'
        parts.append(f'<text class="note" {place}>{escape(_clean(board.note))}</text>')
        bottom += _NOTE
    verdict = 'right' if correct else 'wrong'
    wide = ' wide' if right - left > _WIDE * CELL else ''
    edge = _EDGE + (_CORNER if board.corners else 0)
    side = max(0, _NARROW * CELL - (right - left)) / 2 + edge
    box = (
        f'{left - side:g} {top - edge:g} {right - left + 2 * side:g} '
        f'{bottom - top + 2 * edge:g}'
    )
    return (
        f'<svg class="board {verdict}{wide}" viewBox="{box}" role="img" '
        f'aria-label="{escape(name)}, {verdict} answer">{"".join(parts)}</svg>'
    )


def _draw(board: Board) -> str:
    inner = {place: c for place, c in board.cells.items() if c.on_board}
    parts = []
    for kind in KINDS:
        if places := [place for place, cell in inner.items() if cell.kind == kind]:
            parts.append(f'<path class="{kind}" d="{_squares(places)}"/>')
    left, top, right, bottom = _box(inner)
    if board.box:
        step = board.box * CELL
        across = ''.join(f'M{left},{y}H{right}' for y in range(step, bottom, step))
        down = ''.join(f'M{x},{top}V{bottom}' for x in range(step, right, step))
        parts.append(f'<path class="lines" d="{across}{down}"/>')
    parts.append(f'<path class="frame" d="M{left},{top}H{right}V{bottom}H{left}Z"/>')
    parts.append(_wrong(board.cells))
    for (row, column), cell in board.cells.items():
        if cell.shape:
            parts.append(_shape(cell, column * CELL, row * CELL))
    if board.way:
        parts.append(draw_way(board.way, board.blocked))
    for (row, column), cell in board.cells.items():
        if cell.text:
            parts.append(_text(cell, (column + 0.5) * CELL, (row + 0.5) * CELL))
    for (row, column), cell in board.corners.items():
        kind = 'corner bad' if cell.wrong else 'corner'
        x, y = column * CELL, row * CELL
        parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{_CORNER}"/>')
        parts.append(_text(cell, x, y, most=_SMALL_FONT))
    return ''.join(parts)


def _wrong(cells: Mapping[Place, Cell]) -> str:
    """Marks the wrong cells; a dark background stays, so that the text is readable."""
    parts = []
    wrong = {place: cell for place, cell in cells.items() if cell.wrong}
    for name, dark in (('bad', False), ('bad dark', True)):
        if places := [p for p, cell in wrong.items() if (cell.kind in _DARK) == dark]:
            parts.append(f'<path class="{name}" d="{_squares(places, inset=1.2)}"/>')
    if wrong:
        parts.append(f'<path class="flag" d="{_flags(wrong)}"/>')
    return ''.join(parts)


def _shape(cell: Cell, x: float, y: float) -> str:
    kind = 'shape new' if cell.new else 'shape'
    if cell.kind == 'wall':
        kind += ' on_wall'
    return (
        f'<path class="{kind}" transform="translate({x:g},{y:g})" '
        f'd="{SHAPES[cell.shape]}"/>'
    )


def _text(cell: Cell, x: float, y: float, *, most: float = _FONT) -> str:
    text = _clean(cell.text)
    if len(text) > _MOST_TEXT:
        text = text[: _MOST_TEXT - 1] + '…'
    size = min(most, _ROOM / max(len(text), 1))
    kind = 'new' if cell.new else cell.kind
    return (
        f'<text class="{kind}" font-size="{size:g}" x="{x:g}" y="{y + 0.36 * size:g}">'
        f'{escape(text)}</text>'
    )


def _clean(text: str) -> str:
    # XML does not allow control characters and lone surrogates.
    return ''.join(c if c.isprintable() else '\ufffd' for c in text)


def _squares(places: Iterable[Place], *, inset: float = 0) -> str:
    side = CELL - 2 * inset
    return ''.join(
        f'M{c * CELL + inset:g},{r * CELL + inset:g}h{side:g}v{side:g}h-{side:g}z'
        for r, c in places
    )


def _flags(places: Iterable[Place]) -> str:
    return ''.join(f'M{(c + 1) * CELL},{r * CELL}v5l-5,-5z' for r, c in places)


def _box(cells: Mapping[Place, Cell]) -> tuple[int, int, int, int]:
    """Returns the left, upper, right and lower end of the cells."""
    rows, columns = ({place[axis] for place in cells} or {0} for axis in (0, 1))
    return (
        min(columns) * CELL,
        min(rows) * CELL,
        (max(columns) + 1) * CELL,
        (max(rows) + 1) * CELL,
    )
