"""Qwen2.5-VL: Qwen2 with a tower whose blocks look at windows of a picture."""

from passk_jax.models.families import qwen2
from passk_jax.models.families.family import VISION_SIZES, Family, VisionFamily

FAMILY = Family(
    model_type='qwen2_5_vl',
    architecture='Qwen2_5_VLForConditionalGeneration',
    pieces=qwen2.FAMILY.pieces,
    fixed={'hidden_act': 'silu', 'attention_dropout': 0.0},
    window_fields=qwen2.FAMILY.window_fields,
    derives_head_dim=True,
    vision=VisionFamily(
        text_type='qwen2_5_vl_text',
        vision_types=('qwen2_5_vl_vision', 'qwen2_5_vl'),
        sizes={
            **VISION_SIZES,
            'window_size': 'window_size',
            'global_blocks': 'fullatt_block_indexes',
        },
        fixed={'hidden_act': 'silu', 'in_channels': 3},
        pieces={'block': 'swiglu', 'short_names': True},
        synonyms={'in_chans': 'in_channels', 'spatial_patch_size': 'patch_size'},
        inert=frozenset({'tokens_per_second', 'vision_token_id'}),
        interleaved=False,
        flat=True,
    ),
)
