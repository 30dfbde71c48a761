"""Olmo 3: norms after attention and MLP, queries and keys normalized over all heads.

Three of four layers have a window. The others have a rope that yarn stretches.
"""

from passk_jax.models.families.family import Family

FAMILY = Family(
    model_type='olmo3',
    architecture='Olmo3ForCausalLM',
    pieces={
        'qkv_bias': False,
        'qk_norm': True,
        'qk_norm_over_heads': True,
        'norms': 'after',
        'norm_scale': 'wide',
    },
    fixed={'hidden_act': 'silu', 'attention_bias': False, 'attention_dropout': 0.0},
    window_fields=frozenset({'layer_types', 'sliding_window'}),
    ropes_by_kind=True,
)
