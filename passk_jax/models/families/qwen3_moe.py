"""Qwen3 with experts in every layer; queries and keys normalized head by head."""

from passk_jax.models.families.family import Family

FAMILY = Family(
    model_type='qwen3_moe',
    architecture='Qwen3MoeForCausalLM',
    pieces={'qkv_bias': False, 'qk_norm': True},
    fixed={
        'hidden_act': 'silu',
        'attention_bias': False,
        'attention_dropout': 0.0,
        # Every layer has experts: no published model has other layers.
        'decoder_sparse_step': 1,
        'mlp_only_layers': [],
    },
    # A window is one of every layer.
    window_fields=frozenset({'sliding_window', 'use_sliding_window'}),
    feed_forward='moe',
    sizes={
        'mlp_dim': 'moe_intermediate_size',
        'num_experts': 'num_experts',
        'experts_per_token': 'num_experts_per_tok',
        'norm_topk_prob': 'norm_topk_prob',
    },
    synonyms={'num_local_experts': 'num_experts'},
    inert=frozenset(
        {
            # Fields of layers without experts.
            'intermediate_size',
            # A field of dense models that published files have.
            'max_window_layers',
            # The router's scores among the results, and a loss on them.
            *('output_router_logits', 'router_aux_loss_coef'),
        }
    ),
)
