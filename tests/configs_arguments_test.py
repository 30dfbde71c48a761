"""What follows the colon in ``--config=configs/enigmata.py:model=qwen25_7b``."""

import subprocess
import sys

import pytest

from configs import annealed_k, arguments, custom, enigmata, smollm2
from configs.ablations import (
    adaptive,
    combination,
    overview,
    pass_at_k_then_pass_at_1,
)
from passk_jax import config as config_lib
from passk_jax.config import stages_of
from passk_jax.errors import InputError
from tests import tiny


@pytest.mark.parametrize(
    ('argument', 'message'),
    [
        (
            '',
            r"argument model=… is missing; choose one of \['qwen25_7b', 'qwen25_32b'",
        ),
        ('model=qwen3', r"model='qwen3' must be one of \['qwen25_7b', 'qwen25_32b'"),
        ('size=7b', r"argument 'size=7b' must be key=value, key one of \['model'\]"),
        ('qwen25_7b', "argument 'qwen25_7b' must be key=value"),
        ('model=qwen25_7b,model=qwen25_7b', "argument 'model' is given twice"),
    ],
)
def test_a_wrong_or_missing_argument_names_the_choices(argument, message):
    with pytest.raises(InputError, match=message):
        enigmata.get_config(argument)


def test_a_missing_argument_is_an_error_of_the_command_line():
    done = subprocess.run(
        [
            *(sys.executable, '-m', 'passk_jax.plan'),
            *('--config=configs/math.py', '--topology=cpu:1'),
        ],
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "argument model=… is missing; choose one of ['llama32_3b'," in done.stderr
    assert 'Traceback' not in done.stderr


def test_arguments_have_the_types_of_their_defaults():
    defaults = {'fraction': 0.1, 'size': 'tiny', 'steps': 3, 'packed': False}
    choices = {'size': ('tiny', 'full')}
    assert arguments.parse('', defaults=defaults, choices=choices) == defaults
    text = 'fraction=1,packed=true,size=full,steps=5'
    values = arguments.parse(text, defaults=defaults, choices=choices)
    assert values == {'fraction': 1.0, 'size': 'full', 'steps': 5, 'packed': True}
    assert isinstance(values['fraction'], float)


@pytest.mark.parametrize(
    ('argument', 'message'),
    [
        ('steps=1.5', "steps='1.5' must be of type int"),
        ('packed=yes', "packed='yes' must be true or false"),
        ('size=huge', r"size='huge' must be one of \['tiny', 'full'\]"),
    ],
)
def test_a_value_of_another_type_is_refused(argument, message):
    defaults = {'steps': 3, 'packed': False, 'size': 'tiny'}
    with pytest.raises(InputError, match=message):
        arguments.parse(argument, defaults=defaults, choices={'size': ('tiny', 'full')})


@pytest.mark.parametrize(
    ('ablation', 'argument', 'message'),
    [
        (pass_at_k_then_pass_at_1, 'times=0', r'times=0 must lie in \[1, 150\]'),
        (pass_at_k_then_pass_at_1, 'times=151', r'times=151 must lie in \[1, 150\]'),
        (overview, 'first=-1', r'first=-1 must lie in \[1, 298\]'),
        (overview, 'first=299', r'first=299 must lie in \[1, 298\]'),
    ],
)
def test_every_part_of_a_run_has_a_step(ablation, argument, message):
    with pytest.raises(InputError, match=message):
        ablation.get_config(f'{argument},size=tiny')


@pytest.mark.parametrize(
    ('size', 'starts'),
    [('tiny', (100, 200)), ('smollm2', (33, 66)), ('full,first=200', (200, 475))],
)
def test_the_first_part_is_at_most_a_third(size, starts):
    stages = overview.get_config(f'size={size}').stages
    assert (stages.pass_at_k.start, stages.pass_at_1.start) == starts


@pytest.mark.parametrize('size', ['full', 'enigmata'])
def test_the_overview_has_the_steps_of_the_papers_figure(size):
    """Picture figures/overview.jpg of github.com/RUCAIBox/Passk_Training."""
    config = overview.get_config(f'size={size}')
    starts = config.stages.pass_at_k.start, config.stages.pass_at_1.start
    assert (*starts, config.train.steps) == (100, 370, 750)


@pytest.mark.parametrize('ablation', [adaptive, combination, overview])
def test_what_the_paper_ran_on_puzzles_runs_on_enigmata(ablation):
    config = ablation.get_config('size=enigmata')
    puzzles = enigmata.get_config('model=qwen25_7b')
    assert config.name.endswith('_enigmata')
    for section in ('task', 'model', 'data', 'sampling', 'mesh', 'eval'):
        assert config[section] == puzzles[section]


@pytest.mark.parametrize(('size', 'most'), [('tiny', 15), ('full', 31)])
def test_k_cannot_fall_from_one_or_from_all(size, most):
    for first in (1, most + 1):
        message = rf'first={first} must lie in \[2, {most}\]'
        with pytest.raises(InputError, match=message):
            annealed_k.get_config(f'first={first},size={size}')


@pytest.mark.parametrize(
    ('argument', 'ks'),
    [('', (8, 4, 2, 1)), ('first=6', (6, 3, 1)), ('size=full', (8, 4, 2, 1))],
)
def test_k_is_halved_in_stages_of_one_length(argument, ks):
    config = config_lib.from_config_dict(annealed_k.get_config(argument))
    assert config.name == 'annealed_k' + '_full' * ('full' in argument)
    stages = stages_of(config)
    assert [stage.config.advantage.k for stage in stages] == [*ks]
    assert {stage.config.advantage.name for stage in stages} == {'pass_at_k'}
    length = config.train.steps // len(ks)
    assert [stage.start for stage in stages] == [length * i for i in range(len(ks))]
    assert not any(stage.resets_optimizer for stage in stages)


def test_a_language_model_has_a_source_and_sets_to_be_evaluated_on():
    config = config_lib.from_config_dict(smollm2.get_config('source=there'))
    assert config.model.source == 'there'
    assert config.task.params['sets'] == smollm2.SETS
    other = smollm2.get_config('sets=out_of_domain').task.params
    assert other.sets.to_dict() == smollm2.OUT_OF_DOMAIN
    assert not smollm2.SETS.keys() & smollm2.OUT_OF_DOMAIN.keys()
    assert (other.train_count, other.test_count) == (0, 128)
    many = smollm2.get_config('sets=many')
    assert many.task.params.sets.to_dict() == smollm2.MANY
    assert smollm2.SETS.items() <= smollm2.MANY.items()
    chip = smollm2.get_config('source=there,on=chip')
    assert (chip.model.compute_dtype, chip.train.pack_sizes) == ('bfloat16', 0)
    wide = smollm2.get_config('sets=out_of_domain,on=chip').data
    assert chip.data.max_prompt_tokens < wide.max_prompt_tokens
    with pytest.raises(InputError, match=r"sets='all' must be one of \['trained', "):
        smollm2.get_config('sets=all')


def test_parameters_of_your_own_task_that_have_defaults_are_keys(tmp_path):
    file = tmp_path / 'own.py'
    file.write_text(f"""
import dataclasses
{(tiny.ROOT / 'examples' / 'my_puzzle.py').read_text()}
    @dataclasses.dataclass(frozen=True)
    class Params:
        must: int
        size: int = 5
        names: tuple[str, ...] = ('a', 'b')
        unlike: list[int] = dataclasses.field(default_factory=list)
""")
    params = custom.get_config(f'task={file}:Largest').task.params
    # Only those that a flag can set.
    assert params.to_dict() == {'size': 5, 'names': ('a', 'b')}
    none = custom.get_config(f'task={tiny.ROOT}/examples/my_puzzle.py:Largest')
    assert not none.task.params
