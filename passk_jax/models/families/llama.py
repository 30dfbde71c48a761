"""Llama 3, 3.1 and 3.2, and DeepSeek-R1-Distill-Llama: no bias, llama3 positions."""

from passk_jax.models.families.family import Family

FAMILY = Family(
    model_type='llama',
    architecture='LlamaForCausalLM',
    pieces={'qkv_bias': False, 'qk_norm': False},
    fixed={
        'hidden_act': 'silu',
        'attention_bias': False,
        'attention_dropout': 0.0,
        'mlp_bias': False,
        # A larger value changes the order of sums.
        'pretraining_tp': 1,
    },
)
