"""A task of a user's own, ``file.py:Class``: what it may lack."""

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.errors import InputError
from passk_jax.tasks.__main__ import show_problem
from passk_jax.tasks.judging import checked
from passk_jax.tasks.task import check_problems
from passk_jax.types import Problem, Verdict

GOOD = """
from passk_jax.tasks import Problem, Task, Verdict

class Mine(Task):
    splits = ('train', 'test')

    def source(self, split, *, data_dir):
        return [Problem(0, 'Say a.', {'answer': 'a'}, 'mine')]

    @staticmethod
    def verdict(problem, response):
        return Verdict(response == 'a', response, None)
"""


pytestmark = pytest.mark.usefixtures('elsewhere')


def write(elsewhere, text: str) -> str:
    (elsewhere / 'my.py').write_text(text)
    return 'my.py:Mine'


def test_a_class_of_a_file_is_a_task_by_its_place(elsewhere):
    place = write(elsewhere, GOOD)
    task = tasks.make_task(place, {})
    assert task.name == place
    problems = task.source('train', data_dir='')
    check_problems(task, problems)
    verdicts = task.verify(problems, [['a', 'b']])
    np.testing.assert_array_equal(verdicts.rewards, [[1.0, 0.0]])
    assert tasks.drawing_of(place) is None
    with pytest.raises(InputError, match='has no parse_problem'):
        task.parse_problem({})
    # It may be a part of a mixture, as a row of the table may.
    part = {'weight': 1, 'task': place, 'params': {}}
    mixture = tasks.make_task('mixture', {'parts': {'a': part}})
    (problem,) = mixture.source('test', data_dir='')
    assert mixture.verdict(problem, 'a').correct


def test_its_parameters_are_checked_as_those_of_others(elsewhere):
    params = '    Params = P\n    splits'
    head = 'import dataclasses\n@dataclasses.dataclass\nclass P:\n    size: int\n'
    place = write(elsewhere, head + GOOD.replace('    splits', params))
    assert tasks.make_task(place, {'size': 3}).params.size == 3
    for values in ({}, {'size': 'x'}, {'size': 3, 'other': 1}):
        with pytest.raises(InputError, match=r'task\.params'):
            tasks.make_task(place, values)


def test_its_parameters_may_have_defaults(elsewhere):
    head = (
        'import dataclasses\n'
        '@dataclasses.dataclass(frozen=True)\nclass Inner:\n    x: float = 0.5\n'
        '@dataclasses.dataclass(frozen=True)\nclass P:\n    size: int = 3\n'
        '    inner: Inner = Inner()\n'
        '    names: tuple[str, ...] = dataclasses.field('
        "default_factory=lambda: ('a',))\n"
    )
    text = GOOD.replace('    splits', '    Params = P\n    splits')
    place = write(elsewhere, head + text)
    params = tasks.make_task(place, {'names': ['b', 'c']}).params
    assert (params.size, params.inner.x, params.names) == (3, 0.5, ('b', 'c'))
    assert tasks.make_task(place, {'size': 4}).params.names == ('a',)
    with pytest.raises(InputError, match=r'task\.params\.sise'):
        tasks.make_task(place, {'sise': 4})
    # ``passk tasks`` makes it without a config.
    assert 'Say a.' in show_problem(place, split='train', index=0, data_dir='')


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ('class Mine: pass', 'my.py:Mine is Mine, not a class of passk_jax.tasks.Task'),
        ('Mine = 3', 'my.py:Mine is a int, not a class'),
        ('def Mine(): pass', 'my.py:Mine is a function, not a class'),
        (
            GOOD.replace("    splits = ('train', 'test')\n", ''),
            '4 (Mine) lacks splits',
        ),
        (
            GOOD.replace('def source', 'def sources'),
            'line 4 (Mine) lacks source',
        ),
        (GOOD.replace('def verdict', 'def v'), 'my.py, line 4 (Mine) lacks verdict'),
        (
            GOOD.replace("('train', 'test')", "'train'"),
            "splits='train' must be",
        ),
        (
            GOOD.replace("('train', 'test')", "('train', 'my/test', '')"),
            "(Mine): splits: ['my/test', ''] must be of letters, digits",
        ),
        (GOOD.replace("('train', 'test')", '()'), 'splits=() must be a tuple'),
        (GOOD.replace('Task, ', ''), "line 4: NameError: name 'Task' is not defined"),
        (
            GOOD.replace('class Mine(', 'class Other('),
            "my.py defines no Mine; it has ['Other']",
        ),
        (
            GOOD.replace('    splits', '    def __init__(self): pass\n    splits'),
            'line 5 (Mine.__init__) must take the parameters and nothing else: too',
        ),
        (
            GOOD.replace('    splits', '    class Params: pass\n    splits'),
            'line 4 (Mine): Params must be a frozen dataclass',
        ),
    ],
)
def test_a_class_that_is_no_task_is_named(content, message, elsewhere):
    with pytest.raises(InputError) as error:
        tasks.make_task(write(elsewhere, content), {})
    assert message in str(error.value)
    assert '\n' not in str(error.value)


