"""What ``evaluate --task`` names."""

import dataclasses

import pytest

from passk_jax import tasks
from passk_jax.config import TaskConfig
from passk_jax.errors import InputError
from passk_jax.evaluation import other_tasks
from passk_jax.tasks import task_class
from tests import tiny
from tests.tasks.arc import toy as arc_toy
from tests.tasks.math import toy
from tests.tasks.toy import LastDigit

CONFIG = """
from tests import tiny

def get_config(argument=''):
    config = tiny.get_config()
    config.data.dir = 'of the file'
    if argument:
        config.task.name = argument.partition('=')[2].partition(',')[0]
    return config
"""


def read_tasks(which, data_dir=None):
    return other_tasks.read_tasks(which, tiny.make_config().data, data_dir)


def test_without_a_task_there_is_none():
    assert read_tasks(None) == {}
    with pytest.raises(InputError, match=r"data_dir='x' is the place of other tasks"):
        read_tasks(None, 'x')


def test_a_name_is_the_published_benchmark_in_the_directory_of_the_run():
    by_name = read_tasks('korbench,arc')
    assert list(by_name) == ['korbench', 'arc']
    task, data = by_name['korbench']
    about = task_class('korbench').about
    assert task.params == {**about.example, **about.benchmark}
    assert data == tiny.make_config().data
    assert read_tasks('arc', 'x')['arc'][1].dir == 'x'


def test_a_file_is_called_by_its_name_and_its_argument(tmp_path):
    path = tmp_path / 'one.py'
    path.write_text(CONFIG)
    by_name = read_tasks(f'{path}:n=math,l=1,{path}:n=arc,{path},maze')
    assert list(by_name) == ['one:n=math,l=1', 'one:n=arc', 'one', 'maze']
    assert [task.name for task, _ in by_name.values()] == [
        'math',
        'arc',
        'maze',
        'maze',
    ]
    assert [data.dir for _, data in by_name.values()][:3] == ['of the file'] * 3
    assert {data.dir for _, data in read_tasks(f'{path},maze', 'x').values()} == {'x'}
    with pytest.raises(InputError, match=r"names 'one:n=arc' twice"):
        read_tasks(f'{path}:n=arc,{tmp_path}/../{tmp_path.name}/one.py:n=arc')


def test_a_class_of_a_file_is_a_task_of_ones_own(tmp_path):
    path = tmp_path / 'two.py'
    path.write_text('from tests.tasks.toy import LastDigit')
    by_name = read_tasks(f'{path}:LastDigit,maze')
    assert list(by_name) == ['two:LastDigit', 'maze']
    assert by_name['two:LastDigit'][0] == TaskConfig(f'{path}:LastDigit', {})
    assert task_class(f'{path}:LastDigit').name == f'{path}:LastDigit'
    # The class that the file imports keeps the name that it has elsewhere.
    assert LastDigit.name == 'last_digit'
    # A file with a get_config is a config file; its argument follows the colon.
    path.write_text(CONFIG.replace('if argument:', 'if not argument:'))
    assert read_tasks(f'{path}:argument')['two:argument'][0].name == 'maze'
    with pytest.raises(InputError, match=r'absent\.py:LastDigit: no such file'):
        read_tasks('absent.py:LastDigit')


@pytest.mark.parametrize(
    ('name', 'message'), [('arc', "task 'arc': too small"), ('', 'too small')]
)
def test_an_error_says_of_which_task_it_is(name, message):
    caught = pytest.raises(ValueError, match=f'^{message}$')
    with caught, other_tasks.errors_of(name):
        raise ValueError('too small')


@pytest.fixture
def math(tmp_path):
    """The task, and what a run of it has in its configuration."""
    toy.write(tmp_path)
    data = dataclasses.replace(tiny.make_config().data, dir=str(tmp_path))
    return tasks.make_task('math', toy.PARAMS), (TaskConfig('math', toy.PARAMS), data)


def test_training_problems_are_those_of_every_run_of_such_a_task(math, tmp_path):
    task, run = math
    problems = task.source('train', data_dir=run[1].dir)
    tests = task.source('test', data_dir=run[1].dir)
    hashes = {task.content_hash(problem) for problem in problems}
    params = toy.PARAMS | {
        'train_files': toy.PARAMS['test_files'],
        'test_files': toy.PARAMS['train_files'],
    }
    later = TaskConfig('math', params), run[1]
    assert other_tasks.training_problems([run]) == (hashes, True)
    both = hashes | {task.content_hash(problem) for problem in tests}
    assert other_tasks.training_problems([run, later]) == (both, True)
    assert other_tasks.training_problems([run, None]) == (hashes, False)
    (tmp_path / 'math_train.jsonl').unlink()
    assert other_tasks.training_problems([run]) == (frozenset(), False)


def test_problems_of_the_parts_of_a_mixture_count(math):
    _, run = math
    parts = {'a': {'weight': 1, 'task': 'math', 'params': toy.PARAMS}}
    mixture = TaskConfig('mixture', {'parts': parts}), run[1]
    alone = other_tasks.training_problems([run])
    assert other_tasks.training_problems([mixture]) == alone


def test_problems_that_another_task_was_trained_on_are_left_out(tmp_path):
    """Enigmata's symbolic_hard has the tasks of ARC."""
    arc_toy.write(tmp_path, training=6, evaluation=2)
    arc_toy.write_folders(tmp_path, training='evaluation', evaluation='training')
    data = dataclasses.replace(tiny.make_config().data, dir=str(tmp_path))
    params = {
        'puzzles': ('symbolic_hard',),
        'levels': ('easy', 'hard'),
        'train_count': 1,
        'validation_count': 0,
        'test_count': 50,
        'seed': 0,
        'prompt': 'bare',
    }
    runs = {'arc': arc_toy.PARAMS, 'enigmata': params}
    results = []
    for name, other in (('arc', 'enigmata'), ('enigmata', 'arc')):
        task = tasks.make_task(other, runs[other])
        problems = task.source('test', data_dir=str(tmp_path))
        run = TaskConfig(name, runs[name]), data
        seen, complete = other_tasks.training_problems([run])
        assert complete
        results.append(
            (len(problems), [p in seen for p in map(task.content_hash, problems)])
        )
    # Six tasks, seven problems.
    assert results[0] == (7, [True] * 7)
    assert sum(results[1][1]) in (1, 2)
    assert not all(results[1][1])


def test_what_a_run_was_trained_on_is_left_out_and_counted(math):
    task, (_, data) = math
    problems = task.source('train', data_dir=data.dir)
    assert other_tasks.unseen(task, problems, ()) == (problems, {})
    seen = {task.content_hash(problem) for problem in problems[:2]}
    unseen, left_out = other_tasks.unseen(task, problems, seen | {'other'})
    assert unseen == problems[2:]
    assert left_out == {'math_train': 2}
    seen = {task.content_hash(problem) for problem in problems}
    with pytest.raises(InputError, match='trained on all of these 3 problems'):
        other_tasks.unseen(task, problems, seen)
