"""The shipped experiments: they load, they say what the paper says, and how to run."""

import importlib
import pathlib
import subprocess
import sys

import pytest

from configs import base, maze, maze_tiny
from passk_jax import config as config_lib
from passk_jax.advantages import estimator_parameters
from passk_jax.models.policy import FAMILIES
from passk_jax.tasks import make_task

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXPERIMENTS = sorted(
    path.stem
    for path in (ROOT / 'configs').glob('*.py')
    if path.stem not in ('__init__', 'base')
)


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_an_experiment_is_valid_and_named_after_its_file(name):
    module = importlib.import_module(f'configs.{name}')
    assert config_lib.from_config_dict(module.get_config()).name == name


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_an_experiment_names_what_exists(name):
    module = importlib.import_module(f'configs.{name}')
    config = config_lib.from_config_dict(module.get_config())
    assert config.model.family in FAMILIES
    task = make_task(config.task.name, config.task.params)
    assert {config.eval.split, config.eval.final_split} <= {*task.splits, ''}
    parameters = estimator_parameters(config.advantage.name)
    assert all(hasattr(config.advantage, parameter) for parameter in parameters)


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_an_experiment_states_section_command_and_result(name):
    docstring = importlib.import_module(f'configs.{name}').__doc__
    assert '``sec:' in docstring
    assert f'--config=configs/{name}.py' in docstring
    assert 'see experiments/README.md' in docstring


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_an_experiment_loads_by_its_path_from_the_root(name):
    code = (
        'import sys\n'
        'from absl import flags\n'
        'from ml_collections import config_flags\n'
        "config_flags.DEFINE_config_file('config')\n"
        'flags.FLAGS(sys.argv)\n'
        'print(flags.FLAGS.config.name, flags.FLAGS.config.advantage.k)\n'
    )
    arguments = [f'--config=configs/{name}.py', '--config.advantage.k=8']
    result = subprocess.run(
        [sys.executable, '-c', code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == [name, '8']


def test_two_configs_share_nothing():
    first, second = maze_tiny.get_config(), maze_tiny.get_config()
    first.task.params.seed = 5
    first.model.arch.num_layers = 7
    assert second.task.params.seed == 0
    assert second.model.arch.num_layers == 3


def test_a_new_key_is_refused_where_it_is_set():
    config = base.get_config()
    with pytest.raises(AttributeError):
        config.sampling.temprature = 0.5


def test_base_alone_is_refused():
    with pytest.raises(ValueError, match="name='' must not be empty"):
        config_lib.from_config_dict(base.get_config())


def test_defaults_are_those_of_the_appendix():
    """Appendix sec:implementation_details, number by number."""
    config = base.get_config()
    assert config.optimizer.learning_rate == 1e-6
    assert config.optimizer.warmup_updates == 10
    assert config.train.num_prompts == 128
    assert config.train.mini_batch_prompts == 32
    assert config.sampling.num_rollouts == 32
    assert (config.loss.clip_low, config.loss.clip_high) == (0.2, 0.28)
    assert config.loss.aggregation == 'token'
    assert (config.loss.kl_coef, config.loss.entropy_coef) == (0.0, 0.0)
    assert config.sampling.temperature == 1.0
    assert (config.eval.temperature, config.eval.top_p) == (1.0, 0.95)
    assert config.eval.num_responses == 8
    assert config.advantage.name == 'pass_at_k'
    assert config.advantage.high_entropy_fraction == 0.5


def test_maze_is_the_papers():
    """Table tab:maze_data and appendix sec:implementation_details."""
    config = config_lib.from_config_dict(maze.get_config())
    params = config.task.params
    train = dict(zip(params['train_sizes'], params['train_counts'], strict=True))
    test = dict(zip(params['test_sizes'], params['test_counts'], strict=True))
    assert train == dict.fromkeys((9, 11, 13, 15), 10_000)
    assert test == {7: 75} | dict.fromkeys(range(9, 22, 2), 100)
    assert config.model.source == 'Qwen/Qwen2.5-7B-Instruct'
    assert config.init.kind == 'hf'
    assert config.eval.num_responses == 32
    assert config.train.num_prompts // config.train.mini_batch_prompts == 4


def test_maze_tiny_holds_its_longest_prompt_and_answer():
    config = config_lib.from_config_dict(maze_tiny.get_config())
    task = make_task(config.task.name, config.task.params)
    (size,) = config.task.params['train_sizes']
    rows = ['S' + '.' * (size - 2) + 'E', *['.' * size] * (size - 1)]
    problem = task.parse_problem('\n'.join(rows))
    assert config.data.max_prompt_tokens >= len(problem.prompt)
    task.check_answerable(config.sampling.max_response_tokens)
