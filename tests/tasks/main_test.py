"""What ``python -m passk_jax.tasks`` prints."""

import subprocess
import sys

import pytest

from passk_jax import tasks
from passk_jax.tasks import __main__ as command
from tests.tasks import pictured_toy, records_toy
from tests.tasks.arc import toy as arc_toy
from tests.tasks.korbench import toy as korbench_toy
from tests.tasks.math import toy as math_toy
from tests.tasks.reasoning_gym import toy as gym_toy

# Task -> its toy, which writes files, and the parameters that name those.
FILES = {
    'arc': (arc_toy, ('training', 'evaluation')),
    'korbench': (korbench_toy, ('directory', 'prompt_file')),
    'math': (math_toy, ('train_files', 'test_files')),
    **dict.fromkeys(('mathvision', 'mmmu'), (pictured_toy, ('file',))),
    'records': (records_toy, ('train_files', 'test_files', 'reward')),
}


def test_the_list_has_every_task_with_its_licence(capsys):
    command.main()
    output = capsys.readouterr().out
    assert [part.partition(':')[0] for part in output.split('\n\n')] == [*tasks.TASKS]
    assert output.count('\n  licence   ') == len(tasks.TASKS)
    assert 'git clone https://github.com/KOR-Bench/KOR-Bench' in output


@pytest.mark.parametrize('name', tasks.TASKS)
def test_the_example_of_a_task_has_a_problem_with_a_right_answer(
    name, tmp_path, monkeypatch
):
    task = tasks.task_class(name)
    if name in FILES:
        toy, names = FILES[name]
        toy.write(tmp_path)
        for key in names:
            assert task.about.example[key] != toy.PARAMS[key]
            monkeypatch.setitem(task.about.example, key, toy.PARAMS[key])
    if name == 'reasoning_gym':
        gym_toy.install(monkeypatch)
    example = tasks.make_task(name, task.about.example)
    problem = example.source('test', data_dir=str(tmp_path))[0]
    text = command.show_problem(name, split='test', index=0, data_dir=str(tmp_path))
    assert text.startswith(f'--- {name}, test, problem 0 of ')
    assert f'\n\n--- prompt\n{problem.prompt.rstrip()}\n\n' in text
    response = text.partition('--- right answer\n')[2].strip()
    assert example.verdict(problem, response).correct


def test_a_problem_without_a_known_answer_is_shown_without(tmp_path, monkeypatch):
    monkeypatch.setitem(tasks.TASKS, 'last_digit', 'tests.tasks.toy:LastDigit')
    task = tasks.make_task('last_digit', {})
    assert command.right_answer(task, task.parse_problem('7')) == ''


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'task': 'amaze'}, "task 'amaze' is none of"),
        ({'task': 'maze', 'index': 10}, r'index=10 must lie in \[0, 10\)'),
        ({'task': 'maze', 'index': -1}, r'index=-1 must lie in \[0, 10\)'),
        ({'task': 'maze', 'split': 'dev'}, "split 'dev' is none of"),
        ({'task': 'arc'}, 'of ARC-AGI-1 is absent: git clone'),
        ({'task': 'math'}, r"math_train.jsonl' are absent: .* --data_dir"),
        ({'index': 3}, '--split, --index and --data_dir need a --task'),
        ({'split': 'train'}, 'need a --task'),
    ],
)
def test_what_cannot_be_shown_is_said(options, message, tmp_path):
    if 'task' in options:
        options = options | {'data_dir': str(tmp_path)}
    with pytest.raises(ValueError, match=message):
        command.main(**options)


def test_the_command_prints_and_starts_no_device(tmp_path):
    result = subprocess.run(
        [sys.executable, '-m', 'passk_jax.tasks', '--task=enigmata', '--index=1'],
        env={'JAX_PLATFORMS': 'no_such_platform', 'HOME': str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert '--- right answer\n```\n' in result.stdout
