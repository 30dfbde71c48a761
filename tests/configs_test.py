"""The shipped experiments: they load, they say what the paper says, and how to run.

Those too large for any machine of the tests are traced at full size, with their own
mesh: shapes and shardings of the whole train step, and no number.
"""

import dataclasses
import importlib
import json
import math
import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import AbstractMesh, AxisType
from ml_collections import ConfigDict

from configs import base, maze, maze_tiny
from passk_jax import config as config_lib
from passk_jax import sharding
from passk_jax.advantages.configured import configured_estimator
from passk_jax.config import NO_VISION, ExperimentConfig
from passk_jax.learning import optimizer as optimizers
from passk_jax.learning import state as states
from passk_jax.learning.update import Update
from passk_jax.models import decode_mesh
from passk_jax.models import policy as policies
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.setup import model as setup_model
from passk_jax.tasks import make_task
from passk_jax.types import Prompts, Rollouts
from tests.slow import slow_values

ROOT = pathlib.Path(__file__).resolve().parents[1]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A config file, or one row of a file whose argument chooses a model."""

    file: str
    argument: str
    docstring: str

    @property
    def option(self) -> str:
        """As ``--config`` takes it."""
        path = f'configs/{self.file}.py'
        return f'{path}:{self.argument}' if self.argument else path

    def get_config(self) -> ConfigDict:
        module = importlib.import_module(f'configs.{self.file}')
        return module.get_config(*filter(None, [self.argument]))


def experiments() -> dict[str, Experiment]:
    """The name that its config must have -> every experiment of ``configs/``."""
    by_name = {}
    for path in sorted((ROOT / 'configs').glob('*.py')):
        # The last names files of a user; tests/examples_test.py trains with it.
        if path.stem in ('__init__', 'base', 'arguments', 'custom'):
            continue
        module = importlib.import_module(f'configs.{path.stem}')
        if not hasattr(module, 'MODELS'):
            by_name[path.stem] = Experiment(path.stem, '', module.__doc__ or '')
            continue
        for name, model in module.MODELS.items():
            docstring = f'{module.__doc__}\n{model.__doc__}'
            by_name[f'{path.stem}_{name}'] = Experiment(
                path.stem, f'model={name}', docstring
            )
    return by_name


EXPERIMENTS = experiments()
# One of each kind of policy: of text, with experts, and with pictures.
TRACED = ('enigmata_qwen25_7b', 'experts_qwen3_30b_a3b', 'vision_qwen3_vl_2b')
# Those that a page names; others are somebody's own.
PAGES = [
    (ROOT / path).read_text()
    for path in ('README.md', 'docs/results.md', 'experiments/pages/costs.md')
]
NAMES_ON_PAGES = [
    name
    for name, experiment in EXPERIMENTS.items()
    if any(f'configs/{experiment.file}.py' in page for page in PAGES)
]

# Model and task of every row the paper trains, with its limits of prompt and response;
# those of Qwen2.5 are ours (see the configs). Not here: Seed1.5-VL-Small of table
# tab:main_seedvl, a vision model with experts whose weights are not published.
PAPER = {
    'maze': ('Qwen/Qwen2.5-7B-Instruct', 1024, 4096),
    'enigmata_qwen25_7b': ('Qwen/Qwen2.5-7B-Instruct', 4096, 4096),
    'enigmata_qwen25_32b': ('Qwen/Qwen2.5-32B-Instruct', 4096, 4096),
    'enigmata_llama32_3b': ('meta-llama/Llama-3.2-3B-Instruct', 4096, 4096),
    'enigmata_llama31_8b': ('meta-llama/Llama-3.1-8B-Instruct', 4096, 4096),
    'math_llama32_3b': ('meta-llama/Llama-3.2-3B-Instruct', 2048, 6144),
    'math_llama31_8b': ('meta-llama/Llama-3.1-8B-Instruct', 2048, 6144),
    'math_r1_distill_15b': ('deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B', 2048, 10_240),
    'math_r1_distill_7b': ('deepseek-ai/DeepSeek-R1-Distill-Qwen-7B', 2048, 10_240),
}


def load(name: str) -> ExperimentConfig:
    return config_lib.from_config_dict(EXPERIMENTS[name].get_config())


def source_directory(source: str, parent: pathlib.Path) -> str:
    """A directory with the published config.json and nothing else; ``''`` for none."""
    if not source:
        return ''
    (parent / 'config.json').write_text(json.dumps(dict(PUBLISHED[source])))
    return str(parent)


def planned_mesh(config: ExperimentConfig) -> AbstractMesh:
    """The config's mesh without its devices; what takes all devices is 1."""
    sizes = {axis: max(1, n) for axis, n in config.mesh.sizes.items()}
    assert tuple(sizes) == sharding.MESH_AXES
    auto = (AxisType.Auto,) * len(sizes)
    return AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=auto)


