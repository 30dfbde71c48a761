"""Paths to demonstrate: shortest paths, and walks that ignore the walls.

``DEMONSTRATIONS`` is the table of kinds; each takes a maze and a numpy generator and
returns a string over UDLR.
"""

import collections

import numpy as np

from passk_jax.errors import InputError
from passk_jax.tasks.maze.rule import END, STEPS, WALL, Maze

# The share of straight walks among those that ignore walls.
_STRAIGHT = 0.8


def distances_to_end(maze: Maze) -> dict[tuple[int, int], int]:
    """Moves from each cell to its nearest E; nearer cells come first.

    Cells without a path to E are absent.
    """
    ends = _ends(maze)
    distances = dict.fromkeys(ends, 0)
    queue = collections.deque(ends)
    while queue:
        row, column = queue.popleft()
        for down, right in STEPS.values():
            cell = row + down, column + right
            if _inside(maze, cell) and cell not in distances:
                if maze.rows[cell[0]][cell[1]] == WALL:
                    continue
                distances[cell] = distances[row, column] + 1
                queue.append(cell)
    return distances


def shortest_path(maze: Maze, rng: np.random.Generator) -> str:
    """A shortest path from S to E, drawn uniformly from all shortest paths.

    Raises:
        ValueError: there is no path.
    """
    distances = distances_to_end(maze)
    if maze.start not in distances:
        raise InputError('no path leads from S to E')
    # The number of shortest paths from each cell; nearer cells come first.
    num_paths: dict[tuple[int, int], int] = {}
    for cell in distances:
        onward = (num_paths[n] for _, n in _nearer(cell, distances))
        num_paths[cell] = sum(onward) if distances[cell] else 1
    moves = []
    cell = maze.start
    while distances[cell]:
        choices = list(_nearer(cell, distances))
        threshold = rng.random() * num_paths[cell]
        while len(choices) > 1 and threshold >= num_paths[choices[-1][1]]:
            threshold -= num_paths[choices.pop()[1]]
        move, ahead = choices[-1]
        moves.append(move)
        cell = ahead
    return ''.join(moves)


def ignore_walls(maze: Maze, rng: np.random.Generator) -> str:
    """A walk from S to E that passes through walls: a weak policy that can explore.

    With probability 0.8 it is straight: all vertical and then all horizontal moves, or
    the reverse. Otherwise it is a random walk of at most ``height + width`` moves that
    visits no cell twice. Each of its moves is uniform among those from which the moves
    left still suffice to reach E.
    """
    if rng.random() < _STRAIGHT:
        return _straight_walk(maze, rng)
    while True:
        walk = _simple_walk(maze, rng)
        if walk is not None:
            return walk


DEMONSTRATIONS = {'shortest_path': shortest_path, 'ignore_walls': ignore_walls}


def _straight_walk(maze: Maze, rng: np.random.Generator) -> str:
    end = _ends(maze)[0]
    down, right = end[0] - maze.start[0], end[1] - maze.start[1]
    legs = [
        ('D' if down > 0 else 'U') * abs(down),
        ('R' if right > 0 else 'L') * abs(right),
    ]
    return ''.join(legs if rng.random() < 0.5 else reversed(legs))


def _simple_walk(maze: Maze, rng: np.random.Generator) -> str | None:
    """A random walk; ``None`` if visited cells block it."""
    end = _ends(maze)[0]
    left = len(maze.rows) + len(maze.rows[0])
    cell, visited, moves = maze.start, {maze.start}, []
    while cell != end:
        left -= 1
        choices = []
        for move, (down, right) in STEPS.items():
            ahead = cell[0] + down, cell[1] + right
            if not _inside(maze, ahead) or ahead in visited:
                continue
            if abs(ahead[0] - end[0]) + abs(ahead[1] - end[1]) <= left:
                choices.append((move, ahead))
        if not choices:
            return None
        move, cell = choices[int(rng.random() * len(choices))]
        visited.add(cell)
        moves.append(move)
    return ''.join(moves)


def _nearer(cell: tuple[int, int], distances: dict[tuple[int, int], int]):
    """Moves and neighbours that are one move nearer to the end."""
    for move, (down, right) in STEPS.items():
        ahead = cell[0] + down, cell[1] + right
        if distances.get(ahead) == distances[cell] - 1:
            yield move, ahead


def _ends(maze: Maze) -> list[tuple[int, int]]:
    return [
        (i, j) for i, row in enumerate(maze.rows) for j, c in enumerate(row) if c == END
    ]


def _inside(maze: Maze, cell: tuple[int, int]) -> bool:
    return 0 <= cell[0] < len(maze.rows) and 0 <= cell[1] < len(maze.rows[0])
