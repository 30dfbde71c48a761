"""Generates uniform perfect mazes, percolation mazes, and their splits.

1. :func:`wilson` and :func:`percolation` are endless streams of maze texts, addressed
   by integers: the same integers give the same mazes on any host.
2. :func:`unique_mazes` takes the first ``count`` new mazes of a stream.
3. :func:`generate_splits` does so for every split and size, without repeats.

Random numbers are raw Philox words. The methods of ``numpy.random.Generator`` may give
other numbers in another version of numpy.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from passk_jax.errors import InputError
from passk_jax.tasks.maze.rule import END, FREE, START, WALL
from passk_jax.tasks.new_items import take_new

GENERATORS = ('wilson', 'percolation')

# In the order of generation, so that test mazes depend on no other split.
SPLITS = ('test', 'validation', 'train')

# Draws without a new maze after which a stream counts as exhausted: at least, and per
# maze found. The chance of having missed a uniformly drawn maze is then e^-20.
_PATIENCE = (50_000, 20)

_PERCOLATION_CELLS = 1 << 18
_WORDS = 1 << 12

# Raw bytes below 252 are uniform modulo 12, and 12 is a multiple of 2, 3 and 4, the
# possible numbers of a cell's neighbours.
_TWELVE = bytes(i % 12 for i in range(256))
_REJECTED = bytes(range(252, 256))


def generate_splits(
    *,
    generator: str,
    wall_probability: float,
    min_path: int,
    max_path: int,
    sizes: Mapping[str, Sequence[int]],
    counts: Mapping[str, Sequence[int]],
    seed: int,
) -> dict[str, list[str]]:
    """Generates the mazes of every split; no text occurs twice, even across splits.

    Args:
        generator: one of ``GENERATORS``.
        wall_probability: the probability that a cell is a wall, for percolation.
        min_path: the least length, in moves, of the shortest path from S to E.
        max_path: the greatest length of that path; 0: any.
        sizes: split -> sides of its mazes.
        counts: split -> number of mazes of each size.
        seed: part of the address of every stream.

    Returns:
        Split -> mazes in the order of its sizes. Each split and size has its own
        stream. So its mazes do not depend on other sizes or counts, unless an earlier
        split has one of them.

    Raises:
        ValueError: a split needs more mazes of a size than exist or were found.
    """
    seen: set[str] = set()
    splits: dict[str, list[str]] = {}
    for index, split in enumerate(SPLITS):
        mazes = splits[split] = []
        for size, count in zip(sizes[split], counts[split], strict=True):
            address = (seed, index, size)
            limits = {'min_path': min_path, 'max_path': max_path or size * size}
            if generator == 'percolation':
                stream = percolation(
                    size, wall_probability=wall_probability, address=address, **limits
                )
            else:
                stream = wilson(size, address=address)
                if min_path or max_path:
                    stream = within(stream, **limits)
            try:
                mazes.extend(unique_mazes(stream, count=count, seen=seen))
            except ValueError as e:
                raise InputError(f'{split} mazes of size {size}: {e}') from None
    return splits


def unique_mazes(
    stream: Iterator[str | None], *, count: int, seen: set[str]
) -> list[str]:
    """Takes the first ``count`` mazes that are not in ``seen`` and adds them to it.

    ``stream`` yields ``None`` for each draw that does not qualify. Raises ValueError,
    with the number found, if it has no more new mazes.
    """
    return take_new(
        stream,
        count=count,
        seen=seen,
        key=lambda maze: maze,
        patience=_PATIENCE,
        description='mazes that no other split has',
    )


def num_perfect_mazes(size: int) -> float:
    """Counts the perfect mazes with this side, the spanning trees of the cells.

    Kirchhoff's theorem for the m x m grid, m = (size - 1) / 2, gives the product of
    ``4 - 2 cos(pi i / m) - 2 cos(pi j / m)`` over (i, j) != (0, 0), divided by m^2.

    >>> num_perfect_mazes(7), num_perfect_mazes(9)
    (192.0, 100352.0)
    """
    side = (size - 1) // 2
    angles = [2 * math.cos(math.pi * i / side) for i in range(side)]
    log_trees = sum(
        math.log(4 - a - b)
        for (i, a), (j, b) in itertools.product(enumerate(angles), repeat=2)
        if (i, j) != (0, 0)
    ) - 2 * math.log(side)
    if log_trees > 600:
        return math.inf
    trees = math.exp(log_trees)
    return float(round(trees)) if trees < 2**40 else trees


def wilson(size: int, *, address: Sequence[int]) -> Iterator[str]:
    """Draws uniformly random perfect mazes by Wilson's algorithm.

    Cells lie at odd rows and columns, S in the first and E in the last. A spanning tree
    of the cells decides which walls between them are open. From each cell outside the
    tree a random walk leads to the tree. The algorithm keeps the last exit from every
    cell, which erases the loops of the walk.

    Args:
        size: odd side of the text, at least 5.
        address: integers that identify the stream.

    Yields:
        ``size`` rows of ``size`` characters, joined by newlines.
    """
    side = (size - 1) // 2
    neighbours = _neighbours(side)
    positions = [(size + 1) * (2 * (c // side) + 1) + 2 * (c % side) + 1
                 for c in range(side * side)]  # fmt: skip
    rows = [WALL * size, (WALL + FREE) * side + WALL]
    template = bytearray('\n'.join(rows[i % 2] for i in range(size)).encode('ascii'))
    template[positions[0]] = ord(START)
    template[positions[-1]] = ord(END)
    draws = _uniform_below_12(address)
    while True:
        way_out = _spanning_tree(neighbours, draws)
        cells = template.copy()
        for cell, towards in enumerate(way_out):
            cells[(positions[cell] + positions[towards]) // 2] = ord(FREE)
        # The root is its own parent, so the loop marked its cell as free.
        cells[positions[-1]] = ord(END)
        yield cells.decode('ascii')


def _spanning_tree(
    neighbours: Sequence[Sequence[int]], draws: Iterator[int]
) -> list[int]:
    """Draws a uniform spanning tree: cell -> parent; the last cell is the root."""
    root = len(neighbours) - 1
    in_tree = bytearray(len(neighbours))
    in_tree[root] = 1
    way_out = [root] * len(neighbours)
    for first in range(root):
        cell = first
        while not in_tree[cell]:
            way_out[cell] = cell = neighbours[cell][next(draws)]
        cell = first
        while not in_tree[cell]:
            in_tree[cell] = 1
            cell = way_out[cell]
    return way_out


def _neighbours(side: int) -> list[tuple[int, ...]]:
    """Lists 12 entries per cell, in which each neighbour occurs equally often."""
    result = []
    for row, column in itertools.product(range(side), repeat=2):
        near = [(row - 1, column), (row + 1, column), (row, column - 1),
                (row, column + 1)]  # fmt: skip
        inside = [r * side + c for r, c in near if 0 <= r < side and 0 <= c < side]
        result.append(tuple(inside * (12 // len(inside))))
    return result


def percolation(
    size: int,
    *,
    wall_probability: float,
    min_path: int,
    max_path: int,
    address: Sequence[int],
) -> Iterator[str | None]:
    """Draws mazes of independent random walls; S and E are two random open cells.

    Args:
        size: side of the text, at least 2.
        wall_probability: the probability that a cell is a wall.
        min_path, max_path: limits, in moves, of the shortest path from S to E.
        address: integers that identify the stream.

    Yields:
        A maze, or ``None`` for a draw without such a path.
    """
    bits = _philox(address)
    batch = max(1, _PERCOLATION_CELLS // (size * size))
    symbols = np.frombuffer(f'{FREE}{WALL}'.encode('ascii'), np.uint8)
    while True:
        words = bits.random_raw(2 * batch * size * size).reshape(2, batch, size * size)
        walls = (words[0] >> np.uint64(11)) * 2.0**-53 < wall_probability
        # The two open cells with the highest priority are a uniformly random pair.
        priority = np.where(walls, np.uint64(0), words[1])
        start = priority.argmax(axis=1)
        every = np.arange(batch)
        priority[every, start] = 0
        end = priority.argmax(axis=1)
        two_open = priority[every, end] > 0
        lengths = _path_lengths(
            ~walls.reshape(batch, size, size), start, end, longest=max_path
        )
        good = two_open & (lengths >= max(min_path, 1))
        cells = np.full((batch, size, size + 1), ord('\n'), np.uint8)
        cells[:, :, :size] = symbols[walls.astype(np.intp)].reshape(batch, size, size)
        for place, symbol in ((start, START), (end, END)):
            cells[every, place // size, place % size] = ord(symbol)
        texts = cells.reshape(batch, -1)[:, :-1]
        for qualifies, text in zip(good.tolist(), texts, strict=True):
            yield text.tobytes().decode('ascii') if qualifies else None


def _path_lengths(
    is_open: np.ndarray, start: np.ndarray, end: np.ndarray, *, longest: int
) -> np.ndarray:
    """Counts the moves on each shortest path; -1 if it has more than ``longest``.

    ``is_open`` is ``[B, size, size]`` bool; ``start`` and ``end`` are ``[B]`` flat
    indices of S and E.
    """
    batch, size, _ = is_open.shape
    every = np.arange(batch)
    # A frame of unreachable cells surrounds each maze.
    reached = np.zeros((batch, size + 2, size + 2), bool)
    inner = reached[:, 1:-1, 1:-1]
    inner[every, start // size, start % size] = True
    lengths = np.full(batch, -1)
    for length in range(1, longest + 1):
        spread = reached[:, :-2, 1:-1] | reached[:, 2:, 1:-1]
        spread |= reached[:, 1:-1, :-2] | reached[:, 1:-1, 2:]
        spread &= is_open & ~inner
        if not spread.any():
            break
        inner |= spread
        lengths[spread[every, end // size, end % size]] = length
    return lengths


def within(
    stream: Iterator[str], *, min_path: int, max_path: int
) -> Iterator[str | None]:
    """Replaces mazes whose shortest path is outside the limits by ``None``."""
    for maze in stream:
        cells = np.array([list(row) for row in maze.split('\n')])
        start, end = ((cells == c).ravel().argmax()[None] for c in (START, END))
        is_open = (cells != WALL)[None]
        (length,) = _path_lengths(is_open, start, end, longest=max_path)
        yield maze if length >= max(min_path, 1) else None


def _philox(address: Sequence[int]) -> np.random.Philox:
    return np.random.Philox(np.random.SeedSequence(tuple(address)))


def _uniform_below_12(address: Sequence[int]) -> Iterator[int]:
    bits = _philox(address)
    while True:
        raw = bits.random_raw(_WORDS).astype('<u8').tobytes()
        yield from raw.translate(_TWELVE, _REJECTED)
