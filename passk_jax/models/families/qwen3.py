"""Qwen3, dense: queries and keys normalized head by head, no bias."""

from passk_jax.models.families.family import QWEN_WINDOWS, Family

FAMILY = Family(
    model_type='qwen3',
    architecture='Qwen3ForCausalLM',
    pieces={'qkv_bias': False, 'qk_norm': True},
    fixed={'hidden_act': 'silu', 'attention_bias': False, 'attention_dropout': 0.0},
    window_fields=QWEN_WINDOWS,
)
