"""Mistral: no bias; the first models have a window in every layer, later ones none."""

from passk_jax.models.families.family import Family

FAMILY = Family(
    model_type='mistral',
    architecture='MistralForCausalLM',
    pieces={'qkv_bias': False, 'qk_norm': False},
    fixed={'hidden_act': 'silu', 'attention_dropout': 0.0},
    window_fields=frozenset({'sliding_window'}),
)
