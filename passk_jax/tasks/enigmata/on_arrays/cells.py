"""Rules of puzzles whose answer is a set of cells, as a list or marked on a board.

A rule takes the arrays of one problem, with ``PAD`` outside the grid. A list has a row
and a column in each line, and ``PAD`` after its end.
"""

from jax import lax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Int32

from passk_jax.tasks.enigmata import light_up as light_ups
from passk_jax.tasks.enigmata.on_arrays.batch import PAD
from passk_jax.tasks.enigmata.on_arrays.neighbours import (
    any_touch,
    beside,
    connected,
    pairable,
    shifted,
)

Grid = Int32[Array, 'H W']
Cells = Int32[Array, 'L 2']

# The cells of a board of stars or tents; FOREIGN is any other text.
EMPTY, BLOCKED, STAR, FOREIGN = 0, 1, 2, 3


def minesweeper(forced: Grid, cells: Cells) -> Bool[Array, '']:
    """Tells whether the cells are the forced mines, each once."""
    chosen, proper = _chosen(cells, forced != PAD)
    return proper & (chosen == (forced == 1)).all()


def kakurasu(
    row_sums: Int32[Array, 'H'], column_sums: Int32[Array, 'W'], cells: Cells
) -> Bool[Array, '']:
    """Tells whether the indices of the cells, from 1, add up to the sums."""
    inside = (row_sums != PAD)[:, None] & (column_sums != PAD)
    chosen, proper = _chosen(cells, inside, first=1)
    rows, columns = (1 + place for place in jnp.indices(inside.shape))
    by_row = jnp.where(chosen, columns, 0).sum(1)
    by_column = jnp.where(chosen, rows, 0).sum(0)
    right = ((by_row == row_sums) | (row_sums == PAD)).all()
    return proper & right & ((by_column == column_sums) | (column_sums == PAD)).all()


def hitori(grid: Grid, cells: Cells) -> Bool[Array, '']:
    """Tells whether no black cells touch, and white ones are connected and distinct."""
    inside = grid != PAD
    black, proper = _chosen(cells, inside)
    white = inside & ~black
    apart = ~(black & (beside(black) > 0)).any()
    visible = jnp.where(white, grid, PAD)
    twice = [_repeats(lines) for lines in (visible, visible.T)]
    return proper & apart & ~twice[0] & ~twice[1] & connected(white)


def light_up(board: Grid, cells: Cells) -> Bool[Array, '']:
    """Tells whether bulbs light every empty cell and no bulb, and fit the numbers."""
    inside, empty = board != PAD, board == light_ups.EMPTY
    bulbs, proper = _chosen(cells, inside)
    proper &= (empty | ~bulbs).all()
    lit = bulbs
    for axis in (0, 1):
        for step in (-1, 1):

            def travel(_, beam, axis=axis, step=step):
                return empty & shifted(beam | bulbs, step, axis)

            beam = lax.fori_loop(0, board.shape[axis] - 1, travel, bulbs & False)
            proper &= ~(beam & bulbs).any()
            lit |= beam
    numbered = inside & ~empty & (board != light_ups.BLACK)
    counted = (beside(bulbs) == board) | ~numbered
    return proper & (lit | ~empty).all() & counted.all()


def star_battle(blocked: Grid, board: Grid) -> Bool[Array, '']:
    """Tells whether each row and column has one star, and no two touch."""
    stars, is_valid = _stars(blocked, board)
    inside = blocked != PAD
    single = [(stars.sum(axis) == inside.any(axis)).all() for axis in (0, 1)]
    return is_valid & single[0] & single[1] & ~any_touch(stars)


def campsite(
    trees: Grid,
    row_tents: Int32[Array, 'H'],
    column_tents: Int32[Array, 'W'],
    board: Grid,
) -> Bool[Array, '']:
    """Tells whether tents fit the counts, do not touch, and pair with the trees."""
    tents, is_valid = _stars(trees, board)
    rows = (tents.sum(1) == row_tents) | (row_tents == PAD)
    columns = (tents.sum(0) == column_tents) | (column_tents == PAD)
    proper = is_valid & rows.all() & columns.all() & ~any_touch(tents)
    return proper & pairable(trees == BLOCKED, tents)


def _chosen(
    cells: Cells, inside: Bool[Array, 'H W'], *, first: int = 0
) -> tuple[Bool[Array, 'H W'], Bool[Array, '']]:
    """Returns a list's cells as a mask, and whether all are inside and distinct.

    ``first`` is the number of the first row and column.
    """
    height, width = inside.shape
    listed = cells[:, 0] != PAD
    row, column = cells[:, 0] - first, cells[:, 1] - first
    in_row = row[:, None] == jnp.arange(height)
    in_column = column[:, None] == jnp.arange(width)
    counts = in_row.astype(jnp.int32).T @ in_column.astype(jnp.int32)
    proper = (jnp.where(inside, counts, 0).sum() == listed.sum()) & (counts < 2).all()
    return inside & (counts > 0), proper


def _stars(blocked: Grid, board: Grid) -> tuple[Bool[Array, 'H W'], Bool[Array, '']]:
    """Returns the stars of a board, and whether it changes nothing else."""
    stars = (board == STAR) & (blocked == EMPTY)
    return stars, (stars | (board == blocked)).all()


def _repeats(lines: Grid) -> Bool[Array, '']:
    """Tells whether a number other than ``PAD`` repeats in a line."""
    equal = (lines[:, :, None] == lines[:, None, :]) & (lines[:, :, None] != PAD)
    return (equal.sum((1, 2)) > (lines != PAD).sum(1)).any()
