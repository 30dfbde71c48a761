"""Mazes as pictures: what they show, and that they are the mazes of the text."""

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.tasks.maze.visual import draw_cells

PARAMS = {
    'generator': 'wilson',
    'wall_probability': 0.0,
    'min_path': 0,
    'max_path': 0,
    'train_sizes': (7, 9),
    'train_counts': (3, 3),
    'validation_sizes': (),
    'validation_counts': (),
    'test_sizes': (9,),
    'test_counts': (3,),
    'seed': 0,
    'prompt': 'bare',
}


@pytest.mark.parametrize('prompt', ['bare', 'instruct'])
def test_a_picture_shows_the_maze_of_the_text(prompt, tmp_path):
    text = tasks.make_task('maze', PARAMS | {'prompt': prompt})
    params = PARAMS | {'prompt': prompt, 'cell_pixels': 3}
    task = tasks.make_task('visual_maze', params)
    problems, texts = (x.source('train', data_dir=str(tmp_path)) for x in (task, text))
    assert [p.data for p in problems] == [p.data for p in texts]
    hashes = [[x.content_hash(p) for p in texts] for x in (task, text)]
    assert hashes[0] == hashes[1]
    for problem in problems:
        assert problem.data['maze'] not in problem.prompt
        assert problem.prompt.count('<image>') == 1
        (picture,) = problem.images
        rows = problem.data['maze'].split('\n')
        assert picture.shape == (3 * len(rows), 3 * len(rows[0]), 3)
        by_cell = {}
        for r, row in enumerate(rows):
            for c, cell in enumerate(row):
                pixels = picture[3 * r : 3 * r + 3, 3 * c : 3 * c + 3].reshape(9, 3)
                by_cell.setdefault(cell, set()).update(map(tuple, pixels.tolist()))
        # Each kind of cell has one color, and no two have the same.
        assert by_cell.keys() == {*'*.SE'}
        assert len(set.union(*by_cell.values())) == 4


def test_answers_are_judged_as_those_to_the_text(tmp_path):
    task = tasks.make_task('visual_maze', PARAMS | {'cell_pixels': 2})
    (problem, *_) = task.source('test', data_dir=str(tmp_path))
    rng = np.random.default_rng(0)
    right = task.demonstration(problem, kind='shortest_path', rng=rng)
    verdicts = task.verify([problem], [[right, right[:-1], 'UDLR']])
    assert verdicts.correct.tolist() == [[True, False, False]]
    assert 'svg' in task.draw(problem.data, right, correct=True)
    assert set(right) <= set(task.alphabet)
    assert not {'<', 'm'} & set(task.alphabet)


def test_cells_need_not_be_square_mazes():
    assert draw_cells(['S*E'], cell_pixels=5).shape == (5, 15, 3)
