import itertools
import random
import time

import pytest

from passk_jax.tasks.enigmata import circuits


def _by_hand(num_vertices, edges, *, closed):
    """Whether some order of the vertices is a cycle or path, by trying all."""
    joined = {frozenset(edge) for edge in edges}
    for order in itertools.permutations(range(num_vertices)):
        walk = [*order, order[0]] if closed else order
        if all(frozenset(pair) in joined for pair in itertools.pairwise(walk)):
            return True
    return False


def test_every_verdict_is_that_of_trying_all_orders():
    rng = random.Random(0)
    counts = {'cycle': 0, 'path': 0}
    for _ in range(300):
        n = rng.randint(3, 6)
        pairs = list(itertools.combinations(range(n), 2))
        edges = rng.sample(pairs, rng.randint(0, len(pairs)))
        for name, solve in (
            ('cycle', circuits.hamiltonian_cycle),
            ('path', circuits.hamiltonian_path),
        ):
            walk = solve(n, edges)
            closed = name == 'cycle'
            assert (walk is not None) == _by_hand(n, edges, closed=closed), edges
            if walk is None:
                continue
            counts[name] += 1
            visits = walk[:-1] if closed else walk
            assert sorted(visits) == list(range(n))
            joined = {frozenset(edge) for edge in edges}
            assert all(frozenset(p) in joined for p in itertools.pairwise(walk))
            assert not closed or walk[0] == walk[-1]
    assert min(counts.values()) > 60


def test_small_graphs():
    assert circuits.hamiltonian_cycle(2, [(0, 1)]) is None
    assert circuits.hamiltonian_path(1, []) == [0]
    assert circuits.hamiltonian_path(0, []) is None
    assert circuits.hamiltonian_cycle(3, [(0, 0), (0, 1), (1, 2)]) is None


def test_a_search_ends_within_its_budget(monkeypatch):
    monkeypatch.setattr(circuits, '_BUDGET', 50)
    # Two sides of 12 and 13 vertices have no cycle, which is hard to see.
    edges = list(itertools.product(range(12), range(12, 25)))
    start = time.perf_counter()
    with pytest.raises(circuits.Undecided):
        circuits.hamiltonian_cycle(25, edges)
    assert time.perf_counter() - start < 1


def test_a_graph_in_two_parts_is_seen_at_once(monkeypatch):
    monkeypatch.setattr(circuits, '_BUDGET', 50)
    first = list(itertools.combinations(range(12), 2))
    second = list(itertools.combinations(range(12, 24), 2))
    assert circuits.hamiltonian_cycle(24, first + second) is None
    assert circuits.hamiltonian_path(24, first + second) is None
    joined = [*first, *second, (0, 12)]
    assert circuits.hamiltonian_path(24, joined) is not None
