"""The ablations that README and their files list: every run is one that would start."""

import importlib
import re

import pytest
from absl import flags

from configs.ablations.sizes import SIZES
from passk_jax import train
from passk_jax.cli.flags import parse
from passk_jax.config import ExperimentConfig, stages_of
from passk_jax.setup.checks import check_names, check_signal
from tests.readme_test import ROOT, ablations, arguments_of, flat

ABLATIONS = ROOT / 'configs' / 'ablations'

LISTED = [
    (where.strip('`'), argument)
    for where, changes in ablations().values()
    if 'ablations' in where
    for argument in arguments_of(changes)
]
COMMANDS = [
    option
    for path in (*ABLATIONS.glob('*.py'), ROOT / 'configs' / 'annealed_k.py')
    for option in re.findall(
        r'--config=(configs/\S+)', path.read_text().replace('\\\\\n', '')
    )
]


def start(option: str) -> ExperimentConfig:
    """What ``train`` does with the configuration before it makes a directory."""
    config = parse(train.main, ['train', f'--config={option}'], flags.FlagValues())
    check_names(config['config'])
    for stage in stages_of(config['config']):
        check_signal(stage)
    return config['config']


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize(('path', 'argument'), LISTED)
def test_an_ablation_of_the_readme_would_start(path, argument, size, monkeypatch):
    monkeypatch.chdir(ROOT)
    start(f'{path}:{",".join(filter(None, [argument, f"size={size}"]))}')


@pytest.mark.parametrize('option', COMMANDS)
def test_a_command_of_a_docstring_would_start(option, monkeypatch):
    monkeypatch.chdir(ROOT)
    start(option)


@pytest.mark.parametrize(
    'name', sorted({path.stem for path in ABLATIONS.glob('[a-z]*.py')} - {'sizes'})
)
def test_every_file_of_the_folder_would_start(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    start(f'configs/ablations/{name}.py')


# Other files of the folder are somebody's own.
OF_THE_PAPER = [
    path
    for path in sorted(ABLATIONS.glob('[a-z]*.py'))
    if 'Paper: ' in path.read_text()
]


def test_every_ablation_of_the_paper_is_a_row():
    configs = {where for where, _ in ablations().values() if 'ablations' in where}
    assert {f'`{path.relative_to(ROOT)}`' for path in OF_THE_PAPER} == configs


@pytest.mark.parametrize('path', OF_THE_PAPER, ids=lambda path: path.stem)
def test_an_ablation_of_the_paper_says_what_is_expected_and_its_commands_resolve(path):
    text = path.read_text().replace('\\\\\n', '')
    assert 'Expected: ' in text
    commands = re.findall(r'--config=(configs/ablations/\S+\.py)(?::(\S+))?', text)
    assert commands
    for file, argument in commands:
        assert ROOT / file == path
        module = importlib.import_module(f'configs.ablations.{path.stem}')
        values = module.get_config(argument)
        name = [path.stem, *re.findall(r'=([^,]+)', argument)]
        assert flat(values)['name'] == '_'.join(name)


def test_full_sampling_has_the_groups_of_bootstrap_sampling_at_four_times_the_rollouts(
    monkeypatch,
):
    """The paper's k follows from this: sec:passk_w_bootstrap_sampling."""
    monkeypatch.chdir(ROOT)
    full = start('configs/ablations/full_sampling.py:num_rollouts=128')
    bootstrap = start('configs/ablations/bootstrap_sampling.py')
    rollouts = bootstrap.sampling.num_rollouts
    assert full.sampling.num_rollouts == 4 * rollouts
    drawn = bootstrap.advantage.parameters['num_groups'] or rollouts
    assert full.sampling.num_rollouts // full.advantage.k == drawn
