"""What a command hands on before the loop: model, data and the first policy."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import sampling
from passk_jax.config import LoraConfig
from passk_jax.data.batches import read_problems
from passk_jax.data.pictures import PictureReader
from passk_jax.initial import params as initial
from passk_jax.initial import warm_start
from passk_jax.models.lora import Lora, is_adapter
from passk_jax.models.transformer import Transformer
from passk_jax.sampling import Purpose
from passk_jax.setup import model
from passk_jax.tasks import make_task
from passk_jax.types import Problem, Turn
from tests import changed, tiny
from tests.models import oracle


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(changed.make_config())


def test_the_network_is_the_configured_one(setup):
    arch = setup.policy.arch
    assert {
        f: getattr(arch, f) for f in vars(setup.config.model.arch) if 'rope' not in f
    } == {
        'num_layers': 2,
        'embed_dim': 24,
        'num_heads': 6,
        'num_kv_heads': 3,
        'head_dim': 10,
        'mlp_dim': 40,
        'norm_eps': 1e-3,
        'tie_embeddings': False,
        'num_experts': 5,
        'experts_per_token': 3,
        'norm_topk_prob': True,
        'vision': None,
    }
    assert (arch.layers[0].rope.kind, arch.layers[0].rope.theta) == ('default', 500.0)
    assert (arch.param_dtype, arch.dtype, arch.remat) == (
        'bfloat16',
        'bfloat16',
        'full',
    )
    assert setup.policy.frozen == {'final_norm.scale'}
    assert setup.policy.frozen_dtype == 'float32'
    assert setup.policy.replay_routing
    assert setup.policy.quantizes_cache
    # Of qwen3_moe, and not of the qwen2 that tests/tiny.py has.
    assert (arch.qk_norm, arch.qkv_bias) == (True, False)
    assert setup.policy.head_chunk_tokens == 64


def test_the_adapters_are_the_configured_ones():
    lora = {'rank': 3, 'alpha': 7.0, 'targets': ('q_proj,o_proj', 'up_proj')}
    settings = {f'model__lora__{name}': value for name, value in lora.items()}
    policy = tiny.make_setup(tiny.make_config(**settings)).policy
    assert policy.arch.lora == Lora(3, 7.0, ('q_proj', 'o_proj', 'up_proj'))
    names = Transformer.parameters(policy.arch).keys()
    adapters = {name for name in names if is_adapter(name)}
    assert {name.split('.')[2] for name in adapters} == {'query', 'out', 'up'}
    # The whole base, and nothing else.
    assert policy.frozen == names - adapters


@pytest.mark.parametrize(
    ('family', 'settings', 'words'),
    [
        ('qwen2', {'train_vision': True}, r'train_vision=True has no effect'),
        ('qwen2', {'frozen_dtype': 'bfloat16'}, r"frozen_dtype='bfloat16' has no eff"),
        ('qwen3_vl', {'frozen_dtype': 'bfloat16', 'train_vision': True}, 'no effect'),
        ('qwen3_vl', {'frozen_dtype': 'bfloat16'}, None),
        ('qwen3_vl', {'train_vision': True, 'frozen': ('vision',)}, 'all of the tower'),
        ('qwen3_vl', {'train_vision': True, 'frozen': ('vision.blocks',)}, None),
    ],
)
def test_settings_of_parameters_that_there_are_not_are_refused(family, settings, words):
    config = dataclasses.replace(tiny.make_config().model, **settings)
    arch = oracle.family_arch(family)
    if words:
        with pytest.raises(ValueError, match=words):
            model.frozen_names(config, arch)
    else:
        assert model.frozen_names(config, arch)


def test_the_first_adapters_are_those_of_the_configured_source(tmp_path):
    setup = tiny.make_setup(tiny.make_config())
    model = dataclasses.replace(
        setup.config.model, lora=LoraConfig(2, 4.0, ('q_proj',), 'somewhere')
    )
    config = dataclasses.replace(setup.config, model=model, seed=29)
    setup = dataclasses.replace(setup, config=config)
    with mock.patch('passk_jax.setup.setup.initial_params', return_value={}):
        call = keywords(
            'passk_jax.setup.setup.add_adapters', lambda: setup.initial_params(tmp_path)
        )
    assert call.kwargs == {'source': 'somewhere', 'seed': 29}


def test_the_task_has_its_parameters(setup):
    expected = dict(setup.config.task.params)
    assert expected['seed'] == 5
    assert dataclasses.asdict(setup.task.params) == expected


def keywords(target, call):
    with mock.patch(target) as make:
        call()
    return make.call_args


def test_training_batches_get_their_settings(setup):
    call = keywords('passk_jax.setup.setup.make_batches', setup.train_batches)
    assert call.kwargs == {
        'num_prompts': 24,
        'seed': (17, 3 * 256 + Purpose.ROLLOUTS),
        'weights': None,
    }
    assert call.args == (setup.read_training(),)


def test_training_problems_are_read_once_by_their_settings(setup):
    setup.training.clear()
    read = mock.Mock(wraps=read_problems)
    with mock.patch('passk_jax.setup.setup.read_problems', read):
        tokenized = setup.train_batches().tokenized
        assert setup.at(0).read_training() is setup.read_training() is tokenized
        some = setup.demonstrations().batches().tokenized
        assert setup.demonstrations().batches().tokenized is some
    complete, subset = read.call_args_list
    assert (len(complete.args[0]), len(subset.args[0])) == (48, 20)
    for call in (complete, subset):
        assert call.kwargs == {
            'reader': PictureReader(),
            'max_prompt_tokens': 34,
            'overlong': 'drop',
        }
    message = r'^init\.warm_start\.num_problems=49 of the 48 problems there are$'
    with pytest.raises(ValueError, match=message):
        setup.read_training(49)
    # Other limits decide anew.
    limits = dataclasses.replace(setup.config.data, max_prompt_tokens=30)
    config = dataclasses.replace(setup.config, data=limits)
    assert dataclasses.replace(setup, config=config).read_training() is not tokenized


def test_evaluation_batches_get_their_settings(setup):
    call = keywords(
        'passk_jax.setup.setup.evaluation_batches',
        lambda: setup.evaluation_batches('validation'),
    )
    choose = call.kwargs.pop('batch_size')
    assert choose(setup.read_training()) == 2
    assert call.kwargs == {
        'num_problems': 5,
        'reader': PictureReader(),
        'max_prompt_tokens': 34,
        'overlong': 'drop',
    }
    assert len(call.args[0]) == 6


def test_demonstrations_get_their_settings(setup):
    call = keywords(
        'passk_jax.initial.warm_start.make_batches', setup.demonstrations().batches
    )
    assert call.kwargs == {
        'num_prompts': 12,
        'seed': (17, Purpose.WARM_START),
        'weights': None,
        'name': 'init.warm_start.batch_size',
    }
    assert call.args == (setup.read_training(20),)


def test_the_weights_of_a_mixture_reach_training_and_the_warm_start(setup):
    mazes = {'weight': 3, 'task': 'maze', 'params': setup.config.task.params}
    task = make_task('mixture', {'parts': {'mazes': mazes}})
    mixed = dataclasses.replace(setup, task=task, training={})
    for module, batches in (
        ('setup.setup', mixed.train_batches),
        ('initial.warm_start', mixed.demonstrations().batches),
    ):
        call = keywords(f'passk_jax.{module}.make_batches', batches)
        assert call.kwargs['weights'] == {'mazes': 3}


def test_prompts_and_demonstrations_have_examples_and_the_instruction(setup):
    problem = Problem(0, 'S.E', {}, '', (Turn('system', '**'), Turn('user', 'E')))
    # The run's replaces that of the problem's data.
    assert setup.tokenizer.decode(setup.encode(problem)) == 'UDSRES.E\n\nLL'
    for batches in (setup.train_batches(), setup.demonstrations().batches()):
        (problem, *_), prompts = batches[0]
        ids = prompts.tokens[0, : prompts.lengths[0]]
        expected = f'UDSR{problem.prompt.rstrip()}\n\nLL'
        assert setup.tokenizer.decode(ids) == expected


def test_a_demonstration_is_of_the_kind_and_the_seed(setup):
    demonstrations = setup.demonstrations()
    (problem, *_), _ = demonstrations.batches()[0]
    task = type(setup.task)
    with mock.patch.object(task, 'demonstration', return_value='UD') as demonstrate:
        tokens, lengths = demonstrations.tokens([problem])
    call = demonstrate.call_args
    assert call.kwargs['kind'] == 'ignore_walls'
    expected = np.random.default_rng((17, problem.id))
    assert call.kwargs['rng'].random() == expected.random()
    # Two moves and the stop token, in a row as long as a response may be.
    assert (tokens.shape, lengths.item()) == ((1, 1, 7), 3)
    assert tokens[0, 0, 2] == setup.stop_tokens[0]


def test_a_warm_start_has_an_optimizer_of_its_own(setup):
    config = setup.config.init.warm_start
    make = mock.patch(
        'passk_jax.learning.optimizer.make_optimizer', side_effect=KeyError
    )
    with make as constructor, pytest.raises(KeyError):
        warm_start.make_update(setup.policy, setup.mesh, config)
    constructor.assert_called_once_with(config.optimizer, num_updates=config.steps)
    assert config.optimizer != setup.config.optimizer


def test_a_warm_start_makes_so_many_steps_of_so_many_problems(setup):
    batches = []

    def update(state, rollouts, advantages, *, frozen):
        batches.append(rollouts.tokens.shape)
        return state, {'loss': 0.0}

    patched = mock.patch.object(
        warm_start, 'make_update', return_value=mock.Mock(side_effect=update)
    )
    state = mock.patch('passk_jax.learning.state.init_state')
    with patched, state, jax.set_mesh(setup.mesh):
        demonstrations = setup.demonstrations()
        warm_start.warm_start(
            setup.policy, {}, demonstrations, setup.mesh, stop=lambda: False
        )
    assert batches == [(12, 1, 7)] * 3


def first_params(tmp_path, **overrides):
    """Who was asked for the first parameters, and with what."""
    setup = tiny.make_setup(changed.make_config(**overrides))
    calls = mock.Mock()
    with (
        mock.patch.object(initial.weights, 'load_params', calls.load),
        mock.patch.object(initial.policies, 'init_params', calls.random),
        mock.patch.object(initial, 'warm_start', calls.warm_start),
        mock.patch.object(
            initial.checkpoints, 'restore_cached_params', return_value=None
        ),
        mock.patch.object(initial.checkpoints, 'save_cached_params'),
        mock.patch.object(initial.checkpoints, 'find_step', return_value=4),
        mock.patch.object(initial.checkpoints, 'restore_params', calls.restore),
    ):
        calls.restore.return_value = ({}, 4)
        setup.initial_params(tmp_path)
    return calls


def test_the_first_policy_is_of_the_kind_that_is_asked_for(tmp_path):
    calls = first_params(tmp_path, init__kind='scratch')
    assert [name for name, *_ in calls.mock_calls] == ['random']
    calls = first_params(tmp_path, init__kind='warm_start')
    assert [name for name, *_ in calls.mock_calls] == ['random', 'warm_start']
    calls = first_params(
        tmp_path, init__kind='checkpoint', init__checkpoint=str(tmp_path / 'other')
    )
    assert [name for name, *_ in calls.mock_calls] == ['restore']
    assert calls.restore.call_args.args[0] == tmp_path / 'other'
    assert calls.restore.call_args.kwargs == {'step': 4}


def test_random_parameters_are_of_the_seed(tmp_path):
    calls = first_params(tmp_path, init__kind='scratch')
    key = sampling.step_key(seed=17, purpose=Purpose.PARAMETERS, step=0)
    got = calls.random.call_args.args[1]
    assert (jax.random.key_data(got) == jax.random.key_data(key)).all()
