import copy
import dataclasses
import json
import math
import re

import pytest
import transformers

from passk_jax.models.families.table import FAMILIES, family_of
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf import published
from passk_jax.models.rope import Rope
from tests.models import oracle
from tests.models.hf import oracle as hf_oracle

# As published, less the sizes, which are those of the oracle's tiny policy.
QWEN2 = {
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
QWEN3 = {
    **{k: v for k, v in QWEN2.items() if k != 'architectures'},
    'attention_bias': False,
    'head_dim': 8,
    'max_window_layers': 36,
    'model_type': 'qwen3',
    'rope_scaling': None,
    'sliding_window': None,
}
LLAMA3_ROPE = {
    'factor': 8.0,
    'low_freq_factor': 1.0,
    'high_freq_factor': 4.0,
    'original_max_position_embeddings': 8192,
    'rope_type': 'llama3',
}
_NOT_LLAMA = ('max_window_layers', 'sliding_window', 'use_sliding_window')
LLAMA = {
    **{k: v for k, v in QWEN2.items() if k not in _NOT_LLAMA},
    'architectures': ['LlamaForCausalLM'],
    'attention_bias': False,
    'max_position_embeddings': 131072,
    'mlp_bias': False,
    'model_type': 'llama',
    'pretraining_tp': 1,
    'rope_scaling': LLAMA3_ROPE,
    'eos_token_id': [128001, 128008, 128009],
}
MISTRAL = {
    **{k: v for k, v in QWEN3.items() if k not in _NOT_LLAMA[:1] + _NOT_LLAMA[2:]},
    'model_type': 'mistral',
}
del MISTRAL['attention_bias']
YARN = {'factor': 4.0, 'original_max_position_embeddings': 32768, 'type': 'yarn'}


def write(directory, config=QWEN2, **changes):
    """Writes config.json with fields changed; ``None`` leaves one out."""
    fields = {k: v for k, v in (config | changes).items() if v is not None}
    (directory / 'config.json').write_text(json.dumps(fields))
    return str(directory)


def read(source, **options):
    chosen = {
        'param_dtype': 'float32',
        'compute_dtype': 'float32',
        'remat': 'none',
        'attention': 'plain',
    }
    return hf_config.arch_from_hf(source, **(chosen | options))


def read_arch(directory, config=QWEN2, **changes):
    return read(write(directory, config, **changes))


def test_published_configs_are_read_into_the_architecture(tmp_path):
    assert read_arch(tmp_path) == oracle.tiny_arch()
    rope = Rope('llama3', 1e4, 8.0, 8192, low_freq_factor=1.0, high_freq_factor=4.0)
    llama = oracle.tiny_arch(qkv_bias=False, rope=rope)
    assert read_arch(tmp_path, LLAMA) == llama
    qwen3 = oracle.tiny_arch(qkv_bias=False, qk_norm=True)
    assert read_arch(tmp_path, QWEN3) == qwen3


def test_what_the_file_does_not_say_is_as_transformers_has_it(tmp_path):
    arch = read_arch(tmp_path, tie_word_embeddings=True, rope_theta=None)
    assert arch.tie_embeddings
    assert arch.layers[0].rope.theta == 10_000
    assert read_arch(tmp_path, rope_theta=1e6).layers[0].rope.theta == 1e6
    assert read_arch(tmp_path, head_dim=16).head_dim == 16
    assert read_arch(tmp_path, QWEN3, head_dim=None).head_dim == 128
    # DeepSeek-R1-Distill-Qwen says so, and some that transformers 4.4x saved.
    assert read_arch(tmp_path, use_mrope=False) == oracle.tiny_arch()
    arch = read_arch(tmp_path, _attn_implementation_autoset=True)
    assert arch == oracle.tiny_arch()


def test_what_the_file_does_not_decide_is_the_callers(tmp_path):
    options = {'param_dtype': 'bfloat16', 'remat': 'full', 'attention': 'splash'}
    arch = read(write(tmp_path), compute_dtype='bfloat16', **options)
    assert arch == oracle.tiny_arch(dtype='bfloat16', **options)


def test_a_family_that_is_stated_must_be_the_files(tmp_path):
    source = write(tmp_path)
    assert read(source, family='qwen2') == read(source)
    with pytest.raises(ValueError, match=r"model_type='qwen2' is not model.family='ll"):
        read(source, family='llama')


@pytest.mark.parametrize('name', sorted(published.PUBLISHED))
def test_the_papers_models_are_read(name, tmp_path):
    fields = published.PUBLISHED[name]
    arch = read_arch(tmp_path, dict(fields))
    family = family_of(fields['model_type'])
    assert {name: getattr(arch, name) for name in family.pieces} == family.pieces
    assert arch.embed_dim == fields.get('text_config', fields)['hidden_size']


def test_old_and_new_spellings_of_rope_are_one(tmp_path):
    for old in (
        {'rope_scaling': YARN},
        {'rope_scaling': {**YARN, 'rope_type': 'yarn'}},
        {'rope_scaling': {'rope_type': 'linear', 'factor': 2.0}},
        {'rope_scaling': {'type': 'linear', 'factor': 2}},
        {'rope_scaling': LLAMA3_ROPE},
        {'rope_scaling': None},
    ):
        scaling = old['rope_scaling'] or {'rope_type': 'default'}
        before = read_arch(tmp_path, **old)
        new = {**scaling, 'rope_theta': 1e4}
        assert before == read_arch(tmp_path, rope_theta=None, rope_parameters=new)
        assert before == read_arch(tmp_path, rope_parameters=scaling)
        kind = scaling.get('rope_type') or scaling.get('type')
        assert (before.layers[0].rope.kind, before.layers[0].rope.theta) == (kind, 1e4)


def test_yarn_has_the_defaults_of_transformers(tmp_path):
    rope = read_arch(tmp_path, rope_scaling=YARN).layers[0].rope
    plain = Rope('yarn', 1e4, 4.0, 32768, attention_factor=0.1 * math.log(4) + 1)
    assert rope == plain
    more = {'beta_fast': 16, 'beta_slow': 2, 'truncate': False, 'attention_factor': 1.5}
    rope = read_arch(tmp_path, rope_scaling=YARN | more).layers[0].rope
    assert (rope.beta_fast, rope.beta_slow, rope.truncate) == (16, 2, False)
    assert rope.attention_factor == 1.5
    # Of the two, one alone counts for nothing.
    arch = read_arch(tmp_path, rope_scaling=YARN | {'mscale': 2.0})
    assert arch.layers[0].rope == plain
    arch = read_arch(tmp_path, rope_scaling=YARN | {'mscale': 2.0, 'mscale_all_dim': 1})
    assert arch.layers[0].rope.attention_factor == pytest.approx(
        (0.2 * math.log(4) + 1) / (0.1 * math.log(4) + 1)
    )


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        (
            {'model_type': 'gpt2'},
            re.escape(f"model_type='gpt2' is none of {sorted(FAMILIES)}"),
        ),
        ({'model_type': None}, 'model_type=None'),
        ({'architectures': ['Qwen2ForSequenceClassification']}, 'architectures='),
        ({'hidden_act': 'gelu'}, "hidden_act='gelu'.*'silu'"),
        ({'attention_dropout': 0.1}, 'attention_dropout=0.1'),
        (
            {'use_sliding_window': True, 'sliding_window': -4, 'max_window_layers': 1},
            'sliding_window=-4',
        ),
        ({'use_mrope': True}, 'use_mrope=True'),
        ({'layer_types': ['full_attention', 'sliding_attention']}, 'layer_types='),
        ({'rope_scaling': {'type': 'dynamic', 'factor': 4.0}}, "dynamic.*'yarn'"),
        ({'rope_scaling': {'type': 'yarn', 'rope_type': 'linear'}}, 'rope'),
        ({'rope_scaling': {'type': 'linear', 'factor': 2, 'by': 3}}, "'by'"),
        ({'rope_scaling': {'type': 'linear', 'factor': -2}}, 'positive'),
        ({'rope_scaling': {'type': 'linear', 'factor': 'two'}}, 'two'),
        ({'rope_scaling': {'type': 'yarn'}}, 'factor'),
        ({'rope_scaling': YARN, 'rope_parameters': YARN}, 'both rope_scaling and'),
        ({'rope_parameters': YARN | {'rope_theta': 2.0}}, 'rope_theta is 10000.0 and'),
        ({'rope_parameters': {'partial_rotary_factor': 0.5}}, 'partial_rotary_factor'),
        ({'partial_rotary_factor': 0.5}, 'partial_rotary_factor'),
        (
            {
                'layer_types': ['full_attention'] * 2,
                'rope_parameters': {'full_attention': {'rope_type': 'default'}},
            },
            'only rope types|transformers refuses it',
        ),
        ({'quantization_config': {'bits': 4}}, 'quantization_config'),
        ({'attention_bias': False}, 'attention_bias=False'),
        ({'num_key_value_heads': 3}, r'multiple of num_kv_heads=3'),
        ({'head_dim': 7}, 'head_dim.?=7'),
        ({'hidden_size': 'many'}, 'many'),
        ({'hidden_size': -32}, 'embed_dim=-32 must be positive'),
        ({'num_attention_heads': 0}, 'every size must be .*num_attention_heads=0'),
        ({'model_type': ['qwen2']}, r"model_type=\['qwen2'\] is none of"),
        ({'model_type': {}}, 'model_type={} is none of'),
        ({'rope_scaling': 'yarn'}, "rope_scaling='yarn' must be an object"),
        ({'rope_scaling': [YARN]}, r'rope_scaling=\[.*\] must be an object'),
        ({'rope_scaling': ''}, "rope_scaling='' must be an object"),
        ({'rope_parameters': 4.0}, 'rope_parameters=4.0 must be an object'),
    ],
)
def test_a_field_that_the_network_does_not_honour_is_refused(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words) as error:
        read_arch(tmp_path, **changes)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    'config', [QWEN2, QWEN3, LLAMA, MISTRAL], ids=lambda x: x['model_type']
)
@pytest.mark.parametrize('size', hf_config._required_fields(family_of('qwen2')))
def test_a_size_is_never_transformers_own(size, config, tmp_path):
    transformers.AutoConfig.for_model(**{k: v for k, v in config.items() if k != size})
    with pytest.raises(ValueError, match=f'config.json: every size .* {size}=None'):
        read_arch(tmp_path, config, **{size: None})


