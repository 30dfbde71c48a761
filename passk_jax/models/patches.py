"""Where patches lie: in which picture, at which row and column, in which window."""

import jax
from jax import numpy as jnp
from jaxtyping import Array, Int


def locate(
    grids: Int[Array, 'P I 2'], *, num_patches: int, merge_size: int
) -> tuple[Int[Array, 'P X'], Int[Array, 'P X 2'], Int[Array, 'P X 2']]:
    """Locates each patch in its picture.

    The patches of a picture are ordered by squares of ``merge_size ** 2`` patches.

    Args:
        grids: rows and columns of patches of each picture; 0: no picture.
        num_patches: X, patches and pads of a prompt.
        merge_size: side of a square.

    Returns:
        The picture of each patch (pads have the largest number); its row and column in
        the picture; and the rows and columns of the picture. The last two are undefined
        for pads.
    """
    sizes = grids.prod(-1)
    ends = jnp.cumsum(sizes, axis=-1)[:, None]
    patches = jnp.arange(num_patches)
    pictures = (patches[:, None] >= ends).sum(-1)

    def pick(x: jax.Array) -> jax.Array:
        """Picks the values of each patch's picture; a pad gets the last picture's."""
        at = jnp.minimum(pictures, grids.shape[1] - 1)
        return jnp.take_along_axis(x, at.reshape(*at.shape, *(1,) * (x.ndim - 2)), 1)

    shapes = pick(grids)
    number = patches - pick(ends[:, 0] - sizes)
    square, inner = jnp.divmod(number, merge_size**2)
    square = jnp.divmod(square, jnp.maximum(1, shapes[..., 1] // merge_size))
    inner = jnp.divmod(inner, merge_size)
    places = [merge_size * a + b for a, b in zip(square, inner, strict=True)]
    return pictures, jnp.stack(places, axis=-1), shapes


def windows(
    pictures: Int[Array, 'P X'],
    places: Int[Array, 'P X 2'],
    shapes: Int[Array, 'P X 2'],
    *,
    side: int,
) -> Int[Array, 'P X']:
    """Numbers the windows of all pictures of a prompt; returns each patch's window.

    Args:
        pictures, places, shapes: from :func:`locate`.
        side: side of a window, in patches; windows at the right and lower edges may be
            smaller.
    """
    row, column = places[..., 0] // side, places[..., 1] // side
    inside = row * -(-shapes[..., 1] // side) + column
    # A picture has no more windows than there are patches.
    return pictures * pictures.shape[1] + inside
