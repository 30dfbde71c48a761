"""SmolLM3: a Llama in which every fourth layer has no rotary positions."""

from passk_jax.models.families.family import QWEN_WINDOWS, Family

FAMILY = Family(
    model_type='smollm3',
    architecture='SmolLM3ForCausalLM',
    pieces={'qkv_bias': False, 'qk_norm': False},
    fixed={
        'hidden_act': 'silu',
        'attention_bias': False,
        'attention_dropout': 0.0,
        'mlp_bias': False,
    },
    window_fields=QWEN_WINDOWS | {'no_rope_layers', 'no_rope_layer_interval'},
    # Published files have 2, which transformers does not read.
    inert=frozenset({'pretraining_tp'}),
)
