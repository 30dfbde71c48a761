"""Qwen2 and Qwen2.5, and DeepSeek-R1-Distill-Qwen: QKV bias, no other."""

from passk_jax.models.families.family import Family

FAMILY = Family(
    model_type='qwen2',
    architecture='Qwen2ForCausalLM',
    qkv_bias=True,
    qk_norm=False,
    fixed={
        'hidden_act': 'silu',
        'attention_dropout': 0.0,
        'use_sliding_window': False,
        # Of R1-Distill's config.json, which says that it has none.
        'use_mrope': False,
    },
    # The window's sizes, dead while use_sliding_window is false.
    inert=frozenset({'max_window_layers', 'sliding_window'}),
)
