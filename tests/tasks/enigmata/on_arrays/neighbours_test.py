"""Cells and their neighbours, beside the host's own search on random grids."""

import functools

import jax
import numpy as np

from passk_jax.tasks.enigmata import campsite, hitori
from passk_jax.tasks.enigmata.on_arrays import neighbours
from passk_jax.tasks.enigmata.star_battle import adjacent

SIDE = 5


def _shifted(steps, axis):
    move = functools.partial(neighbours.shifted, steps=steps, axis=axis)
    return jax.jit(move)(np.arange(1, 7).reshape(2, 3)).tolist()


def _cells(grid):
    return [tuple(cell) for cell in np.argwhere(grid).tolist()]


@functools.cache
def _map_grids(function):
    return jax.jit(jax.vmap(function))


def test_shifting_brings_zeros_in():
    assert _shifted(1, 0) == [[0, 0, 0], [1, 2, 3]]
    assert _shifted(-2, 1) == [[3, 0, 0], [6, 0, 0]]
    assert _shifted(-5, 0) == [[0] * 3] * 2


def test_beside_counts_sides_and_not_corners():
    grid = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], bool)
    assert jax.jit(neighbours.beside)(grid).tolist() == [
        [0, 2, 0],
        [1, 1, 1],
        [1, 0, 1],
    ]


def test_cells_touch_as_the_hosts_do():
    grids = np.random.default_rng(0).random((500, SIDE, SIDE)) < 0.12
    touch = _map_grids(neighbours.any_touch)(grids)
    host = [adjacent(_cells(grid)) for grid in grids]
    np.testing.assert_array_equal(touch, host)
    assert 50 < sum(host) < 450


def test_white_cells_hang_together_as_the_hosts_do():
    rng = np.random.default_rng(1)
    grids = rng.random((500, SIDE, SIDE)) < rng.uniform(0.6, 1, (500, 1, 1))
    grids[0] = False
    # A snake through all of the grid is the longest way.
    grids[1] = [[1] * 5, [0, 0, 0, 0, 1], [1] * 5, [1, 0, 0, 0, 0], [1] * 5]
    joined = _map_grids(neighbours.connected)(grids)
    host = [hitori._white_connected(set(_cells(~grid)), SIDE) for grid in grids]
    np.testing.assert_array_equal(joined, host)
    assert not host[0]
    assert host[1]
    assert 50 < sum(host) < 450


def _tents_and_trees(rng):
    """Tents that do not touch, and trees, most of them beside a tent."""
    tents = np.zeros((SIDE, SIDE), bool)
    for place in rng.permutation(SIDE * SIDE):
        row, column = divmod(place, SIDE)
        near = tents[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
        if not near.any():
            tents[row, column] = True
    trees = np.zeros_like(tents)
    for tent in _cells(tents):
        places = hitori.neighbours(tent, height=SIDE, width=SIDE)
        free = [place for place in places if not trees[place]]
        trees[free[rng.integers(len(free))] if free else tent] = True
    if rng.random() < 0.5:
        # One tree elsewhere.
        trees[_cells(trees)[0]] = False
        trees[_cells(~trees & ~tents)[rng.integers(3)]] = True
    return trees, tents


def test_trees_and_tents_are_paired_as_the_host_pairs_them():
    rng = np.random.default_rng(2)
    pairs = [_tents_and_trees(rng) for _ in range(300)]
    # Four trees and four tents in a circle: none has a single choice.
    ring = np.zeros((2, SIDE, SIDE), bool)
    ring[0, [0, 1, 1, 2], [1, 0, 2, 1]] = True
    ring[1, [0, 0, 2, 2], [0, 2, 0, 2]] = True
    # A lattice, in which every tree and every tent has a choice, but trees are more.
    row, column = np.indices((SIDE, SIDE))
    lattice = (row + column) % 2 == 1, (row % 2 == 0) & (column % 2 == 0)
    pairs += [lattice, ring]
    trees, tents = (np.stack(boards) for boards in zip(*pairs, strict=True))
    paired = _map_grids(neighbours.pairable)(trees, tents)
    host = [
        campsite._matched(_cells(a), _cells(b))
        for a, b in zip(trees, tents, strict=True)
    ]
    np.testing.assert_array_equal(paired, host)
    assert host[-2:] == [False, True]
    assert 30 < sum(host) < 270
