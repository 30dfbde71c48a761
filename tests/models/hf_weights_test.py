import json

import huggingface_hub.constants
import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import hf_weights
from passk_jax.models import policy as policies
from tests.models import oracle

# Qwen2.5-7B-Instruct's own file, less the sizes.
CONFIG = {
    'architectures': ['Qwen2ForCausalLM'],
    'attention_dropout': 0.0,
    'bos_token_id': 151643,
    'eos_token_id': 151645,
    'hidden_act': 'silu',
    'hidden_size': 32,
    'initializer_range': 0.02,
    'intermediate_size': 48,
    'max_position_embeddings': 32768,
    'max_window_layers': 28,
    'model_type': 'qwen2',
    'num_attention_heads': 4,
    'num_hidden_layers': 2,
    'num_key_value_heads': 2,
    'rms_norm_eps': 1e-06,
    'rope_theta': 1e4,
    'sliding_window': 131072,
    'tie_word_embeddings': False,
    'torch_dtype': 'bfloat16',
    'transformers_version': '4.43.1',
    'use_cache': True,
    'use_sliding_window': False,
    'vocab_size': 16,
}


def read_arch(directory, **changes):
    fields = {k: v for k, v in (CONFIG | changes).items() if v is not None}
    (directory / 'config.json').write_text(json.dumps(fields))
    return hf_weights.arch_from_hf(
        str(directory), param_dtype='float32', compute_dtype='float32', remat=False
    )


def stored_tensors(params, *, dtype=np.float32):
    """The parameters under transformers' names and in torch's layout, by hand."""
    tensors = {
        'model.embed_tokens.weight': params['embed.embedding'],
        'model.norm.weight': params['final_norm.scale'],
    }
    if 'head.kernel' in params:
        tensors['lm_head.weight'] = params['head.kernel'].T
    for i in range(2):
        ours, theirs = f'layers.{i}', f'model.layers.{i}'
        for a, b in [('query', 'q'), ('key', 'k'), ('value', 'v')]:
            name = f'{theirs}.self_attn.{b}_proj'
            kernel = params[f'{ours}.attention.{a}.kernel']
            tensors[f'{name}.weight'] = kernel.reshape(32, -1).T
            tensors[f'{name}.bias'] = params[f'{ours}.attention.{a}.bias'].ravel()
        out = params[f'{ours}.attention.out.kernel']
        tensors[f'{theirs}.self_attn.o_proj.weight'] = out.reshape(-1, 32).T
        for a in ('gate', 'up', 'down'):
            kernel = params[f'{ours}.mlp.{a}.kernel']
            tensors[f'{theirs}.mlp.{a}_proj.weight'] = kernel.T
        tensors[f'{theirs}.input_layernorm.weight'] = params[
            f'{ours}.attention_norm.scale'
        ]
        tensors[f'{theirs}.post_attention_layernorm.weight'] = params[
            f'{ours}.mlp_norm.scale'
        ]
    return {k: np.ascontiguousarray(x, dtype) for k, x in tensors.items()}


def save(directory, tensors, *, shards=1):
    if shards == 1:
        safetensors.numpy.save_file(tensors, directory / 'model.safetensors')
        return
    files = {}
    for i in range(shards):
        name = f'model-{i + 1:05d}-of-{shards:05d}.safetensors'
        part = {key: tensors[key] for key in sorted(tensors)[i::shards]}
        safetensors.numpy.save_file(part, directory / name)
        files |= dict.fromkeys(part, name)
    index = {'metadata': {}, 'weight_map': files}
    (directory / 'model.safetensors.index.json').write_text(json.dumps(index))


def one_device():
    devices = jax.devices()[:1]
    return sharding.make_mesh(data=1, fsdp=1, tensor=1, devices=devices)


def load(policy, directory):
    return hf_weights.load_params(policy, str(directory), one_device())


def assert_same(have, want):
    assert have.keys() == want.keys()
    jax.tree.map(np.testing.assert_array_equal, have, want)


