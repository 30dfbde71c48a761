"""Fields of a config.json that change nothing are accepted, others are not."""

import json

import numpy as np
import pytest
import torch
import transformers

from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf.rope import ORIGINAL
from tests.models.hf.config_test import (
    LLAMA,
    LLAMA3_ROPE,
    QWEN2,
    QWEN3,
    YARN,
    read_arch,
    write,
)

_QWEN3_YARN = QWEN3 | {'rope_scaling': YARN}

INERT = [
    # unsloth's copies.
    (QWEN2, {'unsloth_fixed': True}),
    (QWEN3, {'unsloth_version': '2025.9.1', 'tokenizer_class': 'Qwen2Tokenizer'}),
    # What programs save of how they ran.
    (QWEN3, {'_attn_implementation': 'sdpa', 'use_cache': False}),
    (LLAMA, {'attn_implementation': 'sdpa', 'gradient_checkpointing': True}),
    (LLAMA, {'torchscript': False, 'is_decoder': False, 'pruned_heads': {}}),
    (QWEN2, {'problem_type': None, 'num_labels': 1, 'mlp_bias': False}),
    # What older transformers keep for generate().
    (QWEN2, {'max_length': 4096, 'do_sample': True, 'temperature': 0.7, 'top_k': 20}),
    (LLAMA, {'cache_implementation': 'static', 'begin_suppress_tokens': [1]}),
    (LLAMA, {'is_encoder_decoder': False, 'quantization_config': None}),
    # SmolLM2.
    (LLAMA, {'is_llama_config': True, 'rope_interleaved': False}),
    (LLAMA, {'transformers.js_config': {'kv_cache_dtype': {'fp16': 'float16'}}}),
    (LLAMA, {'partial_rotary_factor': 1.0}),
    (_QWEN3_YARN, {'partial_rotary_factor': 1}),
    (QWEN2, {'rope_parameters': {'partial_rotary_factor': 1.0}}),
    (LLAMA, {'hidden_act': 'swish'}),
    # R1-0528-Qwen3-8B.
    (_QWEN3_YARN, {'rope_scaling': YARN | {'attn_factor': 0.8782488562869419}}),
    # It means something only to llama3 and yarn, which state it inside.
    (QWEN3, {ORIGINAL: 4096}),
    (LLAMA, {ORIGINAL: 8192}),
    (_QWEN3_YARN, {ORIGINAL: 32768}),
]


@torch.no_grad()
def their_logits(directory):
    """Of random weights, which the seed gives to both."""
    config = transformers.AutoConfig.from_pretrained(directory)
    torch.manual_seed(0)
    make = transformers.AutoModelForCausalLM.from_config
    model = make(config, dtype=torch.float32).eval()
    return model(torch.arange(12)[None]).logits.numpy()


@pytest.mark.parametrize(
    ('config', 'changes'), INERT, ids=[next(iter(changes)) for _, changes in INERT]
)
def test_a_field_whose_value_changes_nothing_is_accepted(tmp_path, config, changes):
    arch = read_arch(tmp_path, config)
    limit, logits = hf_config.position_limit(str(tmp_path)), their_logits(tmp_path)
    assert read_arch(tmp_path, config, **changes) == arch
    assert hf_config.position_limit(str(tmp_path)) == limit
    np.testing.assert_array_equal(their_logits(tmp_path), logits)


@pytest.mark.parametrize(
    ('config', 'changes', 'words'),
    [
        (QWEN2, {'partial_rotary_factor': 0.5}, 'factor=0.5; only 1.0 is supported'),
        (
            QWEN2 | {'rope_parameters': {'partial_rotary_factor': 1.0}},
            {'partial_rotary_factor': 0.5},
            'factor=0.5; only 1.0',
        ),
        (LLAMA, {'rope_interleaved': True}, 'rope_interleaved=True; only False'),
        (QWEN2, {'mlp_bias': True}, 'mlp_bias=True; only False'),
        (LLAMA, {'pruned_heads': {'0': [1]}}, 'pruned_heads=.*; only {}'),
        (
            QWEN3,
            {'quantization_config': {'bits': 4}},
            'quantization_config=.*only None',
        ),
        (QWEN3, {'a_new_field': 1}, 'does not know: a_new_field=1'),
        (LLAMA, {'rope_scaling': LLAMA3_ROPE | {'attn_factor': 1.0}}, "'attn_factor'"),
        (_QWEN3_YARN, {ORIGINAL: 4096}, 'is 4096 and, in the rope, 32768'),
        (LLAMA, {ORIGINAL: 4096}, 'is 4096 and, in the rope, 8192'),
        (
            QWEN3 | {'rope_scaling': {'type': 'yarn', 'factor': 4.0}},
            {ORIGINAL: 4096},
            'is 4096 and, in the rope, None',
        ),
    ],
)
def test_another_value_is_refused(tmp_path, config, changes, words):
    with pytest.raises(ValueError, match=words):
        read_arch(tmp_path, config, **changes)


def test_what_vllm_reads_otherwise_is_said(tmp_path, caplog):
    source = write(tmp_path, rope_scaling=YARN | {'attn_factor': 0.5})
    hf_config.position_limit(source)
    (warning,) = [r.getMessage() for r in caplog.records if r.name == 'absl']
    assert 'attn_factor=0.5, which is ignored' in warning


@pytest.mark.parametrize('config', [QWEN2, QWEN3, LLAMA])
def test_what_transformers_saves_in_full_is_read(tmp_path, config):
    arch = read_arch(tmp_path, config)
    saved = transformers.AutoConfig.from_pretrained(tmp_path)
    text = saved.to_json_string(use_diff=False)
    (tmp_path / 'config.json').write_text(text)
    fields = json.loads(text)
    assert fields.keys() > {'chunk_size_feed_forward', 'is_encoder_decoder'}
    assert read_arch(tmp_path, fields) == arch


@pytest.mark.parametrize(
    'changes',
    [
        {'_attn_implementation': 'flash_attention_2'},
        {'attn_implementation': 'flash_attention_3'},
        {'cache_implementation': 'nonsense'},
    ],
)
def test_what_transformers_cannot_run_here_is_read(tmp_path, changes):
    assert read_arch(tmp_path, QWEN3, **changes) == read_arch(tmp_path, QWEN3)
