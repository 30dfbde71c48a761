"""Neighbours of cells on arrays; there are no cells outside the array."""

from jax import lax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Int32, Shaped


def shifted(grid: Shaped[Array, 'H W'], steps: int, axis: int) -> Shaped[Array, 'H W']:
    """Moves cells along an axis by one or more places; zeros fill the gap.

    >>> shifted(jnp.array([[1, 2, 3]]), 1, 1).tolist()
    [[0, 1, 2]]
    """
    size = grid.shape[axis]
    steps = max(-size, min(steps, size))
    zeros = jnp.zeros_like(lax.slice_in_dim(grid, 0, abs(steps), axis=axis))
    inside = lax.slice_in_dim(grid, max(-steps, 0), size - max(steps, 0), axis=axis)
    parts = [zeros, inside] if steps > 0 else [inside, zeros]
    return jnp.concatenate(parts, axis)


def beside(cells: Bool[Array, 'H W']) -> Int32[Array, 'H W']:
    """Counts, for each cell, the cells of the mask that share a side with it."""
    ones = cells.astype(jnp.int32)
    parts = [shifted(ones, step, axis) for axis in (0, 1) for step in (-1, 1)]
    return sum(parts, start=jnp.zeros_like(ones))


def any_touch(cells: Bool[Array, 'H W']) -> Bool[Array, '']:
    """Tells whether two of the cells share a side or a corner."""
    across = shifted(cells, 1, 1)
    below = shifted(cells | across | shifted(cells, -1, 1), 1, 0)
    return (cells & (across | below)).any()


def connected(cells: Bool[Array, 'H W']) -> Bool[Array, '']:
    """Tells whether there are cells and shared sides connect them all."""
    first = jnp.arange(cells.size).reshape(cells.shape) == jnp.argmax(cells)

    def grow(state):
        reached, _ = state
        more = cells & (reached | (beside(reached) > 0))
        return more, (more != reached).any()

    start = cells & first
    reached, _ = lax.while_loop(lambda state: state[1], grow, (start, True))
    return cells.any() & (reached == cells).all()


def pairable(first: Bool[Array, 'H W'], second: Bool[Array, 'H W']) -> Bool[Array, '']:
    """Tells whether first and second cells can be paired, each with one beside it.

    No two second cells may touch. Then a first cell has at most two of them beside it,
    on opposite sides. A cell with one choice takes it. If all cells left have at least
    two choices, every first cell has exactly two. So with equal counts, every cell has
    two: the cells form cycles, which can be paired.
    """

    def take(takers, partners):
        choices = beside(partners)
        forced = takers & (choices == 1)
        claims = jnp.where(partners, beside(forced), 0)
        stuck = (takers & (choices == 0)).any() | (claims > 1).any()
        return takers & ~forced, partners & (claims == 0), stuck

    def step(state):
        first, second, _, stuck = state
        first_left, second_left, fail = take(first, second)
        second_left, first_left, fail_too = take(second_left, first_left)
        stuck |= fail | fail_too
        return first_left, second_left, (first_left != first).any() & ~stuck, stuck

    start = first, second, jnp.array(True), first.sum() != second.sum()
    return ~lax.while_loop(lambda state: state[2], step, start)[3]
