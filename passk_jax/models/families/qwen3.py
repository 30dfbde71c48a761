"""Qwen3, dense: queries and keys normalised head by head, no bias."""

from passk_jax.models.families.family import Family

FAMILY = Family(
    model_type='qwen3',
    architecture='Qwen3ForCausalLM',
    qkv_bias=False,
    qk_norm=True,
    fixed={
        'hidden_act': 'silu',
        'attention_bias': False,
        'attention_dropout': 0.0,
        'use_sliding_window': False,
    },
    # The window's sizes, dead while use_sliding_window is false.
    inert=frozenset({'max_window_layers', 'sliding_window'}),
)
