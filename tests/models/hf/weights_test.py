import json

import huggingface_hub.constants
import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.hf import weights
from passk_jax.models.transformer import Transformer
from tests.models import oracle
from tests.models.hf.oracle import one_device


def stored_tensors(params, *, dtype=np.float32):
    """The parameters under transformers' names and in torch's layout, by hand."""
    tensors = {
        'model.embed_tokens.weight': params['embed.embedding'],
        'model.norm.weight': params['final_norm.scale'],
    }
    if 'head.kernel' in params:
        tensors['lm_head.weight'] = params['head.kernel'].T
    for i in range(2):
        prefix = f'model.layers.{i}'
        ours = {
            k.removeprefix('layers.'): x[i] for k, x in params.items() if 'yers.' in k
        }
        for a, b in [('query', 'q'), ('key', 'k'), ('value', 'v')]:
            name = f'{prefix}.self_attn.{b}'
            kernel = ours[f'attention.{a}.kernel']
            tensors[f'{name}_proj.weight'] = kernel.reshape(32, -1).T
            if f'attention.{a}.bias' in ours:
                tensors[f'{name}_proj.bias'] = ours[f'attention.{a}.bias'].ravel()
            if f'attention.{a}_norm.scale' in ours:
                tensors[f'{name}_norm.weight'] = ours[f'attention.{a}_norm.scale']
        out = ours['attention.out.kernel']
        tensors[f'{prefix}.self_attn.o_proj.weight'] = out.reshape(-1, 32).T
        for a in ('gate', 'up', 'down'):
            tensors[f'{prefix}.mlp.{a}_proj.weight'] = ours[f'mlp.{a}.kernel'].T
        norms = ('input', 'attention_norm'), ('post_attention', 'mlp_norm')
        for a, b in norms:
            tensors[f'{prefix}.{a}_layernorm.weight'] = ours[f'{b}.scale']
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


def load(policy, directory):
    return weights.load_params(policy, str(directory), one_device())


def assert_same(have, want):
    assert have.keys() == want.keys()
    jax.tree.map(np.testing.assert_array_equal, have, want)


@pytest.mark.parametrize('shards', [1, 3])
@pytest.mark.parametrize('tie', [True, False])
def test_files_come_back_bit_for_bit(tmp_path, shards, tie):
    policy = oracle.tiny_policy(tie_embeddings=tie, qk_norm=tie, qkv_bias=not tie)
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


class Recorder:
    """A stored tensor that notes how much is read of it."""

    def __init__(self, stored, reads):
        self.stored, self.reads = stored, reads
        self.get_shape = stored.get_shape

    def __getitem__(self, parts):
        values = self.stored[parts]
        self.reads.append(values.size)
        return values


@pytest.mark.parametrize('sizes', [(1, 2, 1, 4), (2, 1, 2, 2), (2, 4, 1, 1)])
def test_each_slice_is_read_once_and_nothing_more(tmp_path, monkeypatch, sizes):
    """And only a layer of a shard at a time, however many devices hold it."""
    policy = oracle.tiny_policy(vocab_size=32)
    params = oracle.random_params(policy)
    save(tmp_path, stored_tensors(params))
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    shapes = policies.param_shapes(policy, mesh)
    read, reads = weights._read, {}

    def recorded(stored, row, x, bounds):
        one = reads.setdefault(row.tensor, [])
        stored = {key: Recorder(value, one) for key, value in stored.items()}
        return read(stored, row, x, bounds)

    monkeypatch.setattr(weights, '_read', recorded)
    have = weights.load_params(policy, str(tmp_path), mesh)
    assert_same(have, params)
    table = Transformer.parameters(policy.arch)
    assert reads.keys() == {table[name].tensor for name in shapes}
    for name, x in shapes.items():
        assert have[name].sharding == x.sharding
        layers = x.shape[0] if name.startswith('layers.') else 1
        shard = np.prod(x.sharding.shard_shape(x.shape)) // layers
        assert reads[table[name].tensor] == [shard] * (x.size // shard)
    assert max(reads[table['layers.mlp.up.kernel'].tensor]) < 32 * 48


def test_everything_wrong_with_the_tensors_is_in_one_message(tmp_path):
    policy = oracle.tiny_policy()
    tensors = stored_tensors(oracle.random_params(policy))
    del tensors['model.layers.1.mlp.up_proj.weight']
    tensors['model.layers.0.self_attn.q_norm.weight'] = np.ones(8, np.float32)
    tensors['model.layers.2.input_layernorm.weight'] = np.ones(32, np.float32)
    tensors['model.norm.weight'] = np.ones(31, np.float32)
    tensors['model.layers.0.mlp.up_proj.weight'] = np.ones((48, 32), np.int8)
    save(tmp_path, tensors)
    with pytest.raises(ValueError, match='does not fit') as error:
        load(policy, tmp_path)
    lines = str(error.value).splitlines()[1:]
    assert sorted(line.strip() for line in lines) == [
        'missing model.layers.1.mlp.up_proj.weight',
        "model.layers.0.mlp.up_proj.weight is I8, none of ('F32', 'F16', 'BF16')",
        'model.norm.weight has shape (31,), not (32,)',
        'unexpected model.layers.0.self_attn.q_norm.weight (8,)',
        'unexpected model.layers.2.input_layernorm.weight (32,)',
    ]


def test_a_tied_head_may_be_stored_again_if_it_is_the_same(tmp_path):
    policy = oracle.tiny_policy(tie_embeddings=True)
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
    (tmp_path / 'model.safetensors').write_bytes(b'not safetensors')
    with pytest.raises(ValueError, match=r'cannot read model\.safetensors'):
        load(policy, tmp_path)
    (tmp_path / 'model.safetensors').unlink()
    save(tmp_path, stored_tensors(oracle.random_params(policy)), shards=3)
    (tmp_path / 'model-00002-of-00003.safetensors').unlink()
    with pytest.raises(ValueError, match='cannot read model-00002-of-00003'):
        load(policy, tmp_path)
    index = tmp_path / 'model.safetensors.index.json'
    for empty in ('{}', '{"weight_map": {}}'):
        index.write_text(empty)
        with pytest.raises(ValueError, match='no weight_map'):
            load(policy, tmp_path)
    index.write_text('{"weight_map": {"model.norm.weight": null, "x": "y"}}')
    with pytest.raises(ValueError, match=r'gives model\.norm\.weight the file None'):
        load(policy, tmp_path)


def test_a_truncated_file_is_one_cause(tmp_path):
    policy = oracle.tiny_policy()
    save(tmp_path, stored_tensors(oracle.random_params(policy)))
    path = tmp_path / 'model.safetensors'
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r'cannot read model\.safetensors') as error:
        load(policy, tmp_path)
    assert len(str(error.value).splitlines()) == 1


