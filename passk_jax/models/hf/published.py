"""Sizes of some models, from their published ``config.json``.

These are the paper's models, others of their families, SmolLM2 of configs/smollm2.py,
and one or two models of each other family. The planner (``python -m passk_jax.plan``)
and the tests use them where nothing can be downloaded. Training needs no entry here: it
reads the ``config.json`` of ``model.source``.

Each entry holds the published fields that decide the network, and also token ids,
context and dtype. It leaves out fields that change no logit: initialisation, caching,
versions, and the windows that ``use_sliding_window: false`` switches off. ``hf.config``
reads an entry like any other file.

The numbers agree with copies of these files in public code (LitGPT's and tunix's tables
of models, verl's and xDiT's copies of Qwen's files, llama.cpp's listings of the
DeepSeek distillates). tests/models/hf/published_test.py compares the resulting numbers
of parameters with the published ones.
"""

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]

_DENSE = {'attention_dropout': 0.0, 'hidden_act': 'silu', 'torch_dtype': 'bfloat16'}


def _sizes(
    embed: int, mlp: int, layers: int, heads: int, *, tie: bool = False
) -> dict[str, Any]:
    return {
        'hidden_size': embed,
        'intermediate_size': mlp,
        'num_attention_heads': heads,
        'num_hidden_layers': layers,
        'tie_word_embeddings': tie,
    }


_QWEN = {'bos_token_id': 151643, 'eos_token_id': 151645, 'use_sliding_window': False}

_QWEN2 = {
    **_DENSE,
    **_QWEN,
    'architectures': ['Qwen2ForCausalLM'],
    'model_type': 'qwen2',
    'max_position_embeddings': 32_768,
    'rms_norm_eps': 1e-6,
    'rope_theta': 1_000_000.0,
}


def _qwen2(kv_heads: int, vocab: int, *sizes: int, tie: bool = False) -> dict[str, Any]:
    heads = {'num_key_value_heads': kv_heads, 'vocab_size': vocab}
    return _QWEN2 | heads | _sizes(*sizes, tie=tie)


# Each of these sizes has two models: Qwen2.5 and the distillate of Qwen2.5-Math. They
# differ in rotary base, context and end token; the small distillate's head is untied.
_QWEN2_1_5B = _qwen2(2, 151_936, 1536, 8960, 28, 12, tie=True)
_QWEN2_3B = _qwen2(2, 151_936, 2048, 11_008, 36, 16, tie=True)
_QWEN2_7B = _qwen2(4, 152_064, 3584, 18_944, 28, 28)
_R1_QWEN = {
    'eos_token_id': 151643,
    'max_position_embeddings': 131_072,
    'rope_theta': 10_000,
    'tie_word_embeddings': False,
    'use_mrope': False,
}

_QWEN3 = {
    **_DENSE,
    **_QWEN,
    'architectures': ['Qwen3ForCausalLM'],
    'model_type': 'qwen3',
    'attention_bias': False,
    'head_dim': 128,
    'max_position_embeddings': 40_960,
    'num_key_value_heads': 8,
    'rms_norm_eps': 1e-6,
    'rope_scaling': None,
    'rope_theta': 1_000_000,
    'vocab_size': 151_936,
}

_QWEN3_MOE = {
    **_QWEN3,
    'architectures': ['Qwen3MoeForCausalLM'],
    'model_type': 'qwen3_moe',
    'decoder_sparse_step': 1,
    'mlp_only_layers': [],
    'moe_intermediate_size': 768,
    'norm_topk_prob': True,
    'num_experts': 128,
    'num_experts_per_tok': 8,
    'num_key_value_heads': 4,
    'output_router_logits': False,
    'router_aux_loss_coef': 0.001,
}


_TOKENS = {
    'image_token_id': 151_655,
    'video_token_id': 151_656,
    'vision_end_token_id': 151_653,
    'vision_start_token_id': 151_652,
}


def _qwen3_vl(
    tower: tuple[int, ...], *sizes: int, tie: bool, experts: bool = False
) -> dict[str, Any]:
    """Makes a Qwen3-VL; ``tower`` is its depth, its widths and its taps."""
    depth, width, mlp, *taps = tower
    kind = 'qwen3_vl_moe' if experts else 'qwen3_vl'
    text = (_QWEN3_MOE if experts else _QWEN3) | _sizes(*sizes, tie=tie)
    for name in ('architectures', 'use_sliding_window'):
        del text[name]
    rope = {'mrope_interleaved': True, 'mrope_section': [24, 20, 20]}
    text |= {
        'model_type': f'{kind}_text',
        'max_position_embeddings': 262_144,
        'rope_scaling': {**rope, 'rope_type': 'default'},
        'rope_theta': 5_000_000,
    }
    vision = {
        'model_type': kind,
        'deepstack_visual_indexes': taps,
        'depth': depth,
        'hidden_act': 'gelu_pytorch_tanh',
        'hidden_size': width,
        'in_channels': 3,
        'intermediate_size': mlp,
        'num_heads': 16,
        'num_position_embeddings': 2304,
        'out_hidden_size': sizes[0],
        'patch_size': 16,
        'spatial_merge_size': 2,
        'temporal_patch_size': 2,
    }
    moe = 'Moe' if experts else ''
    return {
        'architectures': [f'Qwen3VL{moe}ForConditionalGeneration'],
        'model_type': kind,
        'text_config': text,
        'tie_word_embeddings': tie,
        'vision_config': vision,
        **_TOKENS,
    }


