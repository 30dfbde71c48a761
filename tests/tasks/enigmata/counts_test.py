import itertools

import pytest

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import counts
from passk_jax.tasks.enigmata.counts import Count, forced_ones


def _by_enumeration(constraints):
    cells = sorted({cell for count in constraints for cell in count.cells})
    solutions = []
    for values in itertools.product((0, 1), repeat=len(cells)):
        ones = {cell for cell, value in zip(cells, values, strict=True) if value}
        if all(len(ones.intersection(cells)) == total for cells, total in constraints):
            solutions.append(ones)
    return set.intersection(*solutions) if solutions else None


def test_forced_ones_are_those_of_every_solution():
    forced = none = 0
    for i in range(300):
        draws = Draws('counts', i)
        num_cells = draws.between(1, 9)
        ones = set(draws.sample(range(num_cells), draws.between(0, num_cells)))
        constraints = []
        for _ in range(draws.between(0, 5)):
            cells = tuple(draws.permutation(num_cells)[: draws.between(0, 4)])
            # One count in eight is wrong by one, so that there may be no solution.
            total = len(ones.intersection(cells)) + draws.chance(1, 8)
            constraints.append(Count(cells, total))
        expected = _by_enumeration(constraints)
        assert forced_ones(constraints) == expected, constraints
        forced += bool(expected)
        none += expected is None
    assert forced > 50
    assert none > 30


def test_parts_that_share_no_cell_do_not_disturb_each_other():
    """Each of three rings of five forces its cell 0, but no single count does."""
    ring = [((i, (i + 1) % 5, 5 + i), 1) for i in range(5)]
    ring += [((0, 5, 6), 1), ((1, 2, 6, 7), 1), ((3, 4, 8, 9), 1), ((2, 3), 1)]
    ring += [((0, 1, 2, 3, 4), 2)]
    forced = _by_enumeration([Count(*count) for count in ring])
    assert forced
    constraints = [
        Count(tuple(cell + shift for cell in cells), total)
        for shift in (0, 10, 20)
        for cells, total in ring
    ]
    expected = {cell + shift for cell in forced for shift in (0, 10, 20)}
    assert forced_ones(constraints) == expected


def test_a_search_that_takes_too_long_gives_up(monkeypatch):
    ring = [Count((i, (i + 1) % 9), 1) for i in range(9)]
    assert forced_ones(ring) is None
    monkeypatch.setattr(counts, '_BUDGET', 1)
    with pytest.raises(counts.Undecided):
        forced_ones(ring)


def test_a_chain_of_counts_is_decided_without_a_search(monkeypatch):
    monkeypatch.setattr(counts, '_BUDGET', 1)
    chain = [Count((0,), 1), *(Count((i, i + 1), 1) for i in range(8))]
    assert forced_ones(chain) == {0, 2, 4, 6, 8}
