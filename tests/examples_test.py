"""The files of examples/, run as docs/plugins.md says, where no checkout is."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

from passk_jax.advantages import make_estimator
from passk_jax.cli import config_file
from passk_jax.tasks.maze.task import MazeTask
from tests.slow import slow_values

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / 'examples'
PLUG_INS = ('my_advantage.py', 'my_puzzle.py', 'my_reward.py')
PAGE = (ROOT / 'docs' / 'plugins.md').read_text()
_PASSK = (
    f'import sys; sys.path.append({str(ROOT)!r})\n'
    'from passk_jax.cli import passk; passk.main()'
)

# So that a run takes seconds.
_ARCH = {'num_layers': 1, 'embed_dim': 16, 'mlp_dim': 32, 'num_heads': 2}
SMALL = {
    'train.steps': 3,
    'advantage.k': 2,
    'train.num_prompts': 8,
    'train.mini_batch_prompts': 8,
    'train.micro_batch_prompts': 4,
    'train.pack_sizes': 0,
    'sampling.num_rollouts': 4,
    'eval.num_responses': 2,
    'eval.batch_size': 8,
    'eval.bootstrap_samples': 5,
    'init.warm_start.steps': 2,
    'init.warm_start.batch_size': 8,
    'log.tensorboard': 'false',
    **{f'model.arch.{name}': size for name, size in _ARCH.items()},
    'model.arch.num_kv_heads': 1,
    'model.arch.head_dim': 8,
}
SMALL_MAZES = {
    'task.params.train_counts': '(16,)',
    'task.params.validation_counts': '(8,)',
    'task.params.test_counts': '(8,)',
}


def code_blocks(language: str) -> list[str]:
    return re.findall(rf'^```{language}\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)


def commands() -> dict[str, list[list[str]]]:
    """Plug-in -> the commands of the page that use it."""
    blocks = [block.replace('\\\n', '') for block in code_blocks('bash')]
    lines = [[line.split() for line in block.splitlines()] for block in blocks]
    return {
        name: next(block for block in lines if any(name in str(x) for x in block))
        for name in PLUG_INS
    }


def run(command: list[str], cwd: pathlib.Path, *arguments: str):
    program = {'python': [], 'passk': ['-c', _PASSK]}[command[0]]
    out = command[command.index('>') + 1 :] if '>' in command else []
    command = command[: command.index('>')] if out else command
    ended = subprocess.run(
        [sys.executable, '-P', *program, *command[1:], *arguments],
        cwd=cwd,
        env=os.environ | {'HOME': str(cwd), 'PYTHONPATH': ''},
        capture_output=True,
        text=True,
    )
    if out:
        (cwd / out[0]).write_text(ended.stdout)
    return ended


@pytest.fixture(scope='module')
def elsewhere(tmp_path_factory):
    path = tmp_path_factory.mktemp('elsewhere')
    for name in PLUG_INS:
        shutil.copy(EXAMPLES / name, path)
    return path


@pytest.mark.parametrize('name', PLUG_INS)
def test_a_plug_in_has_at_most_20_lines_and_stands_on_the_page(name):
    text = (EXAMPLES / name).read_text()
    assert len(text.splitlines()) <= 20
    blocks = [block for block in code_blocks('python') if block.strip() in text]
    assert len(blocks) == 1
    assert f'](../examples/{name})' in PAGE


@pytest.mark.parametrize('name', slow_values(PLUG_INS, quick=['my_reward.py']))
def test_a_plug_in_is_trained_by_the_commands_of_the_page(name, elsewhere):
    changes = SMALL | (SMALL_MAZES if name == 'my_advantage.py' else {})
    settings = [f'--config.{key}={value}' for key, value in changes.items()]
    *before, train = commands()[name]
    for command in before:
        assert run(command, elsewhere).returncode == 0
    ended = run(train, elsewhere, *settings)
    assert ended.returncode == 0, ended.stderr
    workdir = elsewhere / train[-1].removeprefix('--workdir=')
    rows = (workdir / 'metrics.jsonl').read_text().splitlines()
    steps = [row for row in map(json.loads, rows) if row['split'] == 'train']
    assert len(steps) == 3
    assert all(0 <= row['reward'] <= 1 for row in steps)
    assert {*json.loads((workdir / 'sources.json').read_text())} == {name}
    report = (workdir / 'report.html').read_text()
    assert name in report
    # It goes on as it began, and not with another file.
    again = run(train, elsewhere, *settings)
    assert again.returncode == 0, again.stderr
    with (elsewhere / name).open('a') as file:
        file.write('# another file\n')
    refused = run(train, elsewhere, *settings)
    assert refused.returncode == 2
    assert f"error: ['{name}'] of '{name}' changed since the run" in refused.stderr
    shutil.copy(EXAMPLES / name, elsewhere)


def test_the_config_for_ones_own_has_the_papers_size_too():
    config = config_file.load('custom:task=my.py:Mine,size=paper')
    assert (config.task.name, config.task.params.to_dict()) == ('my.py:Mine', {})
    assert config.model.source == 'Qwen/Qwen2.5-7B-Instruct'
    config = config_file.load(
        'custom:train=a.arrow,test=b.csv,reward=c.py:d,size=paper'
    )
    params = config.task.params
    assert config.task.name == 'records'
    assert (params.train_files, params.test_files) == (('a.arrow',), ('b.csv',))
    assert (params.reward, config.eval.final_split) == ('c.py:d', 'test')
    assert config_file.load('custom:train=a.jsonl').eval.every == 0


def test_the_config_for_ones_own_takes_another_language_model():
    small = config_file.load('custom:train=a.jsonl,size=small')
    assert small.model.source == 'Qwen/Qwen2.5-0.5B-Instruct'
    assert (small.init.kind, small.train.num_prompts) == ('hf', 16)
    for size in ('small', 'paper'):
        config = config_file.load(f'custom:train=a.jsonl,size={size},source=my/model')
        assert config.model.source == 'my/model'
    with pytest.raises(ValueError, match='source=my/model is a model, and size=tiny'):
        config_file.load('custom:train=a.jsonl,source=my/model')


@pytest.mark.parametrize('argument', ['train=a.jsonl', 'test=a', 'reward=a.py:b'])
def test_the_config_for_ones_own_ignores_no_argument(argument):
    message = rf"\['{argument.partition('=')[0]}'\] are of records .* task=my.py:Mine"
    with pytest.raises(ValueError, match=message):
        config_file.load(f'custom:task=my.py:Mine,{argument}')


@pytest.mark.slow
def test_the_config_of_the_page_is_one(elsewhere):
    (block,) = (b for b in code_blocks('python') if 'def get_config' in b)
    (elsewhere / 'mine.py').write_text(block)
    ended = run(['passk', 'train', '--config=mine.py', '--config.seed=-1'], elsewhere)
    assert 'seed=-1 must' in ended.stderr, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (
            "raise KeyError('x')",
            'error: broken.py, line 6 (Broken.verdict) cannot judge an empty response '
            "to problem 0: broken.py, line 8: KeyError: 'x'",
        ),
        ('return None', 'error: broken.py, line 6 (Broken.verdict) returned None; it'),
    ],
)
def test_what_a_plug_in_does_wrong_in_a_run_is_one_line(content, message, elsewhere):
    lines = [
        'from passk_jax.tasks import Problem, Task, Verdict',
        'class Broken(Task):',
        "    splits, alphabet = ('train', 'test'), '0123456789'",
        '    def source(self, split, *, data_dir):',
        "        return [Problem(i, str(i), {}, 'a') for i in range(8)]",
        '    @staticmethod',
        '    def verdict(problem, response):',
        f'        {content}',
    ]
    (elsewhere / 'broken.py').write_text('\n'.join(lines))
    settings = [f'--config.{key}={value}' for key, value in SMALL.items()]
    settings += ['--config.eval.every=0', f'--workdir=runs/{len(content)}']
    command = ['passk', 'train', '--config=custom:task=broken.py:Broken', *settings]
    ended = run(command, elsewhere)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(message)
    assert 'Traceback' not in ended.stderr


@pytest.fixture(scope='module')
def loop():
    spec = importlib.util.spec_from_file_location('loop', EXAMPLES / 'loop.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_loop_needs_no_library_and_reads_in_one_go():
    text = (EXAMPLES / 'loop.py').read_text()
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 120
    assert not re.search(r'^\s*(from|import) passk_jax', text, re.MULTILINE)
    verbs = [text.index(f'\ndef {verb}(') for verb in ('sample', 'verify', 'estimate')]
    assert sorted(verbs) == verbs
    assert text.index('\ndef update(') > verbs[-1]


def test_the_verdicts_of_the_loop_are_those_of_the_library(loop):
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(300):
        maze, tokens = loop.make_maze(rng), rng.choice(5, loop.T, p=[0.2] * 5)
        assert [(maze == kind).sum() for kind in (loop.START, loop.END)] == [1, 1]
        problem = MazeTask.parse_problem(
            '\n'.join(''.join('.*SE'[cell] for cell in row) for row in maze)
        )
        text = ''.join('UDLR.'[token] for token in tokens).partition('.')
        expected = bool(text[1]) and MazeTask.verdict(problem, text[0]).correct
        verdicts.append(loop.verify(maze, tokens))
        assert verdicts[-1] == expected, (maze, text)
    assert any(verdicts)
    assert not all(verdicts)


def test_the_advantages_of_the_loop_are_those_of_the_library(loop):
    correct = np.arange(loop.N) < np.arange(loop.N + 1)[:, None]
    library = make_estimator('pass_at_k', num_rollouts=loop.N, k=loop.K)
    expected = library(correct * 1.0, correct)
    np.testing.assert_allclose(loop.estimate(correct), expected, atol=1e-6)


def test_the_log_probabilities_of_the_loop_are_those_of_its_samples(loop):
    """At the first update the ratio is 1, so the loss is the mean advantage."""
    rng = np.random.default_rng(0)
    mazes = np.stack([loop.make_maze(rng) for _ in range(32)])
    params = loop.init_policy(rng)
    tokens, log_probs = loop.sample(params, mazes, jax.random.key(0))
    assert log_probs.shape == tokens.shape == (32, loop.T)
    value = loop.loss(params, mazes, tokens, log_probs, np.ones(32))
    np.testing.assert_allclose(value, -1.0, rtol=1e-5)


@pytest.mark.slow
def test_the_loop_learns(loop, capsys):
    history = np.array(loop.train(steps=75))
    assert (history[-10:].mean(axis=0) > history[:10].mean(axis=0) + 0.1).all()
    assert 'step 50: Pass@1 0.' in capsys.readouterr().out
