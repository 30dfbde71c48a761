"""Qwen3-VL, dense: Qwen3 with a tower that reads pictures."""

from passk_jax.models.families import qwen3
from passk_jax.models.families.family import Family, VisionFamily

VISION = VisionFamily(
    text_type='qwen3_vl_text',
    # Published files repeat the family's name.
    vision_types=('qwen3_vl_vision', 'qwen3_vl'),
    sizes={
        'depth': 'depth',
        'embed_dim': 'hidden_size',
        'num_heads': 'num_heads',
        'mlp_dim': 'intermediate_size',
        'patch_size': 'patch_size',
        'frames': 'temporal_patch_size',
        'merge_size': 'spatial_merge_size',
        'table_size': 'num_position_embeddings',
        'taps': 'deepstack_visual_indexes',
    },
    fixed={'hidden_act': 'gelu_pytorch_tanh', 'in_channels': 3},
)

FAMILY = Family(
    model_type='qwen3_vl',
    architecture='Qwen3VLForConditionalGeneration',
    pieces=qwen3.FAMILY.pieces,
    fixed=qwen3.FAMILY.fixed,
    vision=VISION,
)
