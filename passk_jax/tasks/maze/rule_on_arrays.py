"""Judges all responses of a batch of mazes at once, on arrays.

:func:`encode_grids` and :func:`encode_moves` (host, numpy) convert mazes and moves to
int8 arrays. :func:`verify_moves` (jitted) follows all paths in one ``lax.scan``.
:func:`verify` calls the three and rounds shapes up, so that a run compiles only a few
programs. It agrees with :mod:`passk_jax.tasks.maze.rule` on every well-formed maze, but
does not say why a path fails. That rule judges the rare paths of thousands of moves.
"""

import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Int8

from passk_jax import sharding
from passk_jax.errors import InputError
from passk_jax.tasks.maze import rule as maze

# Codes of cells and of moves; STAY pads.
FREE, WALL, START, END = range(4)
STAY, UP, DOWN, LEFT, RIGHT = range(5)

_SIDE_MULTIPLE = 8
_MIN_MOVES = 16
# A longer path, such as one letter up to the limit, would make the scan of all as long.
_MOST_MOVES = 4096
_MIN_ROWS = 64


def _codes(pairs: dict[str, int], default: int) -> np.ndarray:
    table = np.full(256, default, np.int8)
    table[[ord(character) for character in pairs]] = list(pairs.values())
    return table


_CELL_CODES = _codes({maze.FREE: FREE, maze.START: START, maze.END: END}, WALL)
_MOVE_CODES = _codes({'U': UP, 'D': DOWN, 'L': LEFT, 'R': RIGHT}, STAY)


@jax.jit
def verify_moves(
    grids: Int8[Array, 'B h w'], moves: Int8[Array, 'B L']
) -> Bool[Array, 'B']:
    """Tells whether each path ends on E without leaving the grid or entering a wall.

    Args:
        grids: codes of cells (module constants), one START in each grid.
        moves: codes of moves; STAY is padding and does not move.

    Returns:
        The verdicts; False for a grid without START.
    """
    # In a frame of walls, a path that leaves the grid steps on a wall and stops there.
    # So no position lies outside the array.
    framed = jnp.pad(grids, ((0, 0), (1, 1), (1, 1)), constant_values=WALL)
    cells = framed.reshape(framed.shape[0], -1)
    width = framed.shape[2]
    steps = jnp.array([0, -width, width, -1, 1], jnp.int32)

    def cell_at(position):
        return jnp.take_along_axis(cells, position[:, None], axis=1)[:, 0]

    def move(carry, code):
        position, alive = carry
        ahead = position + steps[code]
        alive &= cell_at(ahead) != WALL
        return (jnp.where(alive, ahead, position), alive), None

    start = jnp.argmax(cells == START, axis=1).astype(jnp.int32)
    has_start = cell_at(start) == START
    (position, alive), _ = lax.scan(move, (start, has_start), moves.T)
    return alive & (cell_at(position) == END)


def encode_grids(mazes: Sequence[str], *, multiple_of: int = 1) -> np.ndarray:
    """Encodes mazes, padded with walls below and to the right.

    Returns ``[len(mazes), side, side]`` int8; ``side`` is the least multiple of
    ``multiple_of`` that holds every maze. Raises ValueError for a malformed maze.
    """
    encoded = [_encode_grid(text) for text in mazes]
    longest = max((max(grid.shape) for grid in encoded), default=0)
    side = -(-longest // multiple_of) * multiple_of
    grids = np.full((len(encoded), side, side), WALL, np.int8)
    for row, grid in zip(grids, encoded, strict=True):
        row[: grid.shape[0], : grid.shape[1]] = grid
    return grids


def encode_moves(moves: Sequence[str], *, length: int) -> np.ndarray:
    """Encodes strings over UDLR as ``[len(moves), length]`` int8, padded with STAY.

    Raises ValueError if a string is longer than ``length``.
    """
    if (longest := max(map(len, moves), default=0)) > length:
        raise InputError(f'{longest} moves do not fit in {length=}')
    joined = ''.join(m.ljust(length) for m in moves).encode('ascii')
    codes = _MOVE_CODES[np.frombuffer(joined, np.uint8)]
    return codes.reshape(len(moves), length)


def verify(mazes: Sequence[str], moves: Sequence[Sequence[str]]) -> np.ndarray:
    """Judges N paths through each of P mazes, on this process's first device.

    Args:
        mazes: P mazes.
        moves: ``[P][N]`` strings over UDLR.

    Returns:
        ``[P, N]`` bool.

    Raises:
        ValueError: a maze is malformed, or the mazes have different numbers of paths.
    """
    num_paths = len(moves[0]) if moves else 0
    if len(mazes) != len(moves) or any(len(m) != num_paths for m in moves):
        counts = [len(m) for m in moves]
        raise InputError(
            f'{len(mazes)} mazes need the same number of paths each: {counts}'
        )
    if not num_paths:
        return np.zeros((len(mazes), 0), bool)
    flat = [m for row in moves for m in row]
    scanned = [m if len(m) <= _MOST_MOVES else '' for m in flat]
    # Padding rows have no START, so they are never correct.
    padding = [(0, _power_of_two(len(flat), _MIN_ROWS) - len(flat)), (0, 0)]
    grids = np.repeat(encode_grids(mazes, multiple_of=_SIDE_MULTIPLE), num_paths, 0)
    length = _power_of_two(max(map(len, scanned)), _MIN_MOVES)
    padded_grids = np.pad(grids, [*padding, (0, 0)])
    padded_moves = np.pad(encode_moves(scanned, length=length), padding)
    device = jax.local_devices()[0]
    # Each process uses one device here, even if the caller has set a larger mesh.
    with jax.set_mesh(sharding.one_device_mesh(device)):
        correct = verify_moves(*jax.device_put((padded_grids, padded_moves), device))
    verdicts = np.array(jax.device_get(correct)[: len(flat)])
    for place, path in enumerate(flat):
        if len(path) > _MOST_MOVES:
            verdicts[place] = maze.verdict(mazes[place // num_paths], path).correct
    return verdicts.reshape(len(mazes), num_paths)


@functools.lru_cache(maxsize=4096)
def _encode_grid(text: str) -> np.ndarray:
    rows = maze.parse_maze(text).rows
    cells = np.frombuffer(''.join(rows).encode('ascii'), np.uint8)
    return _CELL_CODES[cells].reshape(len(rows), len(rows[0]))


def _power_of_two(count: int, minimum: int) -> int:
    return max(minimum, 1 << (count - 1).bit_length())