@pytest.mark.parametrize(
    ('returned', 'message'),
    [
        ('None', 'my.py, line 7 (Mine.source) returned a NoneType, not a sequence'),
        ('3', 'returned a int, not a sequence'),
        ('iter([])', 'not a sequence of Problem'),
        ('[]', 'my.py, line 7 (Mine.source) returned no problems'),
        ('[None]', 'my.py, line 7 (Mine.source) returned None, not a Problem'),
        ("['Say a.']", "returned 'Say a.', not a Problem"),
        ("[Problem('0', 'a', {}, 'b')]", 'not a Problem of an int, a text, a mapping'),
        ("[Problem(0, None, {}, 'b')]", 'not a Problem of an int'),
        ("[Problem(0, 'a', None, 'b')]", 'not a Problem of an int'),
        ("[Problem(0, 'a', {'x': {1}}, 'b')]", 'whose data are no JSON: Object of typ'),
        (
            "[Problem(2**31, 'a', {}, 'b')]",
            'returned a problem with id=2147483648, which must lie in [0, 2147483648)',
        ),
        ("[Problem(-1, 'a', {}, 'b')]", 'with id=-1, which must lie in'),
        (
            "[Problem(0, 'a', {}, 'b'), Problem(1, 3, {}, 'b')]",
            'my.py, line 7 (Mine.source) returned Problem(id=1, prompt=3,',
        ),
    ],
)
def test_a_source_without_problems_is_named(returned, message, elsewhere):
    text = GOOD.replace("[Problem(0, 'Say a.', {'answer': 'a'}, 'mine')]", returned)
    task = tasks.make_task(write(elsewhere, text), {})
    with pytest.raises(InputError) as error:
        check_problems(task, task.source('train', data_dir=''))
    assert message in str(error.value)


@pytest.mark.parametrize(
    'returned',
    ['None', 'True', '1.0', "'a'", 'Verdict(None, "", None)', 'Verdict(True, 3, None)'],
)
def test_what_is_no_verdict_is_named(returned, elsewhere):
    text = GOOD.replace("Verdict(response == 'a', response, None)", returned)
    task = tasks.make_task(write(elsewhere, text), {})
    with pytest.raises(InputError, match=r'^my\.py, line 10 \(Mine\.verdict\) ret'):
        task.verify(task.source('train', data_dir=''), [['a']])


@pytest.mark.parametrize(
    ('returned', 'message'),
    [
        (
            "Verdict(response[2] == 'a', response, None)",
            'my.py, line 10 (Mine.verdict) cannot judge an empty response to problem '
            '0: my.py, line 12: IndexError: string index out of range',
        ),
        ("response == 'a'", 'my.py, line 10 (Mine.verdict) returned False; it must'),
    ],
)
def test_a_verdict_is_tried_before_a_run(returned, message, elsewhere):
    text = GOOD.replace("Verdict(response == 'a', response, None)", returned)
    place = write(elsewhere, text)
    task = tasks.make_task(place, {})
    with pytest.raises(InputError) as error:
        check_problems(task, task.source('train', data_dir=''))
    assert str(error.value).startswith(message)
    part = {'weight': 1, 'task': place, 'params': {}}
    mixture = tasks.make_task('mixture', {'parts': {'a': part}})
    with pytest.raises(InputError) as error:
        mixture.source('train', data_dir='')
    assert str(error.value).startswith(message)


def test_a_verdict_of_numpy_is_one():
    verdict = Verdict(np.bool_(True), 'a', None)
    assert checked(verdict, len) == Verdict(True, 'a', None)
    assert checked(verdict, len).correct is True
    assert Problem(0, 'a', {}, 'b').turns == ()