_SMALL_TOWER = (24, 1024, 4096, 5, 11, 17)
_TOWER = (27, 1152, 4304, 8, 16, 24)


def _qwen25_vl(text: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a Qwen2.5-VL from the text of a Qwen2.5 of its size."""
    vision = {
        'depth': 32,
        'fullatt_block_indexes': [7, 15, 23, 31],
        'hidden_act': 'silu',
        'hidden_size': 1280,
        'in_chans': 3,
        'intermediate_size': 3420,
        'num_heads': 16,
        'out_hidden_size': text['hidden_size'],
        'patch_size': 14,
        'spatial_merge_size': 2,
        'spatial_patch_size': 14,
        'temporal_patch_size': 2,
        'tokens_per_second': 2,
        'window_size': 112,
    }
    return {
        **text,
        **_TOKENS,
        'architectures': ['Qwen2_5_VLForConditionalGeneration'],
        'max_position_embeddings': 128_000,
        'model_type': 'qwen2_5_vl',
        'rope_scaling': {'type': 'mrope', 'mrope_section': [16, 24, 24]},
        'vision_config': vision,
        'vision_token_id': 151_654,
    }


_LLAMA3 = {
    **_DENSE,
    'architectures': ['LlamaForCausalLM'],
    'model_type': 'llama',
    'attention_bias': False,
    'bos_token_id': 128_000,
    'eos_token_id': [128_001, 128_008, 128_009],
    'max_position_embeddings': 131_072,
    'mlp_bias': False,
    'num_key_value_heads': 8,
    'rms_norm_eps': 1e-5,
    'rope_theta': 500_000.0,
    'vocab_size': 128_256,
}


def _llama3(rope_factor: float, *sizes: int, tie: bool = False) -> dict[str, Any]:
    """Makes a Llama 3 whose rope stretches the low frequencies."""
    rope = {
        'factor': rope_factor,
        'high_freq_factor': 4.0,
        'low_freq_factor': 1.0,
        'original_max_position_embeddings': 8192,
        'rope_type': 'llama3',
    }
    return _LLAMA3 | _sizes(*sizes, tie=tie) | {'rope_scaling': rope}


_LLAMA3_8B = _llama3(8.0, 4096, 14_336, 32, 32)

_SMOLLM2 = {
    **_DENSE,
    'architectures': ['LlamaForCausalLM'],
    'model_type': 'llama',
    'attention_bias': False,
    'bos_token_id': 1,
    'eos_token_id': 2,
    'max_position_embeddings': 8192,
    'mlp_bias': False,
    'pad_token_id': 2,
    'rms_norm_eps': 1e-5,
    'rope_interleaved': False,
    'rope_scaling': None,
    'rope_theta': 100_000,
    'vocab_size': 49_152,
}


def _smollm2(kv_heads: int, *sizes: int) -> dict[str, Any]:
    return _SMOLLM2 | {'num_key_value_heads': kv_heads} | _sizes(*sizes, tie=True)


_GEMMA3 = {
    'architectures': ['Gemma3ForCausalLM'],
    'model_type': 'gemma3_text',
    'attention_bias': False,
    'attention_dropout': 0.0,
    'attn_logit_softcapping': None,
    'bos_token_id': 2,
    'eos_token_id': [1, 106],
    'final_logit_softcapping': None,
    'head_dim': 256,
    'hidden_activation': 'gelu_pytorch_tanh',
    'max_position_embeddings': 32_768,
    'num_key_value_heads': 1,
    'pad_token_id': 0,
    'query_pre_attn_scalar': 256,
    'rms_norm_eps': 1e-6,
    'rope_local_base_freq': 10_000.0,
    'rope_scaling': None,
    'rope_theta': 1_000_000.0,
    'sliding_window': 512,
    'sliding_window_pattern': 6,
    'torch_dtype': 'bfloat16',
    'vocab_size': 262_144,
}

_OLMO3_7B = {
    **_DENSE,
    **_sizes(4096, 11_008, 32, 32),
    'architectures': ['Olmo3ForCausalLM'],
    'model_type': 'olmo3',
    'attention_bias': False,
    'bos_token_id': None,
    'eos_token_id': 100_257,
    'layer_types': [*3 * ['sliding_attention'], 'full_attention'] * 8,
    'max_position_embeddings': 65_536,
    'num_key_value_heads': 32,
    'pad_token_id': 100_277,
    'rms_norm_eps': 1e-6,
    'rope_scaling': {
        'attention_factor': 1.2079441541679836,
        'beta_fast': 32.0,
        'beta_slow': 1.0,
        'factor': 8.0,
        'original_max_position_embeddings': 8192,
        'rope_type': 'yarn',
    },
    'rope_theta': 500_000,
    'sliding_window': 4096,
    'vocab_size': 100_278,
}

_SMOLLM3_3B = {
    **_DENSE,
    **_sizes(2048, 11_008, 36, 16, tie=True),
    'architectures': ['SmolLM3ForCausalLM'],
    'model_type': 'smollm3',
    'attention_bias': False,
    'bos_token_id': None,
    'eos_token_id': 128_012,
    'layer_types': 36 * ['full_attention'],
    'max_position_embeddings': 65_536,
    'max_window_layers': 28,
    'mlp_bias': False,
    'no_rope_layer_interval': 4,
    'no_rope_layers': 9 * [1, 1, 1, 0],
    'num_key_value_heads': 4,
    'pad_token_id': 128_004,
    'pretraining_tp': 2,
    'rms_norm_eps': 1e-6,
    'rope_scaling': None,
    'rope_theta': 5_000_000.0,
    'sliding_window': None,
    'use_sliding_window': False,
    'vocab_size': 128_256,
}

# The variants of July 2025: another base and context.
_QWEN3_2507 = {'max_position_embeddings': 262_144, 'rope_theta': 5_000_000}

# Hub name -> fields of its config.json.
PUBLISHED: Mapping[str, Fields] = {
    'Qwen/Qwen2.5-0.5B-Instruct': _qwen2(2, 151_936, 896, 4864, 24, 14, tie=True),
    'Qwen/Qwen2.5-1.5B-Instruct': _QWEN2_1_5B,
    'Qwen/Qwen2.5-3B-Instruct': _QWEN2_3B,
    'Qwen/Qwen2.5-7B-Instruct': _QWEN2_7B,
    'Qwen/Qwen2.5-32B-Instruct': _qwen2(8, 152_064, 5120, 27_648, 64, 40),
    'Qwen/Qwen3-0.6B': _QWEN3 | _sizes(1024, 3072, 28, 16, tie=True),
    'Qwen/Qwen3-4B-Instruct-2507': _QWEN3
    | _QWEN3_2507
    | _sizes(2560, 9728, 36, 32, tie=True),
    'Qwen/Qwen3-8B': _QWEN3 | _sizes(4096, 12_288, 36, 32),
    'Qwen/Qwen3-30B-A3B': _QWEN3_MOE | _sizes(2048, 6144, 48, 32),
    'Qwen/Qwen3-VL-2B-Instruct': _qwen3_vl(_SMALL_TOWER, 2048, 6144, 28, 16, tie=True),
    'Qwen/Qwen3-VL-4B-Instruct': _qwen3_vl(_SMALL_TOWER, 2560, 9728, 36, 32, tie=True),
    'Qwen/Qwen3-VL-8B-Instruct': _qwen3_vl(_TOWER, 4096, 12_288, 36, 32, tie=False),
    'Qwen/Qwen3-VL-30B-A3B-Instruct': _qwen3_vl(
        _TOWER, 2048, 6144, 48, 32, tie=False, experts=True
    ),
    'Qwen/Qwen2.5-VL-3B-Instruct': _qwen25_vl(_QWEN2_3B),
    'Qwen/Qwen2.5-VL-7B-Instruct': _qwen25_vl(_QWEN2_7B),
    'meta-llama/Llama-3.2-1B-Instruct': _llama3(32.0, 2048, 8192, 16, 32, tie=True)
    | {'head_dim': 64},
    'meta-llama/Llama-3.2-3B-Instruct': _llama3(32.0, 3072, 8192, 28, 24, tie=True)
    | {'head_dim': 128},
    'meta-llama/Llama-3.1-8B-Instruct': _LLAMA3_8B,
    'deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B': _QWEN2_1_5B | _R1_QWEN,
    'deepseek-ai/DeepSeek-R1-Distill-Qwen-7B': _QWEN2_7B | _R1_QWEN,
    'deepseek-ai/DeepSeek-R1-Distill-Llama-8B': _LLAMA3_8B | {'eos_token_id': 128_001},
    'HuggingFaceTB/SmolLM3-3B': _SMOLLM3_3B,
    'google/gemma-3-270m-it': _GEMMA3 | _sizes(640, 2048, 18, 4, tie=True),
    'google/gemma-3-1b-it': _GEMMA3 | _sizes(1152, 6912, 26, 4, tie=True),
    'allenai/Olmo-3-7B-Instruct': _OLMO3_7B,
    'HuggingFaceTB/SmolLM2-135M-Instruct': _smollm2(3, 576, 1536, 30, 9),
    'HuggingFaceTB/SmolLM2-360M-Instruct': _smollm2(5, 960, 2560, 32, 15),
}
