"""Qwen3-VL, dense: Qwen3 with a tower that reads pictures."""

from passk_jax.models.families import qwen3
from passk_jax.models.families.family import VISION_SIZES, Family, VisionFamily

VISION = VisionFamily(
    text_type='qwen3_vl_text',
    # Published files have the family's name here, too.
    vision_types=('qwen3_vl_vision', 'qwen3_vl'),
    sizes={
        **VISION_SIZES,
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
