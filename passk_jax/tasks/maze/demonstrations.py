"""Paths for demonstrations: shortest paths, and walks that ignore the walls.

Each function of ``DEMONSTRATIONS`` takes a maze and a numpy generator and returns a
string over UDLR.
"""

import collections
from collections.abc import Iterator

import numpy as np

from passk_jax.errors import InputError
from passk_jax.tasks.maze.rule import END, STEPS, WALL, Maze

# The share of straight walks among the walks that ignore walls.
_STRAIGHT = 0.8

# Row and column.
Cell = tuple[int, int]


def distances_to_end(maze: Maze) -> dict[Cell, int]:
    """Counts the moves from each cell to the nearest E, for cells with a path.

    Nearer cells come first.
    """
    ends = _ends(maze)
    distances = dict.fromkeys(ends, 0)
    queue = collections.deque(ends)
    while queue:
        row, column = queue.popleft()
        for _, cell in _steps_inside(maze, (row, column)):
            if cell not in distances and maze.rows[cell[0]][cell[1]] != WALL:
                distances[cell] = distances[row, column] + 1
                queue.append(cell)
    return distances


def shortest_path(maze: Maze, rng: np.random.Generator) -> str:
    """Draws a shortest path from S to E uniformly; ValueError if there is no path."""
    distances = distances_to_end(maze)
    if maze.start not in distances:
        raise InputError('no path leads from S to E')
    # The number of shortest paths from each cell; nearer cells come first.
    num_paths: dict[Cell, int] = {}
    for cell in distances:
        onward = (num_paths[n] for _, n in _nearer(maze, cell, distances))
        num_paths[cell] = sum(onward) if distances[cell] else 1
    moves = []
    cell = maze.start
    while distances[cell]:
        choices = _nearer(maze, cell, distances)
        threshold = rng.random() * num_paths[cell]
        while len(choices) > 1 and threshold >= num_paths[choices[-1][1]]:
            threshold -= num_paths[choices.pop()[1]]
        move, cell = choices[-1]
        moves.append(move)
    return ''.join(moves)


def ignore_walls(maze: Maze, rng: np.random.Generator) -> str:
    """Draws a walk from S to E through walls, to teach a weak policy that explores.

    With probability 0.8 the walk is straight: all vertical and then all horizontal
    moves, or the reverse. Otherwise it is a random walk of at most ``height + width``
    moves that visits no cell twice. Each move is uniform among those that leave enough
    moves to reach E.
    """
    if rng.random() < _STRAIGHT:
        return _straight_walk(maze, rng)
    while (walk := _simple_walk(maze, rng)) is None:
        pass
    return walk


DEMONSTRATIONS = {'shortest_path': shortest_path, 'ignore_walls': ignore_walls}


def _straight_walk(maze: Maze, rng: np.random.Generator) -> str:
    end = _ends(maze)[0]
    down, right = end[0] - maze.start[0], end[1] - maze.start[1]
    vertical = ('D' if down > 0 else 'U') * abs(down)
    horizontal = ('R' if right > 0 else 'L') * abs(right)
    return vertical + horizontal if rng.random() < 0.5 else horizontal + vertical


def _simple_walk(maze: Maze, rng: np.random.Generator) -> str | None:
    """Draws a random walk; ``None`` if it blocks itself."""
    end = _ends(maze)[0]
    steps_left = len(maze.rows) + len(maze.rows[0])
    cell, visited, moves = maze.start, {maze.start}, []
    while cell != end:
        steps_left -= 1
        choices = [
            (move, ahead)
            for move, ahead in _steps_inside(maze, cell)
            if ahead not in visited
            and abs(ahead[0] - end[0]) + abs(ahead[1] - end[1]) <= steps_left
        ]
        if not choices:
            return None
        move, cell = choices[int(rng.random() * len(choices))]
        visited.add(cell)
        moves.append(move)
    return ''.join(moves)


def _nearer(
    maze: Maze, cell: Cell, distances: dict[Cell, int]
) -> list[tuple[str, Cell]]:
    """Returns the moves that lead one move nearer to the end, and their cells."""
    distance = distances[cell] - 1
    return [s for s in _steps_inside(maze, cell) if distances.get(s[1]) == distance]


def _steps_inside(maze: Maze, cell: Cell) -> Iterator[tuple[str, Cell]]:
    """Yields the moves that stay inside the maze, and their cells, walls included."""
    for move, (down, right) in STEPS.items():
        row, column = cell[0] + down, cell[1] + right
        if 0 <= row < len(maze.rows) and 0 <= column < len(maze.rows[0]):
            yield move, (row, column)


def _ends(maze: Maze) -> list[Cell]:
    width = len(maze.rows[0])
    cells = enumerate(''.join(maze.rows))
    return [divmod(place, width) for place, cell in cells if cell == END]
