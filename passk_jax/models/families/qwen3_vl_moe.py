"""Qwen3-VL with experts in every layer; a checkpoint has one tensor per layer."""

import dataclasses

from passk_jax.models.families import qwen3_moe, qwen3_vl

FAMILY = dataclasses.replace(
    qwen3_moe.FAMILY,
    model_type='qwen3_vl_moe',
    architecture='Qwen3VLMoeForConditionalGeneration',
    # transformers does not read norm_topk_prob, which published files have.
    pieces={
        **qwen3_moe.FAMILY.pieces,
        'norm_topk_prob': True,
        'fused_experts': True,
    },
    fixed={
        **qwen3_moe.FAMILY.fixed,
        'norm_topk_prob': True,
        'sliding_window': None,
    },
    window_fields=frozenset(),
    sizes={
        ours: name
        for ours, name in qwen3_moe.FAMILY.sizes.items()
        if ours != 'norm_topk_prob'
    },
    vision=dataclasses.replace(
        qwen3_vl.VISION,
        text_type='qwen3_vl_moe_text',
        vision_types=('qwen3_vl_moe_vision', 'qwen3_vl_moe'),
    ),
)
