"""Hamiltonian cycles and paths in undirected graphs, or the answer ``NO``."""

import abc
import itertools

from passk_jax.tasks.draws import Draws
from passk_jax.tasks.enigmata import circuits
from passk_jax.tasks.enigmata.puzzle import Data, Puzzle
from passk_jax.verifiers import spellings
from passk_jax.verifiers.answers import Wrong, claims, integer_list

_SIZES = ((10, 15), (15, 20), (20, 25))
_NONE = 'NO'
# A record with more vertices is rejected.
_MOST_VERTICES = 64

_GRAPH = (
    'The first line of the puzzle is the number of vertices n; every other line is an '
    'edge between two of the vertices 0 to n-1, in either direction. '
)


class _Hamiltonian(Puzzle):
    """Base of both puzzles; data: ``num_vertices`` and ``edges``.

    Any such cycle or path is right. The strict rule also reads the spellings of
    ``spellings.integers``: without brackets, without commas, joined by arrows or
    dashes.
    """

    category = 'Graph'
    none = _NONE

    def generate(self, draws, level):
        """Draws a cycle and more edges; half the graphs lack some edges of the cycle.

        Then a search finds a solution or proves that there is none.
        """
        while True:
            num_vertices = draws.between(*_SIZES[level])
            edges = _random_edges(num_vertices, draws)
            try:
                path = self._solve(num_vertices, edges)
            except circuits.Undecided:
                continue
            answer = _NONE if path is None else str(path)
            return {'num_vertices': num_vertices, 'edges': edges, 'answer': answer}

    def question(self, data):
        edges = [f'{a} {b}' for a, b in data['edges']]
        return '\n'.join([str(data['num_vertices']), *edges])

    def usual(self, data, answer):
        return spellings.integers(answer, joined=True)

    def check(self, data, answer):
        if claims(answer, _NONE):
            if not claims(data['answer'], _NONE):
                raise Wrong('there is a solution')
            return
        self._check_walk(data, integer_list(answer))

    def check_official(self, data, answer):
        """Checks like ``check``, but always rejects ``NO``."""
        if claims(answer, _NONE):
            raise Wrong('the official verifier accepts no NO')
        self._check_walk_official(data, integer_list(answer))

    def read(self, record):
        first, *lines = str(record['meta']['question']).strip().split('\n')
        num_vertices = int(first)
        edges = [[int(vertex) for vertex in line.split()] for line in lines]
        if not 0 < num_vertices <= _MOST_VERTICES or len(edges) > _MOST_VERTICES**2:
            raise ValueError('too many vertices or edges, or no vertex')
        for edge in edges:
            if len(edge) != 2 or not all(0 <= end < num_vertices for end in edge):
                raise ValueError(f'{edge} is not an edge')
        try:
            path = self._solve(num_vertices, edges)
            answer = _NONE if path is None else str(path)
        except circuits.Undecided:
            answer = str(record['answer'])
        return {'num_vertices': num_vertices, 'edges': edges, 'answer': answer}

    @abc.abstractmethod
    def _solve(self, num_vertices: int, edges: list[list[int]]) -> list[int] | None:
        """Finds a solution, or ``None``; ``Undecided`` if that takes too long."""

    @abc.abstractmethod
    def _check_walk(self, data: Data, walk: list[int]) -> None:
        """Raises ``Wrong`` if the vertices are not a solution."""

    def _check_walk_official(self, data: Data, walk: list[int]) -> None:
        self._check_walk(data, walk)


class HamiltonianCycle(_Hamiltonian):
    """Hamiltonian cycle; the list ends with its first vertex."""

    name = 'hamiltonian_cycle'
    rules = (
        'Find a cycle in this undirected graph that visits every vertex exactly once '
        f'and returns to its first vertex, or find that there is none. {_GRAPH}\n'
        'Answer: the vertices of the cycle as a list, the first one again at the end, '
        'for example [0, 2, 3, 1, 0]. If there is no such cycle: NO'
    )

    def _solve(self, num_vertices, edges):
        return circuits.hamiltonian_cycle(num_vertices, edges)

    def _check_walk(self, data, walk):
        if len(walk) < 4 or walk[0] != walk[-1]:
            raise Wrong('no cycle that ends where it began')
        _check_visits(data, walk[:-1])
        _check_edges(data, walk)

    def _check_walk_official(self, data, walk):
        # The official verifier ignores the last entry.
        if len(walk) != data['num_vertices'] + 1:
            raise Wrong('not every vertex exactly once')
        self._check_walk(data, [*walk[:-1], walk[0]])


class HamiltonianPath(_Hamiltonian):
    """Hamiltonian path; the list has every vertex once."""

    name = 'hamiltonian_path'
    rules = (
        'Find a path in this undirected graph that visits every vertex exactly once, '
        f'or find that there is none. {_GRAPH}\n'
        'Answer: the vertices of the path as a list, for example [0, 2, 3, 1]. If '
        'there is no such path: NO'
    )

    def _solve(self, num_vertices, edges):
        return circuits.hamiltonian_path(num_vertices, edges)

    def _check_walk(self, data, walk):
        _check_visits(data, walk)
        _check_edges(data, walk)


def _check_visits(data: Data, walk: list[int]) -> None:
    if sorted(walk) != list(range(data['num_vertices'])):
        raise Wrong('not every vertex exactly once')


def _check_edges(data: Data, walk: list[int]) -> None:
    edges = {frozenset(edge) for edge in data['edges']}
    for a, b in itertools.pairwise(walk):
        if frozenset((a, b)) not in edges:
            raise Wrong(f'no edge between {a} and {b}')


def _random_edges(num_vertices: int, draws: Draws) -> list[list[int]]:
    order = draws.permutation(num_vertices)
    cycle = {
        frozenset((a, b)) for a, b in zip(order, order[1:] + order[:1], strict=True)
    }
    edges = set(cycle)
    missing = draws.between(1, 4) if draws.chance(1, 2) else 0
    num_edges = num_vertices + draws.between(0, num_vertices // 4)
    edges -= set(draws.sample(sorted(cycle, key=sorted), missing))
    while len(edges) < num_edges:
        edge = frozenset(draws.sample(range(num_vertices), 2))
        if not (missing and edge in cycle):
            edges.add(edge)
    return [
        draws.shuffled(sorted(edge))
        for edge in draws.shuffled(sorted(edges, key=sorted))
    ]


HAMILTONIAN_CYCLE = HamiltonianCycle()
HAMILTONIAN_PATH = HamiltonianPath()
