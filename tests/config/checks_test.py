"""Every kind of bad configuration ends in a ValueError that says what and where."""

import copy
import dataclasses
from typing import Any

import pytest

from configs import maze, maze_tiny
from passk_jax import config as config_lib
from passk_jax.config import checks


def check(overrides: dict[str, Any], experiment: Any = maze_tiny) -> Any:
    """Reads an experiment in which these dotted keys have other values."""
    values = copy.deepcopy(experiment.get_config().to_dict())
    for path, value in overrides.items():
        *sections, name = path.split('.')
        section = values
        for key in sections:
            section = section[key]
        section[name] = value
    return config_lib.from_json_dict(values)


def leaf_paths(cls: type, prefix: str = '') -> list[tuple[str, type]]:
    paths = []
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(field.type):
            paths += leaf_paths(field.type, f'{prefix}{field.name}.')
        elif not field.metadata.get('other_keys'):
            paths.append((prefix + field.name, field.type))
    return paths


LEAVES = leaf_paths(config_lib.ExperimentConfig)
SCALARS = [(path, kind) for path, kind in LEAVES if kind in (bool, int, float, str)]


# A problem has one response, and no group.
ONE_ROLLOUT = {'train.pack_sizes': 0, 'sampling.num_rollouts': 1, 'advantage.k': 1}


def test_there_is_a_scalar_of_each_type():
    assert {kind for _, kind in SCALARS} == {bool, int, float, str}
    assert len(SCALARS) > 60


@pytest.mark.parametrize(('path', 'kind'), SCALARS)
def test_a_value_of_another_type_is_refused(path, kind):
    wrong = {bool: 1, int: True, float: True, str: 1}[kind]
    with pytest.raises(ValueError, match=f'^{path}=.* must be of type'):
        check({path: wrong})
    with pytest.raises(ValueError, match=f'^{path}=None must be of type'):
        check({path: None})


@pytest.mark.parametrize('path', [path for path, kind in SCALARS if kind is float])
@pytest.mark.parametrize('value', [float('nan'), float('inf'), -float('inf')])
def test_a_float_must_be_finite(path, value):
    with pytest.raises(ValueError, match=f'^{path}=.* must be finite'):
        check({path: value})


def test_an_int_beyond_floats_is_no_float():
    with pytest.raises(ValueError, match='must be finite'):
        check({'optimizer.eps': 10**400})


def test_a_float_is_no_int():
    with pytest.raises(ValueError, match=r'train.steps=3.0 must be of type int'):
        check({'train.steps': 3.0})


