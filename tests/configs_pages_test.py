"""What the docstrings of configs and the pages say of experiments."""

import importlib
import re

import pytest
from absl import flags

from passk_jax.cli.flags import parse
from tests.configs_test import EXPERIMENTS, NAMED, ROOT


def test_every_kept_plan_has_a_command_and_a_title_that_agree():
    options = {each.option: name for name, each in EXPERIMENTS.items()}
    plans = sorted((ROOT / 'experiments' / 'plans').glob('*_v*.md'))
    assert plans
    for path in plans:
        text = path.read_text()
        (option,) = re.findall(r'python -m passk_jax.plan .*?--config=(\S+)', text)
        assert text.startswith(f'# {options[option]} on ')
        assert path.stem.startswith(options[option])


@pytest.mark.parametrize('name', NAMED)
def test_an_experiment_of_the_pages_states_its_command_and_where_its_result_is(name):
    docstring = EXPERIMENTS[name].docstring
    assert f'--config={EXPERIMENTS[name].option} ' in docstring
    assert 'experiments/README.md' in docstring


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_the_commands_of_a_docstring_are_complete(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = EXPERIMENTS[name].docstring.replace('\\\n', '')
    commands = re.findall(r'^ +python -m (passk_jax\.\w+) (.*)$', text, re.MULTILINE)
    assert commands or name not in NAMED
    for module, arguments in commands:
        main = importlib.import_module(module).main
        assert parse(main, [module, *arguments.split()], flags.FlagValues())


def test_the_sections_that_configs_cite_are_those_of_the_paper(shared_dir):
    paper = (shared_dir / 'paper.tex').read_text()
    sections = set(re.findall(r'\\label\{(sec:\w+)\}', paper))
    assert len(sections) > 9
    cited = {
        section
        for path in (ROOT / 'configs').rglob('*.py')
        for section in re.findall(r'``(sec:\w+)``', path.read_text())
    }
    assert len(cited) > 9
    assert cited <= sections
