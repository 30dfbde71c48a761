"""``python -m passk_jax.evaluate --task``: other tasks than the run's own."""

import dataclasses
import json
import shutil

import pytest

from passk_jax import evaluate
from passk_jax.config import TaskConfig
from passk_jax.runs import commits, saved_config
from passk_jax.setup.setup import Setup
from passk_jax.tasks import make_task
from tests import tiny
from tests.evaluate_test import run
from tests.tasks.custom_class_test import GOOD


@pytest.fixture
def workdir(finished_run, tmp_path):
    """A finished run to write into."""
    shutil.copytree(finished_run, tmp_path / 'run')
    return tmp_path / 'run'


OTHER = """
from tests import tiny

def get_config(argument=''):
    config = tiny.get_config()
    config.name = 'other'
    config.data.max_prompt_tokens = 20
    config.data.overlong = 'drop'
    if argument:
        config.task.name = 'enigmata'
        config.task.params = dict(
            puzzles=('sudoku2', 'kakurasu', 'twiddle'), levels=('easy',),
            train_count=0, validation_count=0, test_count=4, seed=0, prompt='bare')
        return config
    params = config.task.params
    # The largest have more than 20 tokens. The run was trained on the mirror image of
    # one of the smallest.
    params.test_sizes, params.test_counts = (3, 4, 5), (2, 3, 4)
    return config
"""


def test_other_tasks_are_evaluated_with_a_table_of_their_categories(
    workdir, tmp_path, capsys
):
    for name in ('one', 'two'):
        (tmp_path / f'{name}.py').write_text(OTHER)
    files = f'{tmp_path}/one.py,{tmp_path}/two.py'
    with tiny.devices(1):
        evaluate.main(workdir=str(workdir), task=files, num_responses=2)
    directory = workdir / 'evaluation' / 'by_command'
    name = 'test_step_00000005_task={}_num_responses=2'
    table = (directory / f'{name.format("one,two")}.md').read_text()
    assert capsys.readouterr().out == table
    cells = [
        [cell.strip() for cell in line.split('|')[1:-1]] for line in table.splitlines()
    ]
    head = [
        'task',
        'category',
        'problems',
        'too long',
        'trained on',
        'Pass@1',
        'Pass@2',
    ]
    assert cells[0] == head
    assert [line[:5] for line in cells[2:]] == [
        [task, *options]
        for task in ('one', 'two')
        for options in (
            ['3x3', '1', '0', '1'],
            ['4x4', '3', '0', '0'],
            ['5x5', '0', '4', '0'],
            ['all problems', '4', '4', '1'],
            ['mean of categories', '4', '4', '1'],
        )
    ]
    for task in ('one', 'two'):
        rows = tiny.read_lines(directory / f'{name.format(task)}.jsonl')
        assert len(rows) == 4
        summary = json.loads((directory / f'{name.format(task)}.json').read_text())
        percent = 100 * summary['metrics']['pass_at_1']
        assert summary['left_out'] == {
            'too long': {'5x5': 4},
            'trained on': {'3x3': 1},
        }
        assert summary['num_dropped'] == 4
        (line,) = (x for x in cells if x[:2] == [task, 'all problems'])
        assert line[head.index('Pass@1')] == f'{percent:.1f}'


def hashes(config, split):
    """The hashes of a split's mazes, which mirror images share."""
    task = make_task(config.task.name, config.task.params)
    return [task.content_hash(p) for p in task.source(split, data_dir=config.data.dir)]


def test_problems_that_the_run_was_trained_on_are_left_out(workdir, tmp_path, capsys):
    """And those of the run that it goes on from, if that is there."""
    path = tmp_path / 'one.py'
    longer = 'params.train_sizes, params.train_counts = (3,), (60,)'
    path.write_text(OTHER.replace('# The largest', f'{longer}\n    # The largest'))
    records, summary = run(workdir, task=str(path), split='train')
    config = saved_config.run_config(workdir)
    params = summary['task']['params']
    other = dataclasses.replace(config, task=TaskConfig('maze', params))
    seen = set(hashes(config, 'train'))
    common = sum(digest in seen for digest in hashes(other, 'train'))
    assert 0 < common < 60
    assert summary['left_out'] == {'too long': {}, 'trained on': {'3x3': common}}
    assert len(tiny.read_lines(records)) == 60 - common
    line = f'| one | 3x3 | {60 - common} | 0 | {common} | '
    assert line in capsys.readouterr().out
    # Problems that an earlier run was trained on count too; they may be unknown.
    changed = json.loads((workdir / 'config.json').read_text())
    before = tmp_path / 'before'
    changed['init'] |= {'kind': 'checkpoint', 'checkpoint': str(before)}
    (workdir / 'config.json').write_text(json.dumps(changed))
    _, summary = run(workdir, task=str(path), split='train', overwrite=True)
    assert summary['left_out']['trained on'] is None
    assert f'| one | 3x3 | {60 - common} | 0 | ? | ' in capsys.readouterr().out
    before.mkdir()
    changed['task']['params'] = params
    (before / 'config.json').write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=r"task 'one': .* trained on all of these 60"):
        run(workdir, task=str(path), split='train', overwrite=True)