@pytest.mark.parametrize(
    ('key', 'hint'),
    [
        ('sampling.temprature', 'did you mean sampling.temperature?'),
        ('model.arch.num_layer', 'did you mean model.arch.num_layers?'),
        ('sampling.mini_batch_prompts', 'did you mean train.mini_batch_prompts?'),
        ('loss.zzz', "have ['loss.clip_low', 'loss.clip_high'"),
        ('sead', 'did you mean seed?'),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest(key, hint):
    with pytest.raises(ValueError, match=f'unknown key {key}; ') as error:
        check({key: 1})
    assert hint in str(error.value)


@pytest.mark.parametrize('path', [path for path, _ in LEAVES])
def test_a_missing_key_is_named(path):
    values = maze_tiny.get_config().to_dict()
    *sections, name = path.split('.')
    section = values
    for key in sections:
        section = section[key]
    del section[name]
    with pytest.raises(ValueError, match='missing keys') as error:
        config_lib.from_json_dict(values)
    assert repr(path) in str(error.value)


def test_a_section_must_be_a_section():
    with pytest.raises(ValueError, match=r'sampling=3 must be a section with the keys'):
        check({'sampling': 3})
    with pytest.raises(ValueError, match=r'task.params=3 must be a section'):
        check({'task.params': 3})


@pytest.mark.parametrize(
    'value', [None, (1, None), (1, (float('nan'),)), float('inf'), {'a': None}, {1}]
)
def test_a_task_parameter_is_plain(value):
    with pytest.raises(ValueError, match=r'^task.params.seed[^=]*='):
        check({'task.params.seed': value})


@dataclasses.dataclass(frozen=True)
class Params:
    """As a task has them."""

    sizes: tuple[int, ...]
    names: tuple[str, ...]


def test_a_field_may_be_a_tuple_of_one_type():
    built = checks.build(Params, {'sizes': [3, 5], 'names': ()}, path='task.params')
    assert built == Params((3, 5), ())
    for values, message in (
        ({'sizes': 3, 'names': ()}, r'^task\.params\.sizes=3 must be a tuple$'),
        ({'sizes': '35', 'names': ()}, r"sizes='35' must be a tuple"),
        ({'sizes': (3, True), 'names': ()}, r'sizes\[1\]=True must be of type int'),
        ({'sizes': (), 'names': ('a', 1)}, r'names\[1\]=1 must be of type str'),
        ({'sizes': (), 'nmes': ()}, r'task\.params\.nmes; .* task\.params\.names'),
    ):
        with pytest.raises(ValueError, match=message):
            checks.build(Params, values, path='task.params')


def test_every_other_key_of_the_advantage_is_a_parameter():
    advantage = check({'advantage.size': 3}).advantage
    assert advantage.parameters['size'] == 3
    assert not {'name', 'k', 'parameters'} & advantage.parameters.keys()
    for value in (None, float('nan')):
        with pytest.raises(ValueError, match=r'^advantage.size[^=]*='):
            check({'advantage.size': value})


def test_a_list_is_refused_in_a_config_file():
    config = maze_tiny.get_config()
    config.task.params = {'train_sizes': [5]}
    with pytest.raises(ValueError, match=r'task.params.train_sizes=\[5\] must be'):
        config_lib.from_config_dict(config)


@pytest.mark.parametrize(
    ('overrides', 'message'),
    [
        ({'name': ''}, "name='' must not be empty"),
        ({'model.family': ''}, "model.family='' needs a model.source"),
        ({'model.remat': 'some'}, "model.remat='some' must be one of .*'attention'"),
        ({'model.attention': 'flash'}, "'flash' must be one of .*'splash'"),
        ({'mesh.rollout': 0}, "'rollout': 0.* must be positive"),
        ({'seed': -1}, 'seed=-1 must lie in'),
        ({'seed': 2**32}, 'seed=4294967296 must lie in'),
        ({'train.steps': 0}, r'train.steps=0 must lie in \[1, 10000000\]'),
        ({'sampling.temperature': 0.0}, 'sampling.temperature=0.0 .* are all equal'),
        ({'sampling.top_k': 1}, 'sampling.top_k=1 .* are all equal'),
        ({'sampling.min_p': 1.0}, 'sampling.min_p=1.0 .* are all equal'),
        ({'sampling.top_p': 0.0}, 'sampling.top_p=0.0 must lie in'),
        ({'sampling.top_p': 1.1}, 'sampling.top_p=1.1 must lie in'),
        ({'eval.top_p': 1e-30}, 'eval.top_p=1e-30 must lie in'),
        ({'optimizer.eps': 1e-50}, 'optimizer.eps=1e-50 is 0 in float32'),
        ({'optimizer.b2': 1 - 1e-10}, 'optimizer.b2=0.9999999999 is 1 in float32'),
        ({'optimizer.learning_rate': 1e300}, '=1e\\+300 is infinite in float32'),
        ({'model.arch.norm_eps': 1e-50}, 'model.arch.norm_eps=1e-50 is 0 in float32'),
        ({'optimizer.warmup_updates': 2**31}, 'warmup_updates=2147483648 must lie in'),
        ({'init.warm_start.optimizer.warmup_updates': 10**30}, 'must fit in 64 bits'),
        ({'eval.bootstrap_samples': 10**12}, 'bootstrap_samples=1000000000000 must'),
        ({'log.difficulty_bins': 4}, 'bins=4 are of a diagnosis: set log.diagnost'),
        ({'log.diagnostics_every': -1}, 'diagnostics_every=-1 must lie in'),
        (
            {
                'log.diagnostics_every': 2,
                'train.mini_batch_prompts': 32,
                'train.micro_batch_prompts': 32,
            },
            'every=2 compares .* train.micro_batch_prompts=32 makes one',
        ),
        ({'log.rollouts_every': 2**63}, 'rollouts_every=9223372036854775808 must fit'),
        ({'sampling.top_k': -1}, 'sampling.top_k=-1 must lie in'),
        (
            {'eval.temperature': -0.1},
            'eval.temperature=-0.1 must be 0',
        ),
        ({'eval.num_problems': -1}, 'eval.num_problems=-1 must lie in'),
        ({'eval.batch_size': -1}, 'eval.batch_size=-1 must lie in'),
        ({'optimizer.learning_rate': 0.0}, 'optimizer.learning_rate=0.0 must be pos'),
        ({'optimizer.b2': 1.0}, 'optimizer.b2=1.0 must lie in'),
        ({'loss.clip_low': 1.5}, 'loss.clip_low=1.5 must lie in'),
        ({'loss.clip_high': 0.0}, 'loss.clip_high=0.0 must be positive'),
        ({'loss.kl_coef': -1.0}, 'loss.kl_coef=-1.0 must not be negative'),
        (
            {'loss.sampler_weight_cap': 0.5},
            'sampler_weight_cap=0.5 must be 0 .* or at least',
        ),
        (
            {'sampling.cache_dtype': 'int4'},
            r"sampling.cache_dtype='int4' must be one of \('', 'int8'\)",
        ),
        ({'train.pack_sizes': -1}, 'train.pack_sizes=-1 must lie in'),
        ({'train.pack_sizes': 1}, 'train.pack_sizes=1 would pack nothing'),
        (
            {'train.pack_sizes': 2, 'train.packing': 'rows'},
            "pack_sizes=2 needs train.packing='prompts'",
        ),
        (
            {'train.pack_sizes': 4, 'mesh.rollout': 16},
            'pack_sizes=4 would .* mesh.rollout=16 and sampling.num_rollouts .* = 16 ',
        ),
        (
            {'train.pack_sizes': 4, 'train.micro_batch_rollouts': 1},
            'pack_sizes=4 would pack nothing: .* = 1 a device has one',
        ),
        (
            ONE_ROLLOUT | {'train.pack_sizes': 4, 'mesh.fsdp': 1, 'mesh.rollout': -1},
            'pack_sizes=4 would pack nothing: .* sampling.num_rollouts .* = 1 ',
        ),
        ({'train.dynamic_sampling_rounds': -1}, 'rounds=-1 must lie in'),
        ({'train.follow_difficulty': 1.0}, r'difficulty=1\.0 must lie in \[0, 1\)'),
        ({'reward.flip_wrong': 1.1}, r'reward.flip_wrong=1.1 must lie in \[0, 1\]'),
        ({'loss.aggregation': 'mean'}, "loss.aggregation='mean' must be one of"),
        ({'loss.kl_estimator': 'k4'}, "loss.kl_estimator='k4' must be one of"),
        ({'data.overlong': 'cut'}, "data.overlong='cut' must be one of"),
        ({'init.kind': 'random'}, "init.kind='random' must be one of"),
        ({'model.compute_dtype': 'bf16'}, "model.compute_dtype='bf16' must be one of"),
        (
            {'train.mini_batch_prompts': 12},
            'mini_batch_prompts=12 must divide train.num_prompts=32',
        ),
        (
            {'train.micro_batch_prompts': 3},
            'micro_batch_prompts=3 must divide train.mini_batch_prompts=16',
        ),
        (
            {'train.micro_batch_rollouts': 5},
            'micro_batch_rollouts=5 must divide sampling.num_rollouts=16, or be 0',
        ),
        ({'eval.split': ''}, 'eval.every=50 needs a split'),
        ({'model.arch.num_layers': 0}, "states {'num_layers': 0}; without a model"),
        ({'model.source': 'Qwen/Qwen3-8B'}, "model.source='Qwen/Qwen3-8B' sets"),
        ({'model.tokenizer': 'source'}, "tokenizer='source' needs a model.source"),
        ({'init.kind': 'hf'}, "init.kind='hf' needs a model.source"),
        ({'init.kind': 'checkpoint'}, "init.checkpoint='' does not fit"),
        ({'init.checkpoint': '/x'}, "init.checkpoint='/x' does not fit"),
        ({'checkpoint.keep': 0}, 'checkpoint.keep=0 must lie in'),
        ({'sampling.num_rollouts': 0}, 'sampling.num_rollouts=0 must lie in'),
        ({'checkpoint.keep_best': 'pass_at_1'}, "for example 'validation/pass_at_1'"),
        ({'checkpoint.keep_best': 'train/reward'}, 'split that is evaluated'),
        (
            {'checkpoint.keep_best': 'validation/pass_at_1', 'eval.every': 0},
            'eval.every=0 must not be 0',
        ),
        ({'mesh.fsdp': 0}, "'fsdp': 0.* must be positive"),
        ({'mesh.data': -1}, 'of which one may be -1'),
        ({'mesh.tensor': -2}, "'tensor': -2"),
    ],
)
def test_a_bad_value_is_refused(overrides, message):
    with pytest.raises(ValueError, match=message):
        check(overrides)


@pytest.mark.parametrize(
    'overrides',
    [
        {'eval.temperature': 0.0},
        {'eval.every': 0, 'eval.split': ''},
        {'eval.final_split': ''},
        {'train.mini_batch_prompts': 32, 'train.micro_batch_prompts': 1},
        {'init.kind': 'checkpoint', 'init.checkpoint': '/runs/other'},
        {'init.kind': 'scratch'},
        {'checkpoint.keep_best': 'validation/5x5/pass_at_1'},
        {'mesh.data': -1, 'mesh.fsdp': 1},
        {'reward.flip_wrong': 1.0},
        {'loss.sampler_weight_cap': 1.0},
        {'train.pack_sizes': 2, 'mesh.rollout': 8},
        {'model.attention': 'splash', 'train.pack_sizes': 2},
        {'mesh.rollout': 16, 'train.pack_sizes': 0},
        ONE_ROLLOUT,
        # A signal to an estimator without a baseline.
        {'train.dynamic_sampling_rounds': 1} | ONE_ROLLOUT,
        {'train.dynamic_sampling_rounds': 1},
        {'model.tokenizer': '/some/tokenizer'},
    ],
)
def test_the_borders_are_accepted(overrides):
    check(overrides)


def test_a_source_forbids_a_stated_size():
    check({}, maze)
    with pytest.raises(ValueError, match=r"states {'tie_embeddings': True}"):
        check({'model.arch.tie_embeddings': True}, maze)


def test_flatten_joins_keys_with_dots():
    assert checks.flatten({'a': {'b': 1, 'c': {'d': 2}}, 'e': (3,), 'f': {}}) == {
        'a.b': 1,
        'a.c.d': 2,
        'e': (3,),
        'f': {},
    }
    assert checks.flatten({}) == {}


LORA = {'model.lora.rank': 8, 'model.lora.alpha': 16, 'model.lora.targets': ['q_proj']}


@pytest.mark.parametrize(
    ('overrides', 'words'),
    [
        # Without a rank everything would be trained; without the others, nothing.
        ({'model.lora.targets': ['q_proj']}, r'rank=0 trains all parameters'),
        ({'model.lora.alpha': 16}, r"'model\.lora\.alpha': 16.*rank=0 trains all"),
        ({'model.lora.source': 'adapter'}, r'rank=0 trains all parameters'),
        (LORA | {'model.lora.alpha': 0}, r'rank=8 without .*trains nothing'),
        (LORA | {'model.lora.targets': []}, r'rank=8 without .*trains nothing'),
        (LORA | {'model.lora.rank': -1}, r'model\.lora\.rank=-1 must lie in'),
        (LORA | {'model.lora.alpha': -1}, r'model\.lora\.alpha=-1.* not be negative'),
        (LORA | {'model.frozen': ['embed']}, r"leave model\.frozen=\('embed',\) empty"),
        ({'model.frozen_dtype': 'bfloat16'}, r'has no effect, because all'),
        (LORA | {'model.train_vision': True}, r'rank=8 freezes the tower too'),
        (LORA | {'model.frozen_dtype': 'int8'}, r'must be one of'),
    ],
)
def test_a_run_that_would_train_everything_or_nothing_is_refused(overrides, words):
    with pytest.raises(ValueError, match=words) as error:
        check(overrides)
    assert '\n' not in str(error.value)


def test_adapters_and_a_base_of_another_dtype_are_settings():
    config = check(LORA | {'model.frozen_dtype': 'bfloat16'})
    assert config.model.lora == config_lib.LoraConfig(8, 16.0, ('q_proj',), '')
    check({'model.frozen': ['embed'], 'model.frozen_dtype': 'bfloat16'})
