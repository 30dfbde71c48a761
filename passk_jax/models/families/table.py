"""The model families by the ``model_type`` of their ``config.json``."""

from collections.abc import Mapping
from typing import Any

from passk_jax.errors import InputError
from passk_jax.models.families import (
    gemma3_text,
    llama,
    mistral,
    olmo3,
    qwen2,
    qwen2_5_vl,
    qwen3,
    qwen3_moe,
    qwen3_vl,
    qwen3_vl_moe,
    smollm3,
)
from passk_jax.models.families.family import Family

FAMILIES: Mapping[str, Family] = {
    module.FAMILY.model_type: module.FAMILY
    for module in (
        *(llama, mistral, qwen2, qwen2_5_vl),
        *(qwen3, qwen3_moe, qwen3_vl, qwen3_vl_moe),
        *(gemma3_text, olmo3, smollm3),
    )
}


def family_of(model_type: Any) -> Family:
    """Returns the family of this ``model_type``.

    Raises:
        InputError: no family has it.
    """
    # A file may hold a value of any kind, and a list cannot be looked up.
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise InputError(f'{model_type=} is none of {sorted(FAMILIES)}')
    return FAMILIES[model_type]