def test_a_file_beside_an_index_of_others_is_refused(tmp_path):
    """Of the two, transformers reads the file and most others the index."""
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    save(tmp_path, stored_tensors(params))
    weight_map = dict.fromkeys(stored_tensors(params), 'model.safetensors')
    index = tmp_path / 'model.safetensors.index.json'
    index.write_text(json.dumps({'weight_map': weight_map}))
    assert_same(load(policy, tmp_path), params)
    save(tmp_path, stored_tensors(oracle.random_params(policy, seed=1)), shards=2)
    words = r'both model\.safetensors and model\.safetensors\.index\.json'
    with pytest.raises(ValueError, match=words):
        load(policy, tmp_path)


@pytest.mark.parametrize(
    ('name', 'value', 'param_dtype'),
    [
        ('lm_head.weight', np.nan, 'float32'),
        ('lm_head.weight', -np.inf, 'bfloat16'),
        ('model.layers.1.self_attn.k_proj.weight', np.nan, 'bfloat16'),
        ('model.layers.1.self_attn.k_proj.weight', np.inf, 'float32'),
    ],
)
def test_a_value_that_is_not_finite_is_named(tmp_path, name, value, param_dtype):
    policy = oracle.tiny_policy(param_dtype=param_dtype)
    tensors = stored_tensors(oracle.random_params(policy))
    tensors[name] = tensors[name].copy()
    tensors[name][3, 5] = value
    save(tmp_path, tensors)
    with pytest.raises(ValueError, match=f'{name} holds NaN or infinity'):
        load(policy, tmp_path)


def test_a_tensor_in_two_files_is_an_error(tmp_path):
    policy = oracle.tiny_policy()
    tensors = stored_tensors(oracle.random_params(policy))
    save(tmp_path, tensors, shards=3)
    second = tmp_path / 'model-00002-of-00003.safetensors'
    again = safetensors.numpy.load_file(second)
    again['model.norm.weight'] = tensors['model.norm.weight']
    again['lm_head.weight'] = tensors['lm_head.weight']
    safetensors.numpy.save_file(again, second)
    with pytest.raises(ValueError, match='is stored twice'):
        load(policy, tmp_path)


@pytest.mark.parametrize('source', ['', '/no/such/directory', './nowhere', 'a/b/c'])
def test_a_source_that_is_neither_directory_nor_name_is_refused(source):
    with pytest.raises(ValueError, match='neither a directory nor a hub name'):
        load(oracle.tiny_policy(), source)


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
    params = oracle.random_params(policy)
    save(snapshot, stored_tensors(params))
    assert_same(load(policy, 'some/model'), params)


@pytest.mark.parametrize(
    'name',
    [
        'model.layers.0.self_attn.rotary_emb.inv_freq',
        'model.rotary_emb.inv_freq',
        'model.rotary_emb.original_inv_freq',
        'model.layers.1.self_attn.rotary_emb.cos_cached',
    ],
)
def test_stored_frequencies_of_a_rope_do_not_count(tmp_path, name):
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    tensors = stored_tensors(params) | {name: np.ones(4, np.float64)}
    save(tmp_path, tensors, shards=2)
    assert_same(load(policy, tmp_path), params)
    save(tmp_path, tensors | {f'{name}.weight': np.ones(4)}, shards=2)
    with pytest.raises(ValueError, match=f'unexpected {name}.weight'):
        load(policy, tmp_path)


@pytest.mark.parametrize(
    'name', ['../model.safetensors', '/etc/passwd', 'a/b.safetensors', '.', '..', '']
)
def test_an_index_names_files_of_its_own_directory_only(tmp_path, name):
    index = tmp_path / 'model.safetensors.index.json'
    index.write_text(json.dumps({'weight_map': {'model.norm.weight': name}}))
    with pytest.raises(ValueError, match='not a name of its directory'):
        weights._files(tmp_path)
