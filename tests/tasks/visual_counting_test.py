"""Pictures of objects: their number is the answer."""

import collections

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.tasks.visual_counting import COLORS

PARAMS = {
    'grid_size': 4,
    'cell_pixels': 5,
    'num_colors': 4,
    'max_count': 5,
    'train_count': 300,
    'validation_count': 0,
    'test_count': 50,
    'seed': 0,
    'prompt': 'bare',
}


def count_objects(picture, color, *, side):
    """Counts the cells that have pixels in the direction of a color."""
    size = len(picture) // side
    cells = picture.reshape(size, side, size, side, 3).transpose(0, 2, 1, 3, 4)
    brightest = cells.reshape(size**2, side**2, 3).max(axis=1).astype(float)
    names = [*COLORS][: PARAMS['num_colors']]
    expected = np.array([COLORS[name] for name in names], float)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    filled = brightest[brightest.sum(axis=1) > 0]
    filled /= np.linalg.norm(filled, axis=1, keepdims=True)
    return int(((filled @ expected.T).argmax(axis=1) == names.index(color)).sum())


def test_the_answer_is_the_number_of_objects_of_the_color():
    problems = tasks.make_task('visual_counting', PARAMS).source('train', data_dir='')
    for problem in problems:
        (picture,) = problem.images
        color, number = problem.data['color'], problem.data['count']
        assert problem.prompt == f'<image>{color}\n'
        assert count_objects(picture, color, side=5) == number
    counts = collections.Counter(problem.data['count'] for problem in problems)
    assert counts.keys() == set(range(6))
    # Uniform, so that sight is needed: 50 each, give or take four deviations.
    assert max(counts.values()) < 50 + 4 * 50**0.5
    assert len({problem.data['color'] for problem in problems}) == 4


def test_a_seed_decides_the_pictures_and_counts_do_not():
    def source(split, **changes):
        task = tasks.make_task('visual_counting', PARAMS | changes)
        return [p.images[0].tobytes() for p in task.source(split, data_dir='')]

    assert source('test') == source('test', train_count=3)
    assert source('test')[:20] == source('test', test_count=20)
    assert source('test') != source('test', seed=1)


def test_only_the_number_is_right():
    task = tasks.make_task('visual_counting', PARAMS | {'prompt': 'instruct'})
    problem = task.parse_problem({'color': 'red', 'count': 4})
    for response in ('4', r'Four: \boxed{4}', r'\boxed{ 04 }', '<answer>4</answer>'):
        assert task.verdict(problem, response).correct, response
    wrong = ['', '5', '4 or 5', r'4 \boxed{5}', '٤', '4.0', '-4']
    for response in (*wrong, '4' * 5000, '0' * 63 + '42'):
        verdict = task.verdict(problem, response)
        assert not verdict.correct, response
        assert verdict.error


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'max_count': 9, 'grid_size': 2}, 'max_count=9 objects do not fit in the 4'),
        ({'num_colors': 1}, 'num_colors=1 must lie in'),
        ({'num_colors': 7}, 'num_colors=7 must lie in'),
        ({'cell_pixels': 2}, 'cell_pixels=2 must lie in'),
    ],
)
def test_pictures_that_cannot_be_drawn_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        tasks.make_task('visual_counting', PARAMS | changes)


def test_more_pictures_than_there_are_is_one_line():
    params = {'grid_size': 1, 'max_count': 1, 'test_count': 0, 'train_count': 5000}
    task = tasks.make_task('visual_counting', PARAMS | params)
    with pytest.raises(ValueError, match="wanted 5000 pictures of split 'train'"):
        task.source('train', data_dir='')


@pytest.mark.parametrize(
    'record', ['4', {}, {'color': 'red', 'count': '4'}, {'color': 3, 'count': 4}]
)
def test_what_is_no_record_is_refused(record):
    with pytest.raises(ValueError, match=r'color|count'):
        tasks.task_class('visual_counting').parse_problem(record)