def contents(workdir):
    """What was evaluated by command, by the name of the file."""
    directory = workdir / 'evaluation' / 'by_command'
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_two_arguments_of_a_config_file_are_two_results(workdir, tmp_path):
    path = tmp_path / 'one.py'
    counts = '(2, int(argument.rpartition("/")[2]), 4)'
    path.write_text(
        OTHER.replace('if argument:', 'if False:').replace('(2, 3, 4)', counts)
    )
    for argument in ('1', 'a/2'):
        run(workdir, task=f'{path}:{argument}')
    name = 'test_step_00000005_task=one:{}.jsonl'
    num_lines = {
        k: v.count(b'\n') for k, v in contents(workdir).items() if 'jsonl' in k
    }
    assert num_lines == {name.format('1'): 2, name.format('a%2F2'): 3}


def test_results_of_other_problems_are_replaced_only_on_request(workdir, tmp_path):
    path = tmp_path / 'one.py'
    path.write_text(OTHER)
    run(workdir, task=str(path))
    before = contents(workdir)
    path.write_text(OTHER.replace('(2, 3, 4)', '(2, 2, 4)'))
    words = (
        r'task=one.json is of an evaluation with other settings: .*--overwrite.*'
        r'task.params.test_counts: \[2, 3, 4\] there, \[2, 2, 4\] now'
    )
    with pytest.raises(ValueError, match=f'(?s){words}'):
        run(workdir, task=str(path))
    assert contents(workdir) == before
    records, _ = run(workdir, task=str(path), overwrite=True)
    assert len(tiny.read_lines(records)) == 3


def test_an_interrupted_evaluation_of_tasks_goes_on(workdir, tmp_path, monkeypatch):
    for name in ('one', 'two'):
        (tmp_path / f'{name}.py').write_text(OTHER)
    files = f'{tmp_path}/one.py,{tmp_path}/two.py'
    run(workdir, task=files)
    complete = contents(workdir)
    for name in complete:
        if 'task=two.' in name or name.endswith('.md'):
            (workdir / 'evaluation' / 'by_command' / name).unlink()
    evaluated = []
    evaluator = Setup.evaluate

    def watched(self):
        evaluated.append(self.config.task)
        return evaluator(self)

    monkeypatch.setattr(Setup, 'evaluate', watched)
    run(workdir, task=files)
    assert contents(workdir) == complete
    assert len(evaluated) == 1
    # The checkpoint is not even read.
    monkeypatch.setattr(evaluate, 'restore_params', None)
    run(workdir, task=files)
    assert contents(workdir) == complete
    monkeypatch.undo()
    monkeypatch.setattr(Setup, 'evaluate', watched)
    run(workdir, task=files, overwrite=True)
    assert len(evaluated) == 3
    assert contents(workdir) == complete
    other_checkpoint = r"""(?s)task=one.json is of .*checkpoint: "[0-9a-f]+" there"""
    checkpoint = workdir / 'checkpoints' / '5'
    arrays = commits.read_commit(checkpoint).arrays | {'memory': {'a': 'another'}}
    commits.write_commit(checkpoint, commits.Commit({}, arrays))
    with pytest.raises(ValueError, match=other_checkpoint):
        run(workdir, task=files)


@pytest.mark.parametrize(
    ('files', 'message'),
    [
        ('one.py:x', "task 'one:x': the tokenizer cannot encode .sudoku2"),
        ('own.py:Own', r"task 'own.py:Own': the tokenizer .* alphabet has no ' ay'"),
        ('absent.py', 'absent.py: no such file'),
        ('one.py,sub/../one.py', r"names 'one' twice"),
        ('maze,one,korbench', "task 'one' is none of"),
        ('one.py,maze', "task 'maze': the tokenizer cannot encode"),
    ],
)
def test_other_tasks_that_do_not_fit_are_an_error_before_sampling(
    files, message, workdir, tmp_path, monkeypatch
):
    (tmp_path / 'one.py').write_text(OTHER)
    (tmp_path / 'own.py').write_text(GOOD.replace('Mine', 'Own'))
    (tmp_path / 'sub').mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluate, 'restore_params', None)
    with pytest.raises(ValueError, match=message):
        run(workdir, task=files)
