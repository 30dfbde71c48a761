"""Positions of the tokens of a prompt with pictures (M-RoPE, arXiv:2409.12191)."""

from collections.abc import Sequence

import numpy as np

from passk_jax.errors import InputError

Grid = tuple[int, int]
"""Rows and columns of the patches of a picture."""


def count_tokens(grid: Grid, *, merge_size: int) -> int:
    """Counts the tokens of a picture; each has ``merge_size ** 2`` patches."""
    return grid[0] * grid[1] // merge_size**2


def picture_positions(
    tokens: np.ndarray, grids: Sequence[Grid], *, image_token: int, merge_size: int
) -> np.ndarray:
    """Computes time, row and column of each token.

    In text, all three are equal and increase by 1. In a picture that begins at position
    p, the time is p, and row and column are p plus the token's row and column in the
    picture. The text after it begins at p plus the longer side.

    Args:
        tokens: the prompt's tokens.
        grids: the grids of its pictures, in order.
        image_token: the id in the place of each token of a picture.
        merge_size: side of the square of patches of a token.

    Returns:
        ``[S, 3]`` int32.

    Raises:
        InputError: the runs of picture tokens do not fit the pictures, or the prompt
            ends in a picture.
    """
    is_picture = np.append(tokens == image_token, False)
    borders = np.flatnonzero(np.diff(is_picture.astype(int), prepend=0))
    starts, stops = borders[::2], borders[1::2]
    needed = [count_tokens(grid, merge_size=merge_size) for grid in grids]
    if (stops - starts).tolist() != needed:
        raise InputError(
            f'the pictures of a prompt need runs of {needed} image tokens with text '
            f'between them, and it has {(stops - starts).tolist()}'
        )
    if is_picture[len(tokens) - 1 :].any():
        raise InputError('a prompt ends in a picture; its last token must be text')
    steps = np.ones(len(tokens), int)
    offsets = np.zeros((len(tokens), 3), int)
    for start, stop, grid in zip(starts, stops, grids, strict=True):
        rows, columns = (side // merge_size for side in grid)
        places = np.indices((rows, columns)).reshape(2, -1).T
        offsets[start:stop, 1:] = places
        steps[start:stop] = 0
        steps[stop - 1] = max(rows, columns)
    # Where each token begins: the sum of the steps before it.
    begins = np.cumsum(steps) - steps
    for start, stop in zip(starts, stops, strict=True):
        begins[start:stop] = begins[start]
    return (begins[:, None] + offsets).astype(np.int32)
