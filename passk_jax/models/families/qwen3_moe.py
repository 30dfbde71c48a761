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
        # Every layer has experts, as in all published models.
        'decoder_sparse_step': 1,
        'mlp_only_layers': [],
        # Qwen3-Coder's file states these, which transformers does not read.
        **{'qkv_bias': False, 'use_qk_norm': True},
        'shared_expert_intermediate_size': 0,
    },
    # A window applies to every layer.
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
            # Published files have this field of dense models.
            'max_window_layers',
            # Options to return the router's scores, and a loss on them.
            *('output_router_logits', 'router_aux_loss_coef'),
        }
    ),
)
