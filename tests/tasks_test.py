"""What holds for every task of ``TASKS``, and for the toy, which overrides nothing."""

import dataclasses
import functools
import re
import subprocess
import sys

import numpy as np
import pytest

from passk_jax import tasks
from passk_jax.tasks.picture_fields import picture_digests
from tests.tasks import pictured_toy, records_toy
from tests.tasks.arc import toy as arc_toy
from tests.tasks.korbench import toy as korbench_toy
from tests.tasks.math import toy as math_toy
from tests.tasks.reasoning_gym import toy as gym_toy
from tests.tasks.toy import LastDigit

# Parameters that make a few problems in every split; those of other tasks are their
# examples.
SMALL = {
    'enigmata': {
        'puzzles': ('sudoku2', 'star_battle'),
        'levels': ('easy', 'hard'),
        'train_count': 3,
        'validation_count': 2,
        'test_count': 2,
        'seed': 0,
        'prompt': 'bare',
    },
    'maze': {
        'generator': 'percolation',
        'wall_probability': 0.35,
        'min_path': 1,
        'max_path': 8,
        'train_sizes': (3, 4),
        'train_counts': (6, 6),
        'validation_sizes': (4,),
        'validation_counts': (5,),
        'test_sizes': (3,),
        'test_counts': (4,),
        'seed': 0,
        'prompt': 'bare',
    },
    'arc': arc_toy.PARAMS | {'validation_percent': 30},
    'math': math_toy.PARAMS,
    'records': records_toy.PARAMS,
    **dict.fromkeys(
        ('mathvision', 'mmmu'),
        pictured_toy.PARAMS | {'train_percent': 40, 'validation_percent': 30},
    ),
    'korbench': korbench_toy.PARAMS | {'train_percent': 40, 'validation_percent': 30},
}
SMALL['reasoning_gym'] = gym_toy.PARAMS
SMALL['visual_maze'] = SMALL['maze'] | {'cell_pixels': 4}
SMALL['visual_counting'] = {
    'grid_size': 3,
    'cell_pixels': 4,
    'num_colors': 3,
    'max_count': 4,
    'train_count': 12,
    'validation_count': 5,
    'test_count': 4,
    'seed': 0,
    'prompt': 'bare',
}
SMALL['mixture'] = {
    'parts': {
        name: {'weight': weight, 'task': name, 'params': SMALL[name]}
        for name, weight in (('maze', 2), ('enigmata', 1))
    }
}
# Writes what a task reads, below the directory of its data.
FILES = {
    'arc': arc_toy.write,
    'korbench': functools.partial(korbench_toy.write, copies=5),
    'math': math_toy.write,
    'records': records_toy.write,
    **dict.fromkeys(
        ('mathvision', 'mmmu'), functools.partial(pictured_toy.write, copies=10)
    ),
}

# No response and no record may raise anything but what the protocol says.
MALFORMED = (
    '', ' ', '\n', '\x00', '\ud800', 'é→𝔸', '-0', 'nan', '1e999', '9' * 10_000,
    '[' * 10_000, '{"a": ', 'boxed', r'\boxed{', r'\boxed{}', r'\boxed{{x}',
    '</answer>', '<answer>', '<answer></answer>', r'\frac{1}{0}', '((', '1/0', 'RRDD',
    'x' * 20_000,
)  # fmt: skip


@pytest.fixture(params=[*tasks.TASKS, LastDigit.name])
def task(request, monkeypatch):
    monkeypatch.setitem(tasks.TASKS, LastDigit.name, 'tests.tasks.toy:LastDigit')
    if request.param == 'reasoning_gym':
        gym_toy.install(monkeypatch)
    if request.param == LastDigit.name:
        return tasks.make_task(LastDigit.name, {})
    example = tasks.task_class(request.param).about.example
    return tasks.make_task(request.param, SMALL.get(request.param, example))


def comparable(problem):
    """A problem whose pictures may be arrays, which tuples do not compare."""
    return dataclasses.replace(problem, images=tuple(picture_digests(problem)))


@pytest.fixture
def splits(task, tmp_path):
    """Some problems of every split."""
    FILES.get(task.name, lambda directory: None)(tmp_path)
    return {s: task.source(s, data_dir=str(tmp_path))[:20] for s in task.splits}


@pytest.mark.parametrize('name', tasks.TASKS)
def test_the_example_and_the_benchmark_are_parameters_of_the_task(
    name, tmp_path, monkeypatch
):
    if name == 'records':
        monkeypatch.chdir(tmp_path)
        (tmp_path / 'my_reward.py').write_text('def reward(response, record): ...')
    about = tasks.task_class(name).about
    assert tasks.make_task(name, about.example).params
    assert about.benchmark.keys() <= about.example.keys()
    assert tasks.make_task(name, {**about.example, **about.benchmark}).params


def test_a_task_is_listed_under_its_own_name(task):
    assert isinstance(task, tasks.task_class(task.name))