@pytest.mark.parametrize('name', NAMES_ON_PAGES)
def test_an_experiment_is_named_after_its_file_and_row(name):
    assert load(name).name == name


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_every_value_of_an_experiment_reaches_the_program(name):
    """That the program reads every one of them is for tests/layers_test.py."""
    values = EXPERIMENTS[name].get_config().to_dict()
    assert config_lib.to_dict(load(name)) == values


@pytest.mark.parametrize('name', EXPERIMENTS)
def test_an_experiment_names_what_exists(name):
    config = load(name)
    assert config.model.family in FAMILIES or config.model.source in PUBLISHED
    num_rollouts = config.sampling.num_rollouts
    configured_estimator(config.advantage, num_rollouts=num_rollouts)
    task = make_task(config.task.name, config.task.params)
    assert {config.eval.split, config.eval.final_split} <= {*task.splits, ''}


def test_every_model_row_of_the_paper_has_a_config_that_a_page_names():
    assert PAPER.keys() <= {*NAMES_ON_PAGES}


@pytest.mark.parametrize('name', PAPER)
def test_model_limits_and_batches_are_the_papers(name):
    """Appendices sec:implementation_details and sec:app_exp."""
    config = load(name)
    limits = (config.data.max_prompt_tokens, config.sampling.max_response_tokens)
    assert (config.model.source, *limits) == PAPER[name]
    assert (config.init.kind, config.model.tokenizer) == ('hf', 'source')
    batches = (config.train.num_prompts, config.train.mini_batch_prompts)
    assert (*batches, config.sampling.num_rollouts) == (128, 32, 32)
    assert config.eval.num_responses == (32 if config.task.name == 'maze' else 8)
    assert (config.eval.temperature, config.eval.top_p) == (1.0, 0.95)
    assert config.optimizer.learning_rate == 1e-6
    assert config.advantage.name == 'pass_at_k'


@pytest.mark.parametrize('name', slow_values(EXPERIMENTS, quick=TRACED))
def test_the_full_size_train_step_traces_on_the_planned_mesh(name, tmp_path):
    config = load(name)
    source = source_directory(config.model.source, tmp_path)
    model = dataclasses.replace(config.model, source=source)
    setup_model.check_positions(model, config.data, config.sampling)
    arch = setup_model.architecture(model, vocab_size=12, platform='cpu')
    policy = policies.Policy(arch, head_chunk_tokens=model.head_chunk_tokens)
    mesh, optimizer = planned_mesh(config), optimizers.make_optimizer(config.optimizer)
    state = states.state_shapes(policy, optimizer, mesh)
    P, N = config.train.num_prompts, config.sampling.num_rollouts
    sections = {name: getattr(config, name) for name in ('train', 'loss', 'sampling')}
    update = Update.configured(policy, optimizer, mesh, **sections)
    advantages = jax.ShapeDtypeStruct((P, N), jnp.float32)
    batch = rollouts(config), advantages, None
    with jax.sharding.use_abstract_mesh(mesh):
        after, metrics = update.program.eval_shape(state, *batch)
    kinds = [jax.tree.map(lambda x: (x.shape, x.dtype), x) for x in (state, after)]
    assert kinds[0] == kinds[1]
    assert metrics['loss'].shape == ()
    assert metrics['problem_loss'].shape == (1, P)
    # A device's share of the masters, of the optimizer's two moments and nothing else.
    num_parameters = sum(x.size for x in state.params.values())
    share = sum(
        math.prod(x.sharding.shard_shape(x.shape)) for x in jax.tree.leaves(state)
    )
    # The other axes share the batch, and hold the same masters.
    shards = mesh.shape['fsdp'] * mesh.shape['tensor']
    assert share < 1.01 * 3 * num_parameters / shards + 2**16


