"""What ``evaluate --task`` names."""

import pytest

from passk_jax import other_tasks
from passk_jax.errors import InputError
from passk_jax.tasks import task_class
from tests import tiny

CONFIG = """
from tests import tiny

def get_config(argument=''):
    config = tiny.get_config()
    config.data.dir = 'of the file'
    if argument:
        config.task.name = argument.partition('=')[2].partition(',')[0]
    return config
"""


def named(which, data_dir=None):
    return other_tasks.named(which, tiny.make_config().data, data_dir)


def test_without_a_task_there_is_none():
    assert named(None) == {}
    with pytest.raises(InputError, match=r"data_dir='x' is the place of other tasks"):
        named(None, 'x')


def test_a_name_is_the_published_benchmark_in_the_directory_of_the_run():
    found = named('korbench,arc')
    assert list(found) == ['korbench', 'arc']
    task, data = found['korbench']
    about = task_class('korbench').about
    assert task.params == {**about.example, **about.benchmark}
    assert data == tiny.make_config().data
    assert named('arc', 'x')['arc'][1].dir == 'x'


def test_a_file_is_called_by_its_name_and_its_argument(tmp_path):
    path = tmp_path / 'one.py'
    path.write_text(CONFIG)
    found = named(f'{path}:n=math,l=1,{path}:n=arc,{path},maze')
    assert list(found) == ['one:n=math,l=1', 'one:n=arc', 'one', 'maze']
    assert [task.name for task, _ in found.values()] == ['math', 'arc', 'maze', 'maze']
    assert [data.dir for _, data in found.values()][:3] == ['of the file'] * 3
    assert {data.dir for _, data in named(f'{path},maze', 'x').values()} == {'x'}
    with pytest.raises(InputError, match=r"names 'one:n=arc' twice"):
        named(f'{path}:n=arc,{tmp_path}/../{tmp_path.name}/one.py:n=arc')


@pytest.mark.parametrize(
    ('name', 'said'), [('arc', "task 'arc': too small"), ('', 'too small')]
)
def test_an_error_says_of_which_task_it_is(name, said):
    caught = pytest.raises(ValueError, match=f'^{said}$')
    with caught, other_tasks.errors_of(name):
        raise ValueError('too small')
