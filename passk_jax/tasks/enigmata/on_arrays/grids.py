"""Rules of puzzles whose answer is a filled grid.

A rule takes the arrays of one problem and the grid of an answer, padded with ``PAD``
beyond the problem's side.
"""

from collections.abc import Callable

from jax import lax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Int32

from passk_jax.tasks.enigmata import binario as binarios
from passk_jax.tasks.enigmata import slant as slants
from passk_jax.tasks.enigmata import tic_tac_toe as tic_tac_toes
from passk_jax.tasks.enigmata.on_arrays.batch import PAD
from passk_jax.tasks.enigmata.on_arrays.neighbours import shifted

Grid = Int32[Array, 'S S']

# Sums of magic squares do not fit into int32: they are made of two parts.
_LOW_BITS = 15


def sudoku(clues: Grid, grid: Grid, *, box: int) -> Bool[Array, '']:
    """Tells whether lines and boxes have each number once, and the clues are kept."""
    side = box * box
    clues, grid = clues[:side, :side], grid[:side, :side]
    boxes = grid.reshape(box, box, box, box).swapaxes(1, 2).reshape(side, side)
    lines = jnp.concatenate([grid, grid.T, boxes])
    return ((clues == 0) | (clues == grid)).all() & _holds(lines, side).all()


def skyscraper(
    clues: Int32[Array, '4 S'], grid: Grid, *, clue: Callable[[Array, Array], Array]
) -> Bool[Array, '']:
    """Tells whether the grid is a Latin square that fits the clues.

    ``clue`` computes clues from the heights of lines and a mask of the visible ones.
    """
    inside = clues[0] != PAD
    cells = inside[:, None] & inside
    latin = [(_holds(lines, len(clues[0])) | ~cells).all() for lines in (grid, grid.T)]

    def seen(lines):
        # A place without a building is PAD, which hides nothing.
        before = jnp.pad(lax.cummax(lines, axis=1)[:, :-1], ((0, 0), (1, 0)))
        return clue(lines, lines > before)

    top, left = seen(grid.T), seen(grid)
    right, bottom = seen(grid[:, ::-1]), seen(grid.T[:, ::-1])
    views = jnp.stack([top, left, right, bottom])
    return latin[0] & latin[1] & ((views == clues) | ~inside).all()


def number_visible(heights: Array, visible: Array) -> Array:
    """Computes the clue of ``skyscraper``."""
    del heights
    return visible.sum(axis=1)


def sum_visible(heights: Array, visible: Array) -> Array:
    """Computes the clue of ``sum_skyscraper``."""
    return jnp.where(visible, heights, 0).sum(axis=1)


def binario(clues: Grid, grid: Grid) -> Bool[Array, '']:
    """Tells whether lines are balanced and have no three equal neighbours."""
    inside = clues != PAD
    right = ~inside | (grid == 0) | (grid == 1)
    right &= ~inside | (clues == binarios.EMPTY) | (clues == grid)
    ones = inside & (grid == 1)
    for axis in range(2):
        balanced = 2 * ones.sum(axis) == inside.sum(axis)
        near, far = (jnp.roll(grid, -step, axis) for step in (1, 2))
        # Rolling a line of one or two cells gives itself or PAD.
        within = inside & (shifted(inside, -2, axis))
        triple = within & (grid == near) & (near == far)
        right &= balanced & ~triple
    return right.all()


def magic_square(numbers: Grid, is_clue: Grid, grid: Grid) -> Bool[Array, '']:
    """Tells whether all lines have one sum, and the clues stay and are not repeated."""
    clue, blank = is_clue == 1, is_clue == 0
    clues_stay = (~clue | (grid == numbers)).all()
    repeated = (blank & jnp.isin(grid, jnp.where(clue, numbers, PAD))).any()
    side = len(grid)
    valid = is_clue[0] != PAD
    row, column = jnp.indices((side, side))

    def sums(cells):
        cells = jnp.where(is_clue != PAD, cells, 0)
        diagonals = [row == column, row + column == valid.sum() - 1]
        ends = jnp.stack(
            [jnp.where(diagonal, cells, 0).sum() for diagonal in diagonals]
        )
        return jnp.concatenate([cells.sum(1), cells.sum(0), ends])

    low = sums(grid & ((1 << _LOW_BITS) - 1))
    high = sums(grid >> _LOW_BITS) + (low >> _LOW_BITS)
    low &= (1 << _LOW_BITS) - 1
    lines = jnp.concatenate([valid, valid, jnp.ones(2, bool)])
    equal = ((high == high[0]) & (low == low[0])) | ~lines
    return clues_stay & ~repeated & equal.all()


def slant(corners: Grid, grid: Grid) -> Bool[Array, '']:
    """Tells whether corners touch their number of diagonals, and these form no loop.

    A diagonal that ends alone at a corner is not part of a loop, so it is removed. When
    none can be removed, only loops are left.
    """
    room = len(corners) - len(grid)
    grid = jnp.pad(grid, ((0, room), (0, room)), constant_values=PAD)
    inside = corners != PAD
    # The grid has one row and one column fewer than the corners.
    cells = shifted(shifted(inside, -1, 0), -1, 1)
    up, down = cells & (grid == 1), cells & (grid == -1)
    corners_match = (
        (corners == slants.UNKNOWN) | (corners == _touches(up, down)) | ~inside
    )

    def without_ends(state):
        up, down, _ = state
        joint = _touches(up, down) > 1
        below, right = shifted(joint, -1, 0), shifted(joint, -1, 1)
        more = up & below & right, down & joint & shifted(below, -1, 1)
        return *more, (more[0] != up).any() | (more[1] != down).any()

    loops = lax.while_loop(lambda state: state[2], without_ends, (up, down, True))
    return (
        (~cells | up | down).all() & corners_match.all() & ~(loops[0] | loops[1]).any()
    )


def _touches(up: Bool[Array, 'S S'], down: Bool[Array, 'S S']) -> Grid:
    """Counts the diagonals at each corner; a cell has the index of its first corner."""
    up, down = up.astype(jnp.int32), down.astype(jnp.int32)
    below = shifted(up, 1, 0) + shifted(shifted(down, 1, 0), 1, 1)
    return below + down + shifted(up, 1, 1)


def tic_tac_toe(
    board: Int32[Array, '16'],
    best: Int32[Array, '16'],
    player: Int32[Array, ''],
    answer: Int32[Array, '16'],
) -> Bool[Array, '']:
    """Tells whether the answer differs by one mark of the player on a best cell."""
    changed = answer != board
    legal = (board == tic_tac_toes.EMPTY) & (answer == player) & (best == 1)
    return (changed.sum() == 1) & (legal | ~changed).all()


def _holds(lines: Int32[Array, 'L S'], most: int) -> Bool[Array, 'L {most}']:
    """Tells which numbers, from 1, each line has."""
    return (lines[:, :, None] == jnp.arange(1, most + 1)).any(axis=1)