def rollouts(config: ExperimentConfig) -> Rollouts:
    """Shapes of a step's rollouts at the limits."""
    P, N = config.train.num_prompts, config.sampling.num_rollouts
    S, T = config.data.max_prompt_tokens, config.sampling.max_response_tokens

    def shape(*sizes: int, dtype: type = jnp.int32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, dtype)

    by_token = shape(P, N, T, dtype=jnp.float32)
    return Rollouts(
        prompts=Prompts(shape(P, S), shape(P), shape(P)),
        tokens=shape(P, N, T),
        lengths=shape(P, N),
        stopped=shape(P, N, dtype=jnp.bool),
        sampler_log_probs=by_token,
        untruncated_log_probs=by_token,
        entropies=by_token,
    )


PLANNED = [name for name in EXPERIMENTS if -1 not in vars(load(name).mesh).values()]


@pytest.mark.parametrize('name', PLANNED)
def test_a_planned_mesh_is_the_one_of_the_docstring_and_divides_everything(
    name, tmp_path
):
    config = load(name)
    mesh = planned_mesh(config)
    # The row's own part: the file's docstring has a command too.
    _, is_planned, docstring = EXPERIMENTS[name].docstring.partition('Planned for')
    assert is_planned or name not in NAMES_ON_PAGES
    if is_planned:
        (topology,) = re.findall(r'--topology=v5p:([\dx]+)', docstring)
        assert f'--config={EXPERIMENTS[name].option} ' in docstring
        assert math.prod(map(int, topology.split('x'))) == mesh.size
        assert docstring.startswith(f' {mesh.size} chips, ')
        assert 'HBM per chip: ' in docstring

    source = source_directory(config.model.source, tmp_path)
    model = dataclasses.replace(config.model, source=source)
    arch = setup_model.architecture(model, vocab_size=0, platform='cpu')
    sizes = {
        'batch': (
            config.train.num_prompts,
            config.train.micro_batch_prompts,
            config.eval.batch_size,
        ),
        'rollouts': (config.sampling.num_rollouts, config.eval.num_responses),
        'prompt_tokens': (config.data.max_prompt_tokens,),
        'prompt_residual': (config.data.max_prompt_tokens,),
        'response_residual': (config.sampling.max_response_tokens,),
        'embed': (arch.embed_dim,),
        'vocab': (arch.vocab_size,),
        'heads': (arch.num_heads,),
        'kv_heads': (arch.num_kv_heads,),
        'mlp': (arch.mlp_dim,),
    }
    # It raises an error if there is none.
    heads = arch.num_kv_heads
    decode_mesh.make(mesh, config.mesh.decode_tensor, num_kv_heads=heads)
    # None of these models has experts.
    assert sizes.keys() | {'experts'} == sharding.RULES.keys()
    for axis, axis_sizes in sizes.items():
        shares = math.prod(mesh.shape[name] for name in sharding.RULES[axis])
        assert not any(size % shares for size in axis_sizes), (axis, axis_sizes, shares)