def test_the_fields_themselves_will_do_where_there_is_no_file(tmp_path):
    fields = QWEN3 | {'rope_scaling': YARN}
    before = copy.deepcopy(fields)
    source = write(tmp_path, fields)
    assert read(fields) == read(source)
    assert hf_config.position_limit(fields) == hf_config.position_limit(source)
    assert fields == before
    with pytest.raises(ValueError, match=r"config\.json: model_type='gpt2'"):
        read(fields | {'model_type': 'gpt2'})


@pytest.mark.parametrize(
    ('config', 'changes', 'words'),
    [
        (LLAMA, {'attention_bias': True}, 'attention_bias=True'),
        (LLAMA, {'mlp_bias': True}, 'mlp_bias=True'),
        (LLAMA, {'pretraining_tp': 2}, 'pretraining_tp=2'),
        (LLAMA, {'sliding_window': 4}, 'sliding_window=4'),
        (QWEN3, {'attention_bias': True}, 'attention_bias=True'),
        (
            MISTRAL,
            {'layer_types': ['full_attention'] * 2, 'sliding_window': 4},
            'layer_types=',
        ),
        (MISTRAL, {'sliding_window': 0}, 'sliding_window=0'),
        (MISTRAL, {'use_sliding_window': False}, 'use_sliding_window=False'),
        (LLAMA, {'layer_types': ['sliding_attention'] * 2}, 'layer_types='),
    ],
)
def test_so_is_what_only_another_family_has(tmp_path, config, changes, words):
    with pytest.raises(ValueError, match=words):
        read_arch(tmp_path, config, **changes)


