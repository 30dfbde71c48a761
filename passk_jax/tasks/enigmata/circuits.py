"""Decides within a budget whether a graph has a Hamiltonian cycle.

A path exists if and only if a cycle exists after adding a vertex that is adjacent to
all others, so this serves both puzzles.
"""

from collections.abc import Sequence

# Steps of a search before it gives up.
_BUDGET = 20_000


class Undecided(Exception):  # noqa: N818 - an answer, not a failure
    """The search budget ran out before the search ended."""


def hamiltonian_cycle(
    num_vertices: int, edges: Sequence[Sequence[int]]
) -> list[int] | None:
    """Finds a cycle through all vertices that ends where it began, or ``None``.

    Graphs of less than three vertices have none. Raises ``Undecided`` if the search
    takes too long.
    """
    if num_vertices < 3:
        return None
    near = [0] * num_vertices
    for a, b in edges:
        if a != b:
            near[a] |= 1 << b
            near[b] |= 1 << a
    path = _Search(near).run()
    return None if path is None else [*path, path[0]]


def hamiltonian_path(
    num_vertices: int, edges: Sequence[Sequence[int]]
) -> list[int] | None:
    """Finds a path through all vertices, or ``None``; ``Undecided`` as above."""
    if num_vertices < 2:
        return list(range(num_vertices)) or None
    hub = num_vertices
    spokes = [(hub, vertex) for vertex in range(num_vertices)]
    cycle = hamiltonian_cycle(num_vertices + 1, [*edges, *spokes])
    if cycle is None:
        return None
    place = cycle.index(hub)
    return cycle[place + 1 : -1] + cycle[:place]


class _Search:
    """A depth-first search from the last vertex; sets of vertices are bit masks."""

    def __init__(self, near: list[int]):
        self._near = near
        self._start = len(near) - 1
        self._budget = _BUDGET
        # (vertices left, last vertex) from which no cycle can be completed.
        self._hopeless: set[tuple[int, int]] = set()

    def run(self) -> list[int] | None:
        unvisited = (1 << self._start) - 1
        return self._extend([self._start], unvisited)

    def _extend(self, path: list[int], unvisited: int) -> list[int] | None:
        last = path[-1]
        if not unvisited:
            return path if self._near[last] >> self._start & 1 else None
        if (unvisited, last) in self._hopeless or not self._promising(unvisited, last):
            return None
        self._budget -= 1
        if not self._budget:
            raise Undecided
        # Tries the vertex with the fewest ways on first.
        ahead = _members(self._near[last] & unvisited)
        ahead.sort(key=lambda vertex: (self._near[vertex] & unvisited).bit_count())
        for vertex in ahead:
            circuit = self._extend([*path, vertex], unvisited & ~(1 << vertex))
            if circuit:
                return circuit
        self._hopeless.add((unvisited, last))
        return None

    def _promising(self, unvisited: int, last: int) -> bool:
        """Tells whether the unvisited part is connected, each vertex with two ways."""
        ends = 1 << last | 1 << self._start
        near = self._near
        # With a single vertex on the path, both ends of the cycle join it.
        if last != self._start:
            for vertex in _members(unvisited):
                if (near[vertex] & (unvisited | ends)).bit_count() < 2:
                    return False
        reached = frontier = 1 << last
        while frontier:
            new = 0
            for vertex in _members(frontier):
                new |= near[vertex]
            frontier = new & unvisited & ~reached
            reached |= frontier
        return not unvisited & ~reached and bool(near[self._start] & unvisited)


def _members(bits: int) -> list[int]:
    result = []
    while bits:
        low = bits & -bits
        result.append(low.bit_length() - 1)
        bits ^= low
    return result
