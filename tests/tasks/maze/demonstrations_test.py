import collections
import itertools

import numpy as np
import pytest

from passk_jax.tasks.maze import demonstrations, generator, rule


def _mazes(count, size=5):
    stream = generator.percolation(
        size, wall_probability=0.35, min_path=2, max_path=size * size, address=(9,)
    )
    return generator.unique_mazes(stream, count=count, seen=set())


def test_a_shortest_path_solves_its_maze_and_none_shorter_does():
    rng = np.random.default_rng(0)
    for text in _mazes(60, size=4):
        maze = rule.parse_maze(text)
        path = demonstrations.shortest_path(maze, rng)
        assert rule.verdict(text, path).correct
        assert len(path) == demonstrations.distances_to_end(maze)[maze.start]
        if len(path) <= 5:
            shorter = itertools.product(rule.MOVES, repeat=len(path) - 1)
            assert not any(rule.verdict(text, ''.join(m)).correct for m in shorter)


def test_all_shortest_paths_are_equally_probable():
    text = 'S...\n.*..\n...E'
    maze = rule.parse_maze(text)
    rng = np.random.default_rng(0)
    draws = collections.Counter(
        demonstrations.shortest_path(maze, rng) for _ in range(7000)
    )
    solutions = {
        ''.join(path)
        for path in set(itertools.permutations('RRRDD'))
        if rule.verdict(text, ''.join(path)).correct
    }
    assert set(draws) == solutions
    expected = 7000 / len(solutions)
    assert max(abs(n - expected) for n in draws.values()) < 5 * expected**0.5


def test_a_maze_without_a_path_cannot_be_demonstrated():
    with pytest.raises(ValueError, match='no path'):
        demonstrations.shortest_path(rule.parse_maze('S*E'), np.random.default_rng(0))


@pytest.mark.parametrize('text', _mazes(20, size=6))
def test_a_walk_that_ignores_walls_ends_on_e_inside_the_grid(text):
    open_text = text.replace(rule.WALL, rule.FREE)
    maze, rng = rule.parse_maze(text), np.random.default_rng(0)
    for _ in range(50):
        walk = demonstrations.ignore_walls(maze, rng)
        assert rule.verdict(open_text, walk).correct
        assert len(walk) <= 12


def test_four_of_five_walks_that_ignore_walls_are_straight():
    maze, rng = rule.parse_maze('S...\n....\n....\n...E'), np.random.default_rng(0)
    walks = collections.Counter(
        demonstrations.ignore_walls(maze, rng) for _ in range(4000)
    )
    straight = walks['RRRDDD'] + walks['DDDRRR']
    assert 0.78 < straight / 4000 < 0.86
    assert abs(walks['RRRDDD'] - walks['DDDRRR']) < 300
    assert len(walks) > 20


def test_walks_that_ignore_walls_visit_no_cell_twice():
    maze, rng = rule.parse_maze('.....\n.S.E.\n.....'), np.random.default_rng(0)
    for _ in range(300):
        cell, visited = np.array(maze.start), {maze.start}
        for move in demonstrations.ignore_walls(maze, rng):
            cell = cell + rule.STEPS[move]
            assert tuple(cell) not in visited
            visited.add(tuple(cell))