@pytest.mark.parametrize(
    ('changes', 'limit'),
    [
        ({}, 32768),
        # The default of transformers, which its yarn too is computed from.
        ({'max_position_embeddings': None}, 32768),
        (LLAMA | {'max_position_embeddings': None, 'rope_scaling': None}, 2048),
        ({'rope_scaling': {'type': 'linear', 'factor': 2.5}}, 81920),
        # Qwen2.5 is told so by its model card, and keeps the field.
        ({'rope_scaling': YARN}, 131072),
        ({'rope_scaling': YARN, 'max_position_embeddings': 131072}, 131072),
        ({'rope_scaling': LLAMA3_ROPE, 'max_position_embeddings': 65536}, 65536),
    ],
)
def test_the_position_limit_counts_what_was_stretched(tmp_path, changes, limit):
    config = changes if 'model_type' in changes else QWEN2 | changes
    source = write(tmp_path, config)
    assert hf_config.position_limit(source) == limit
    hf_config.check_positions(source, num_tokens=limit)
    with pytest.raises(ValueError, match=f'addresses {limit}: lower data.max_prompt'):
        hf_config.check_positions(source, num_tokens=limit + 1)


ROPES = [
    Rope('default', 1e6),
    Rope('linear', 1e4, 2.5),
    Rope('llama3', 5e5, 8.0, 8192, low_freq_factor=1.0, high_freq_factor=4.0),
    Rope('yarn', 1e6, 4.0, 32768, beta_fast=16.0, truncate=False, attention_factor=1.2),
]


