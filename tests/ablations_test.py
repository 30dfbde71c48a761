"""The ablations that README and their files list: every run is one that would start."""

import re

import pytest
from absl import flags

from configs.ablations.sizes import SIZES
from passk_jax import train
from passk_jax.cli.flags import parse
from passk_jax.config import ExperimentConfig, stages_of
from passk_jax.setup.checks import check_names, check_signal
from tests.readme_test import ABLATIONS, ROOT, ablations, arguments_of

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
