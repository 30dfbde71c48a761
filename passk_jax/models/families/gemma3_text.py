"""Gemma 3, text: windows in five of six layers, two ropes, norms before and after."""

from passk_jax.models.families.family import Family

FAMILY = Family(
    model_type='gemma3_text',
    architecture='Gemma3ForCausalLM',
    pieces={
        'qkv_bias': False,
        'qk_norm': True,
        'norms': 'both',
        'norm_scale': 'one_plus',
        'scale_embedding': True,
    },
    fixed={
        'hidden_activation': 'gelu_pytorch_tanh',
        'attention_bias': False,
        'attention_dropout': 0.0,
        'attn_logit_softcapping': None,
        'final_logit_softcapping': None,
        'use_bidirectional_attention': False,
    },
    window_fields=frozenset(
        {
            *('layer_types', 'sliding_window', 'sliding_window_pattern'),
            # transformers writes this field, but does not read it.
            '_sliding_window_pattern',
            # The base of the rope of the layers with a window.
            'rope_local_base_freq',
        }
    ),
    ropes_by_kind=True,
    feed_forward='geglu',
    sizes={'query_scalar': 'query_pre_attn_scalar'},
)