@pytest.mark.parametrize('rope', ROPES, ids=lambda rope: rope.kind)
@pytest.mark.parametrize('family', sorted(FAMILIES))
def test_what_is_written_is_read_back_as_it_was(family, rope, tmp_path):
    parts = family_of(family)
    # 8 is the width by the heads.
    head_dim = 8 if parts.derives_head_dim else 6
    arch = oracle.family_arch(family, rope=rope, head_dim=head_dim)
    fields = hf_config.hf_config_fields(
        arch,
        parts,
        dtype='bfloat16',
        max_positions=100_001,
        eos_token_ids=(1, 2),
        pad_token_id=0,
    )
    # transformers writes into the fields that it is given to check.
    assert 'rope_theta' not in fields.get('rope_scaling', {})
    # As it is: null is not the same as absent.
    (tmp_path / 'config.json').write_text(json.dumps(fields))
    source = str(tmp_path)
    assert read(source, family=family) == arch
    assert hf_config.position_limit(source) >= 100_001
    reference = transformers.AutoConfig.from_pretrained(source).get_text_config()
    assert (reference.eos_token_id, reference.pad_token_id) == ([1, 2], 0)
    assert str(reference.dtype).endswith('bfloat16')


def test_an_architecture_that_the_family_has_not_is_not_written():
    with pytest.raises(ValueError, match='not a qwen3 model'):
        hf_config.hf_config_fields(
            oracle.tiny_arch(),
            family_of('qwen3'),
            dtype='float32',
            max_positions=64,
            eos_token_ids=(1,),
            pad_token_id=None,
        )


@pytest.mark.parametrize('family', FAMILIES)
@pytest.mark.parametrize('rope', sorted(hf_oracle.ROPES))
def test_what_transformers_saves_is_read(family, rope, tmp_path):
    config = hf_oracle.make_model(family, rope=rope).config
    config.save_pretrained(tmp_path)
    arch = read(str(tmp_path))
    unwindowed = next(layer for layer in arch.layers if not layer.window)
    assert (unwindowed.rope.kind, unwindowed.rope.theta) == (rope, 1e3)
    assert arch.num_kv_heads == config.get_text_config().num_key_value_heads


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ValueError, match=r'has no config\.json'):
        read(str(tmp_path))
    for text, words in (('{', 'is not JSON:'), ('[]', 'is not a JSON object')):
        (tmp_path / 'config.json').write_text(text)
        with pytest.raises(ValueError, match=words):
            read(str(tmp_path))


@pytest.mark.parametrize('layers', [0, -1, 1001, 10**9, 10**300])
def test_a_number_of_layers_that_no_model_has_is_refused_at_once(layers):
    with pytest.raises(ValueError, match=r'num_hidden_layers=.* must lie in .1, 1000.'):
        hf_config.arch_from_hf(
            QWEN2 | {'num_hidden_layers': layers},
            param_dtype='float32',
            compute_dtype='float32',
            remat='none',
            attention='plain',
        )


@pytest.mark.parametrize('near', [1e6, 5e5])
@pytest.mark.parametrize('far', ROPES, ids=lambda rope: rope.kind)
def test_olmo3_states_the_base_of_each_kind_of_layer(tmp_path, far, near):
    arch = oracle.family_arch('olmo3', rope=far, head_dim=6)
    plain = arch.layers[0]
    local = dataclasses.replace(plain, rope=Rope('default', near), window=4)
    layers = (local, dataclasses.replace(plain, rope=far, window=0))
    arch = dataclasses.replace(arch, layers=layers, num_layers=4)
    fields = hf_config.hf_config_fields(
        arch,
        family_of('olmo3'),
        dtype='float32',
        max_positions=64,
        eos_token_ids=(1,),
        pad_token_id=0,
    )
    (tmp_path / 'config.json').write_text(json.dumps(fields))
    assert read(str(tmp_path), family='olmo3').layers == layers
    parameters = transformers.AutoConfig.from_pretrained(tmp_path).rope_parameters
    assert parameters['sliding_attention']['rope_theta'] == near
    assert parameters['full_attention']['rope_theta'] == far.theta