def test_a_published_config_is_read_into_the_architecture(tmp_path):
    assert read_arch(tmp_path) == oracle.tiny_policy().arch
    arch = read_arch(tmp_path, tie_word_embeddings=True, rope_theta=None)
    assert arch.tie_embeddings
    assert arch.rope_theta == 10_000
    assert read_arch(tmp_path, rope_theta=1e6).rope_theta == 1e6
    assert read_arch(tmp_path, head_dim=16).head_dim == 16
    # DeepSeek-R1-Distill-Qwen says so.
    assert read_arch(tmp_path, use_mrope=False) == oracle.tiny_policy().arch


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'model_type': 'llama'}, "model_type='llama'"),
        ({'model_type': None}, 'model_type=None'),
        ({'hidden_act': 'gelu'}, "hidden_act='gelu'.*'silu'"),
        ({'attention_dropout': 0.1}, 'attention_dropout=0.1'),
        ({'use_sliding_window': True}, 'use_sliding_window=True'),
        ({'use_mrope': True}, 'use_mrope=True'),
        ({'layer_types': ['full_attention', 'sliding_attention']}, 'layer_types='),
        ({'rope_scaling': {'type': 'yarn', 'factor': 4.0}}, 'rope_.*yarn'),
        ({'rope_scaling': {'rope_type': 'linear', 'factor': 2.0}}, 'rope_.*linear'),
        (
            {
                'rope_parameters': {
                    'rope_type': 'default',
                    'rope_theta': 1e4,
                    'partial_rotary_factor': 0.5,
                }
            },
            'partial_rotary_factor',
        ),
        ({'quantization_config': {'bits': 4}}, 'quantization_config'),
        ({'attention_bias': False}, 'attention_bias=False'),
        ({'num_key_value_heads': 3}, 'num_kv_heads=3'),
        ({'hidden_size': 'many'}, 'many'),
    ],
)
def test_a_field_that_the_network_does_not_honour_is_refused(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        read_arch(tmp_path, **changes)


@pytest.mark.parametrize('shards', [1, 3])
@pytest.mark.parametrize('tie', [True, False])
def test_files_come_back_bit_for_bit(tmp_path, shards, tie):
    read_arch(tmp_path)
    policy = oracle.tiny_policy(tie=tie)
    params = oracle.random_params(policy)
    save(tmp_path, stored_tensors(params), shards=shards)
    assert_same(load(policy, tmp_path), params)


@pytest.mark.parametrize('dtype', [np.float16, ml_dtypes.bfloat16])
def test_half_precision_files_become_float32_masters(tmp_path, dtype):
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    save(tmp_path, stored_tensors(params, dtype=dtype))
    have = load(policy, tmp_path)
    assert all(x.dtype == jnp.float32 for x in have.values())
    rounded = {k: np.asarray(x).astype(dtype) for k, x in params.items()}
    assert_same(have, {k: x.astype(np.float32) for k, x in rounded.items()})


def test_each_device_reads_its_slice_and_no_more(tmp_path, monkeypatch):
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    save(tmp_path, stored_tensors(params))
    mesh = sharding.make_mesh(data=1, fsdp=2, tensor=4)
    shapes = policies.param_shapes(policy, mesh)
    read = hf_weights._read
    sizes = []

    def recorded(stored, tensor, x, index):
        class Recorder:
            def __getitem__(self, parts):
                sizes.append(stored[parts].size)
                return stored[parts]

        values = read(Recorder(), tensor, x, index)
        assert sizes[-1] == np.prod(x.sharding.shard_shape(x.shape))
        return values

    monkeypatch.setattr(hf_weights, '_read', recorded)
    have = hf_weights.load_params(policy, str(tmp_path), mesh)
    assert_same(have, params)
    assert all(have[name].sharding == x.sharding for name, x in shapes.items())
    assert max(sizes) < max(x.size for x in params.values())


def test_everything_wrong_with_the_tensors_is_in_one_message(tmp_path):
    policy = oracle.tiny_policy()
    tensors = stored_tensors(oracle.random_params(policy))
    del tensors['model.layers.1.mlp.up_proj.weight']
    tensors['model.layers.0.self_attn.q_norm.weight'] = np.ones(8, np.float32)
    tensors['model.norm.weight'] = np.ones(31, np.float32)
    tensors['model.layers.0.mlp.up_proj.weight'] = np.ones((48, 32), np.int8)
    save(tmp_path, tensors)
    with pytest.raises(ValueError, match='does not fit') as error:
        load(policy, tmp_path)
    lines = str(error.value).splitlines()[1:]
    assert [line.strip() for line in lines] == [
        'missing model.layers.1.mlp.up_proj.weight',
        'unexpected model.layers.0.self_attn.q_norm.weight (8,)',
        'model.norm.weight has shape (31,), not (32,)',
        "model.layers.0.mlp.up_proj.weight is I8, none of ('F32', 'F16', 'BF16')",
    ]


def test_a_tied_head_may_be_stored_again_if_it_is_the_same(tmp_path):
    policy = oracle.tiny_policy(tie=True)
    params = oracle.random_params(policy)
    tensors = stored_tensors(params)
    tensors['lm_head.weight'] = tensors['model.embed_tokens.weight'].copy()
    save(tmp_path, tensors)
    assert_same(load(policy, tmp_path), params)
    tensors['lm_head.weight'][-1, -1] += 1
    save(tmp_path, tensors)
    with pytest.raises(ValueError, match=r'lm_head\.weight differs'):
        load(policy, tmp_path)


def test_unreadable_files_are_named(tmp_path):
    policy = oracle.tiny_policy()
    with pytest.raises(ValueError, match=r'neither model\.safetensors nor'):
        load(policy, tmp_path)
    with pytest.raises(ValueError, match=r'has no config\.json'):
        hf_weights.arch_from_hf(
            str(tmp_path), param_dtype='float32', compute_dtype='float32', remat=False
        )
    (tmp_path / 'model.safetensors').write_bytes(b'not safetensors')
    with pytest.raises(ValueError, match=r'cannot read model\.safetensors'):
        load(policy, tmp_path)
    (tmp_path / 'model.safetensors').unlink()
    save(tmp_path, stored_tensors(oracle.random_params(policy)), shards=3)
    (tmp_path / 'model-00002-of-00003.safetensors').unlink()
    with pytest.raises(ValueError, match='cannot read model-00002-of-00003'):
        load(policy, tmp_path)
    (tmp_path / 'model.safetensors.index.json').write_text('{}')
    with pytest.raises(ValueError, match='no weight_map'):
        load(policy, tmp_path)
    (tmp_path / 'config.json').write_text('{')
    with pytest.raises(ValueError, match='is no JSON'):
        hf_weights.arch_from_hf(
            str(tmp_path), param_dtype='float32', compute_dtype='float32', remat=False
        )


@pytest.mark.parametrize('source', ['', '/no/such/directory', './nowhere', 'a/b/c'])
def test_a_source_that_is_neither_directory_nor_name_is_refused(source):
    with pytest.raises(ValueError, match='no directory and no hub name'):
        hf_weights.load_params(oracle.tiny_policy(), source, one_device())


def test_a_hub_name_is_read_from_the_cache_and_refused_when_absent(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(huggingface_hub.constants, 'HF_HUB_OFFLINE', True)
    monkeypatch.setattr(huggingface_hub.constants, 'HF_HUB_CACHE', str(tmp_path))
    policy = oracle.tiny_policy()
    with pytest.raises(ValueError, match=r'some/model.*the hub does not give it'):
        load(policy, 'some/model')
    snapshot = tmp_path / 'models--some--model' / 'snapshots' / ('0' * 40)
    snapshot.mkdir(parents=True)
    refs = tmp_path / 'models--some--model' / 'refs'
    refs.mkdir()
    (refs / 'main').write_text('0' * 40)
    read_arch(snapshot)
    params = oracle.random_params(policy)
    save(snapshot, stored_tensors(params))
    arch = hf_weights.arch_from_hf(
        'some/model', param_dtype='float32', compute_dtype='float32', remat=False
    )
    assert arch == policy.arch
    assert_same(load(policy, 'some/model'), params)
