"""Qwen2 and Qwen2.5, and DeepSeek-R1-Distill-Qwen: bias in QKV and nowhere else."""

from passk_jax.models.families.family import QWEN_WINDOWS, Family

FAMILY = Family(
    model_type='qwen2',
    architecture='Qwen2ForCausalLM',
    pieces={'qkv_bias': True, 'qk_norm': False},
    fixed={
        'hidden_act': 'silu',
        'attention_dropout': 0.0,
        # Only R1-Distill's config.json has this field.
        'use_mrope': False,
    },
    window_fields=QWEN_WINDOWS,
)