def test_experiments_load_by_their_paths_from_the_root():
    code = (
        'import sys\n'
        'from absl import flags\n'
        'from ml_collections import config_flags\n'
        'for option in sys.argv[1:]:\n'
        '    values = flags.FlagValues()\n'
        "    config_flags.DEFINE_config_file('config', flag_values=values)\n"
        "    sys.argv = ['', f'--config={option}', '--config.advantage.k=8']\n"
        '    values(sys.argv)\n'
        '    print(values.config.name, values.config.advantage.k)\n'
    )
    options = [experiment.option for experiment in EXPERIMENTS.values()]
    command = [sys.executable, '-c', code, *options]
    read = subprocess.check_output(command, cwd=ROOT, text=True)
    assert read.splitlines() == [f'{load(name).name} 8' for name in EXPERIMENTS]


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
    """Table tab:maze_data."""
    params = config_lib.from_config_dict(maze.get_config()).task.params
    train = dict(zip(params['train_sizes'], params['train_counts'], strict=True))
    test = dict(zip(params['test_sizes'], params['test_counts'], strict=True))
    assert train == dict.fromkeys((9, 11, 13, 15), 10_000)
    assert test == {7: 75} | dict.fromkeys(range(9, 22, 2), 100)


def test_maze_tiny_holds_its_longest_prompt_and_answer():
    config = config_lib.from_config_dict(maze_tiny.get_config())
    task = make_task(config.task.name, config.task.params)
    (size,) = config.task.params['train_sizes']
    rows = ['S' + '.' * (size - 2) + 'E', *['.' * size] * (size - 1)]
    problem = task.parse_problem('\n'.join(rows))
    assert config.data.max_prompt_tokens >= len(problem.prompt)
    task.check_answerable(config.sampling.max_response_tokens)


@pytest.mark.parametrize('name', ['puzzles_tiny', 'mixture_tiny'])
def test_small_puzzles_hold_their_prompts_and_answers(name, tmp_path):
    config = load(name)
    task = make_task(config.task.name, config.task.params)
    problems = task.source('test', data_dir=str(tmp_path))
    longest = max(len(problem.prompt) for problem in problems)
    assert longest <= config.data.max_prompt_tokens <= longest + 4
    rng = np.random.default_rng(0)
    answers = [task.demonstration(p, kind='solution', rng=rng) for p in problems]
    # And a stop token.
    assert max(map(len, answers)) < config.sampling.max_response_tokens


def test_of_the_mixture_the_weights_are_those_of_its_docstring():
    params = {name: load(name).task.params for name in ('mixture', 'mixture_tiny')}
    weights = {
        name: {part: fields['weight'] for part, fields in of_one['parts'].items()}
        for name, of_one in params.items()
    }
    puzzles = {'puzzles_easy': 1, 'puzzles_medium': 3, 'puzzles_hard': 2}
    assert weights == {
        'mixture': {'mazes': 2} | puzzles,
        'mixture_tiny': {'mazes': 2, 'sudoku2': 1, 'eight_puzzle': 1},
    }
    for part in puzzles:
        of_part = params['mixture']['parts'][part]['params']
        assert of_part['levels'] == (part.removeprefix('puzzles_'),)


def test_the_testbed_has_the_shape_of_its_source():
    """Of arXiv 2602.02710: its public script and the configuration of its policy."""
    config = load('maze17')
    assert dataclasses.asdict(config.model.arch) == {
        'num_layers': 4,
        'embed_dim': 256,
        'num_heads': 4,
        'num_kv_heads': 2,
        'head_dim': 64,
        'mlp_dim': 1024,
        'rope_theta': 1_000_000.0,
        'norm_eps': 1e-6,
        'tie_embeddings': True,
        'num_experts': 0,
        'experts_per_token': 0,
        'norm_topk_prob': False,
        'vision': NO_VISION,
    }
    assert config.model.family == 'qwen2'
    assert config.task.params['train_sizes'] == (17,)
    assert config.data.max_prompt_tokens <= 320
    assert config.sampling.max_response_tokens == 180
    assert config.sampling.num_rollouts == 128
    assert (config.train.num_prompts, config.train.mini_batch_prompts) == (256, 256)
    assert (config.train.epochs, config.optimizer.learning_rate) == (1, 1e-4)
    assert config.loss.kl_coef == 0
    assert config.eval.temperature == 1.0
