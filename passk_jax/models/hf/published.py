"""What the published ``config.json`` of the paper's models says of their sizes.

For places that need the sizes of a model where nothing can be downloaded: the planner
(``python -m passk_jax.plan``) and the tests. Each entry holds, as published, the fields
that decide the network, and the token ids, context and dtype beside them; fields that
change no logit (initialisation, caching, versions, the windows that
``use_sliding_window: false`` switches off) are left out. Written to a ``config.json``
it is read like any other, by ``models.hf_config``.

It is no registry: a model need not stand here to be trained, and where ``model.source``
can be read, its own ``config.json`` is what counts.

The figures were compared with copies of these files and their readings in public code
(LitGPT's and tunix's tables of models, verl's and xDiT's copies of Qwen's files,
llama.cpp's listings of the DeepSeek distillates); tests/models/published_test.py counts
the parameters that follow from them against the published numbers.
"""

from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]

_DENSE = {'attention_dropout': 0.0, 'hidden_act': 'silu', 'torch_dtype': 'bfloat16'}

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

# Sizes of two models each: Qwen2.5 and the distillate made of Qwen2.5-Math, which
# differs in its rotary base, context, end token and (1.5B) its own head.
_QWEN2_1_5B = {
    'hidden_size': 1536,
    'intermediate_size': 8960,
    'num_attention_heads': 12,
    'num_hidden_layers': 28,
    'num_key_value_heads': 2,
    'vocab_size': 151_936,
}
_QWEN2_7B = {
    'hidden_size': 3584,
    'intermediate_size': 18_944,
    'num_attention_heads': 28,
    'num_hidden_layers': 28,
    'num_key_value_heads': 4,
    'vocab_size': 152_064,
}
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
_LLAMA3_8B = {
    'hidden_size': 4096,
    'intermediate_size': 14_336,
    'num_attention_heads': 32,
    'num_hidden_layers': 32,
    'tie_word_embeddings': False,
}


def _llama3_rope(factor: float) -> dict[str, Any]:
    """Llama 3's stretching of the low frequencies; only the factor differs."""
    return {
        'rope_scaling': {
            'factor': factor,
            'high_freq_factor': 4.0,
            'low_freq_factor': 1.0,
            'original_max_position_embeddings': 8192,
            'rope_type': 'llama3',
        }
    }


# Hub name -> fields of its config.json.
PUBLISHED: Mapping[str, Fields] = {
    'Qwen/Qwen2.5-0.5B-Instruct': {
        **_QWEN2,
        'hidden_size': 896,
        'intermediate_size': 4864,
        'num_attention_heads': 14,
        'num_hidden_layers': 24,
        'num_key_value_heads': 2,
        'tie_word_embeddings': True,
        'vocab_size': 151_936,
    },
    'Qwen/Qwen2.5-1.5B-Instruct': {
        **_QWEN2,
        **_QWEN2_1_5B,
        'tie_word_embeddings': True,
    },
    'Qwen/Qwen2.5-7B-Instruct': {
        **_QWEN2,
        **_QWEN2_7B,
        'tie_word_embeddings': False,
    },
    'Qwen/Qwen2.5-32B-Instruct': {
        **_QWEN2,
        'hidden_size': 5120,
        'intermediate_size': 27_648,
        'num_attention_heads': 40,
        'num_hidden_layers': 64,
        'num_key_value_heads': 8,
        'tie_word_embeddings': False,
        'vocab_size': 152_064,
    },
    'Qwen/Qwen3-0.6B': {
        **_QWEN3,
        'hidden_size': 1024,
        'intermediate_size': 3072,
        'num_attention_heads': 16,
        'num_hidden_layers': 28,
        'tie_word_embeddings': True,
    },
    'Qwen/Qwen3-8B': {
        **_QWEN3,
        'hidden_size': 4096,
        'intermediate_size': 12_288,
        'num_attention_heads': 32,
        'num_hidden_layers': 36,
        'tie_word_embeddings': False,
    },
    'meta-llama/Llama-3.2-1B-Instruct': {
        **_LLAMA3,
        **_llama3_rope(32.0),
        'head_dim': 64,
        'hidden_size': 2048,
        'intermediate_size': 8192,
        'num_attention_heads': 32,
        'num_hidden_layers': 16,
        'tie_word_embeddings': True,
    },
    'meta-llama/Llama-3.2-3B-Instruct': {
        **_LLAMA3,
        **_llama3_rope(32.0),
        'head_dim': 128,
        'hidden_size': 3072,
        'intermediate_size': 8192,
        'num_attention_heads': 24,
        'num_hidden_layers': 28,
        'tie_word_embeddings': True,
    },
    'meta-llama/Llama-3.1-8B-Instruct': {
        **_LLAMA3,
        **_LLAMA3_8B,
        **_llama3_rope(8.0),
    },
    'deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B': {
        **_QWEN2,
        **_QWEN2_1_5B,
        **_R1_QWEN,
    },
    'deepseek-ai/DeepSeek-R1-Distill-Qwen-7B': {
        **_QWEN2,
        **_QWEN2_7B,
        **_R1_QWEN,
    },
    'deepseek-ai/DeepSeek-R1-Distill-Llama-8B': {
        **_LLAMA3,
        **_LLAMA3_8B,
        **_llama3_rope(8.0),
        'eos_token_id': 128_001,
    },
}