def test_problems_are_complete(task, splits, tmp_path):
    assert 'train' in splits
    for split, problems in splits.items():
        assert len(problems) > 0
        ids = [problem.id for problem in problems]
        assert len(set(ids)) == len(ids)
        assert all(0 <= number < 2**31 for number in ids)
        for problem in problems:
            assert problem.prompt.strip()
            assert problem.category.strip()
        again = task.source(split, data_dir=str(tmp_path))
        assert [*map(comparable, again[: len(problems)])] == [
            *map(comparable, problems)
        ]


def test_the_words_on_how_to_answer_may_be_others(task, splits):
    problem = splits['train'][0]
    replaced = task.replace_instruction(problem, 'Say it.')
    assert replaced.count('Say it.') == 1
    assert not any(words in replaced for words in task.instructions)
    nothing = task.replace_instruction(problem, '')
    assert 'Say it.' not in nothing
    assert len(nothing) <= len(problem.prompt)


@pytest.mark.parametrize(
    'name',
    [
        *('arc', 'maze', 'enigmata', 'math', 'reasoning_gym'),
        *('visual_counting', 'visual_maze'),
    ],
)
def test_a_prompt_that_says_how_to_answer_lets_that_be_replaced(
    name, tmp_path, monkeypatch
):
    if name == 'reasoning_gym':
        gym_toy.install(monkeypatch)
    FILES.get(name, lambda directory: None)(tmp_path)
    style = {'prompt': 'instruct'} if 'prompt' in SMALL[name] else {}
    task = tasks.make_task(name, SMALL[name] | style)
    for problem in task.source('train', data_dir=str(tmp_path)):
        (instruction,) = [
            words for words in task.instructions if words in problem.prompt
        ]
        replaced = task.replace_instruction(problem, 'Say it.')
        assert replaced == problem.prompt.replace(instruction, 'Say it.')
        assert task.replace_instruction(problem, instruction) == problem.prompt


def test_splits_do_not_overlap(splits):
    prompts = [
        (problem.prompt, *picture_digests(problem))
        for split in splits.values()
        for problem in split
    ]
    assert len(set(prompts)) == len(prompts)


def test_no_response_makes_a_verdict_raise(task, splits):
    for problem in splits['train'][:2]:
        for response in MALFORMED:
            verdict = task.verdict(problem, response)
            assert isinstance(verdict.correct, bool)
            assert isinstance(verdict.parsed, str)
            assert bool(verdict.error) != verdict.correct


def test_the_verdicts_of_a_batch_are_those_of_its_responses(task, splits):
    problems = [problem for split in splits.values() for problem in split[:3]]
    verdicts = task.verify(problems, [MALFORMED for _ in problems])
    shape = len(problems), len(MALFORMED)
    assert (verdicts.rewards.shape, verdicts.rewards.dtype) == (shape, np.float32)
    assert (verdicts.correct.shape, verdicts.correct.dtype) == (shape, bool)
    assert np.isfinite(verdicts.rewards).all()
    for p, problem in enumerate(problems):
        for n, response in enumerate(MALFORMED):
            one = task.verdict(problem, response)
            assert verdicts.correct[p, n] == one.correct
            assert verdicts.parsed[p][n] == one.parsed


def test_a_record_that_cannot_be_read_is_a_value_error(task):
    for record in (*MALFORMED, {}, {'problem': 1}, {'maze': 'S.E'}):
        try:
            problem = task.parse_problem(record)
        except ValueError:
            continue
        assert problem.prompt


def test_an_unknown_task_names_the_choices():
    message = f"'mazes' is none of {sorted(tasks.TASKS)}, nor one of your own"
    with pytest.raises(ValueError, match=re.escape(message)):
        tasks.make_task('mazes', {})


def test_tasks_start_no_jax_backend_and_never_import_tensorflow(tmp_path):
    script = f"""
import sys
import jax
from passk_jax import tasks
from passk_jax.tasks.picture_fields import picture_digests
from passk_jax.verifiers import extract
assert not any(name.startswith('passk_jax.tasks.ma') for name in sys.modules)
task = tasks.make_task('maze', {SMALL['maze']!r})
assert not task.verdict(task.parse_problem('S.E'), 'U').correct
assert tasks.drawing_of('maze') is task.draw
assert 'tensorflow_datasets' not in sys.modules
source = task.source('train', data_dir=sys.argv[1])
assert not task.verdict(source[0], 'U').correct
mathematics = tasks.make_task('math', {SMALL['math']!r})
problem = mathematics.parse_problem({{'problem': 'p', 'answer': '1'}})
assert mathematics.verdict(problem, r'\\boxed{{1.0}}').correct
assert not {{'sympy', 'math_verify'}} & sys.modules.keys()
assert jax._src.xla_bridge._backends == {{}}, jax._src.xla_bridge._backends
assert not {{'tensorflow', 'torch'}} & sys.modules.keys()
"""
    command = [sys.executable, '-c', script, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize('name', tasks.TASKS)
def test_a_whole_number_of_the_parameters_has_a_largest_value(name):
    fields = [
        field
        for field in dataclasses.fields(tasks.task_class(name).Params)
        if field.type is int and field.name != 'seed'
    ]
    assert not [field.name for field in fields if field.metadata['holds'](10**9)]
