"""What the docstrings of configs and the pages say of experiments."""

import importlib
import re

import pytest
from absl import flags

from passk_jax.cli.flags import parse
from tests.configs_test import EXPERIMENTS, NAMES_ON_PAGES, ROOT


def test_every_kept_plan_has_a_command_and_a_title_that_agree():
    options = {experiment.option: name for name, experiment in EXPERIMENTS.items()}
    plans = sorted((ROOT / 'experiments' / 'plans').glob('*_v*.md'))
    assert plans
    for path in plans:
        text = path.read_text()
        (option,) = re.findall(r'python -m passk_jax.plan .*?--config=(\S+)', text)
        assert text.startswith(f'# {options[option]} on ')
        assert path.stem.startswith(options[option])


@pytest.mark.parametrize('name', NAMES_ON_PAGES)
def test_an_experiment_of_the_pages_states_its_command_and_where_its_result_is(name):
    docstring = EXPERIMENTS[name].docstring
    assert f'--config={EXPERIMENTS[name].option} ' in docstring
    assert 'experiments/README.md' in docstring


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_the_commands_of_a_docstring_are_complete(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = EXPERIMENTS[name].docstring.replace('\\\n', '')
    commands = re.findall(r'^ +python -m (passk_jax\.\w+) (.*)$', text, re.MULTILINE)
    assert commands or name not in NAMES_ON_PAGES
    for module, arguments in commands:
        main = importlib.import_module(module).main
        assert parse(main, [module, *arguments.split()], flags.FlagValues())


CITING = [
    path
    for folder in ('passk_jax', 'configs', 'experiments', 'docs')
    for path in sorted((ROOT / folder).rglob('*'))
    if path.suffix in {'.py', '.md'}
]
_LABEL = re.compile(r'\b(?:app|code|eq|fig|sec|tab):\w[\w.-]*\w')


def test_the_labels_that_are_cited_are_those_of_the_paper(shared_dir):
    paper = (shared_dir / 'paper.tex').read_text()
    labels = {*re.findall(r'\\label\{(.*?)\}', paper)}
    cited = set()
    for path in CITING:
        text = path.read_text()
        cited |= {*_LABEL.findall(text)}
        cited |= {f'eq:{name}' for name in re.findall(r'\bEqs?\. ([a-z]\w*)', text)}
    assert len(cited) > 50
    assert cited <= labels


def test_figures_and_tables_have_their_numbers_in_the_paper(shared_dir):
    paper = (shared_dir / 'paper.tex').read_text()
    numbers = {}
    for kind in ('figure', 'table'):
        floats = re.findall(rf'\\begin{{{kind}}}.*?\\end{{{kind}}}', paper, re.DOTALL)
        for number, text in enumerate(floats, start=1):
            # The last label is the float's, those before are of its parts.
            label = re.findall(r'\\label\{(.*?)\}', text)[-1]
            numbers[label] = f'{kind.capitalize()} {number}'
    for path in CITING:
        text = path.read_text()
        for number, label in re.findall(r'((?:Figure|Table) \d+), `(\S+?)`', text):
            assert numbers[label] == number, path
