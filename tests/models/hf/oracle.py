"""Tiny models made and run by transformers, and ours that are read from them."""

import json
import pathlib
from typing import Any

import jax
import numpy as np
import torch
import transformers
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf import weights
from passk_jax.models.policy import Params, Policy
from passk_jax.types import Prompts
from tests.models.oracle import equal_sections

# Original contexts shorter than the tests' sequences, so that stretching shows.
ROPES: dict[str, dict[str, Any]] = {
    'default': {},
    'linear': {'factor': 2.5},
    'llama3': {
        'factor': 4.0,
        'original_max_position_embeddings': 16,
        'low_freq_factor': 1.0,
        'high_freq_factor': 4.0,
    },
    'yarn': {'factor': 4.0, 'original_max_position_embeddings': 16},
}

# Windows shorter than the tests' sequences: in every layer, in turns, at the end.
WINDOWS: dict[str, dict[str, Any]] = {
    'mistral': {'sliding_window': 4},
    'qwen2': {
        'num_hidden_layers': 4,
        'use_sliding_window': True,
        'sliding_window': 3,
        'layer_types': ['full_attention', 'sliding_attention'] * 2,
    },
    'qwen3': {
        'num_hidden_layers': 3,
        'use_sliding_window': True,
        'sliding_window': 5,
        'max_window_layers': 1,
    },
    'qwen3_moe': {'use_sliding_window': True, 'sliding_window': 4},
}

# Fields of a family's own.
EXPERTS = {
    'moe_intermediate_size': 24,
    'num_experts': 8,
    'num_experts_per_tok': 3,
    'norm_topk_prob': True,
}
# Both kinds of layers, and windows shorter than the tests' sequences.
TWO_KINDS = {
    'layer_types': ['sliding_attention', 'full_attention'],
    'sliding_window': 4,
}
FAMILY_SIZES: dict[str, dict[str, Any]] = {
    'qwen3_moe': EXPERTS,
    'qwen3_vl_moe': EXPERTS,
    'gemma3_text': TWO_KINDS | {'query_pre_attn_scalar': 12},
    'olmo3': TWO_KINDS,
    'smollm3': {'no_rope_layers': [1, 0]},
}

# Of the families that read pictures; the taps leave blocks between and after them. A
# window has 4 x 4 patches, so that pictures have windows of unequal sizes.
VISION = {
    'depth': 4,
    'hidden_size': 32,
    'intermediate_size': 40,
    'num_heads': 4,
    'patch_size': 4,
    'out_hidden_size': 32,
}
DEEPSTACK = {'num_position_embeddings': 36, 'deepstack_visual_indexes': [0, 2]}
FAMILY_VISION: dict[str, dict[str, Any]] = {
    'qwen2_5_vl': {'window_size': 19, 'fullatt_block_indexes': [1]},
    'qwen3_vl': DEEPSTACK,
    'qwen3_vl_moe': DEEPSTACK,
}
IMAGE_TOKEN = 39

_SIZES = {
    'vocab_size': 40,
    'num_hidden_layers': 2,
    'hidden_size': 32,
    'num_attention_heads': 4,
    'num_key_value_heads': 2,
    'head_dim': 8,
    'intermediate_size': 48,
    'max_position_embeddings': 64,
    'tie_word_embeddings': False,
    'bos_token_id': None,
    'eos_token_id': None,
    'pad_token_id': None,
}


def make_model(
    family: str,
    *,
    rope: str = 'default',
    theta: float = 1e3,
    seed: int = 0,
    image_token: int = 0,
    **sizes: Any,
) -> transformers.PreTrainedModel:
    """A model in which every parameter is random, norms and biases too."""
    # Without the field, transformers gives Mistral a window.
    windows = {'sliding_window': None} if family == 'mistral' else {}
    layers = sizes.get('num_hidden_layers', _SIZES['num_hidden_layers'])
    family_sizes = {
        name: (layers * value)[:layers] if isinstance(value, list) else value
        for name, value in FAMILY_SIZES.get(family, {}).items()
    }
    parts = FAMILIES[family]
    fields = _SIZES | family_sizes | windows | sizes
    fields['rope_parameters'] = stated = rope_parameters(family, rope, theta)
    if parts.vision:
        sections = list(equal_sections(fields['head_dim']))
        stated['mrope_section'] = sections
        if parts.vision.interleaved:
            stated['mrope_interleaved'] = True
        vision = VISION | FAMILY_VISION[family]
        vision['out_hidden_size'] = fields['hidden_size']
        vision |= fields.pop('vision_config', {})
        fields = {
            **{'text_config': fields, 'vision_config': vision},
            'image_token_id': image_token or fields['vocab_size'] - 1,
            'tie_word_embeddings': fields['tie_word_embeddings'],
        }
    config = transformers.AutoConfig.for_model(
        family,
        **fields,
        attn_implementation='eager',
        # Their grouped products take no rows of odd sizes.
        experts_implementation='eager',
    )
    model = getattr(transformers, parts.architecture)._from_config(config).eval()
    generator = torch.Generator().manual_seed(seed)
    one_plus = FAMILIES[family].pieces.get('norm_scale') == 'one_plus'
    with torch.no_grad():
        for name, x in model.named_parameters():
            x.copy_(0.15 * torch.randn(x.shape, generator=generator))
            x += name.endswith('norm.weight') and not one_plus
    return model


def rope_parameters(family: str, kind: str, theta: float) -> dict[str, Any]:
    """The fields of a rope, or of both where layers with a window have another one."""
    rope = {'rope_type': kind, 'rope_theta': theta, **ROPES[kind]}
    if not FAMILIES[family].ropes_by_kind:
        return rope
    plain = {'rope_type': 'default', 'rope_theta': theta / 8}
    return {'full_attention': rope, 'sliding_attention': plain}


def load(directory: str | pathlib.Path, **options: Any) -> Any:
    """What transformers makes of a directory, of the class that its file names."""
    fields = json.loads((pathlib.Path(directory) / 'config.json').read_text())
    (name,) = fields['architectures']
    return getattr(transformers, name).from_pretrained(directory, **options)


def read(
    directory: pathlib.Path, mesh: jax.sharding.Mesh | None = None, **options: str
) -> tuple[Policy, Params]:
    """Our policy of a directory, float32 unless ``options`` say otherwise."""
    chosen = {
        'param_dtype': 'float32',
        'compute_dtype': 'float32',
        'remat': 'none',
        'attention': 'plain',
    }
    arch = hf_config.arch_from_hf(str(directory), **(chosen | options))
    policy = Policy(arch, head_chunk_tokens=16)
    mesh = one_device() if mesh is None else mesh
    return policy, weights.load_params(policy, str(directory), mesh)


def one_device() -> jax.sharding.Mesh:
    return sharding.make_mesh(
        data=1, fsdp=1, rollout=1, tensor=1, devices=jax.devices()[:1]
    )


def unequal_prompts(vocab_size: int, *, lengths: tuple[int, ...], seed: int) -> Prompts:
    """Random prompts, with random tokens in the pads on their right too."""
    rng = np.random.default_rng(seed)
    shape = (len(lengths), max(lengths))
    return Prompts(
        tokens=jnp.asarray(rng.integers(0, vocab_size, shape), jnp.int32),
        lengths=jnp.asarray(lengths, jnp.int32),
        problem_ids=jnp.arange(len(lengths), dtype=jnp.int32),
    )


def one_prompt(tokens: list[int]) -> Prompts:
    return Prompts(
        tokens=jnp.asarray([tokens], jnp.int32),
        lengths=jnp.asarray([len(tokens)], jnp.int32),
        problem_ids=jnp.zeros(1, jnp.int32),
    )


def left_padded(prompts: Prompts) -> dict[str, torch.Tensor]:
    """Prompts as transformers takes them: pads on the left, masked."""
    tokens, lengths = np.asarray(prompts.tokens), np.asarray(prompts.lengths)
    shape = tokens.shape
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, (ours, length) in enumerate(zip(tokens, lengths, strict=True)):
        ids[row, shape[1] - length :] = ours[:length]
        mask[row, shape[1] - length :] = 1
    return {'input_ids': torch.tensor(ids), 'attention_mask': torch.tensor(mask)}


@torch.no_grad()
def their_logits(
    model: transformers.PreTrainedModel, inputs: dict[str, torch.Tensor]
) -> np.ndarray:
    """``[P, S, V]`` of left-padded inputs."""
    positions = (inputs['attention_mask'].cumsum(-1) - 1).clamp(min=0)
    return model(**inputs, position_ids=positions).logits.numpy()


@jax.jit(static_argnums=0)
def our_logits(policy: Policy, params: Params, prompts: Prompts) -> jax.Array:
    """``[P, S, V]`` of right-padded prompts, the pads' too."""
    P, S = prompts.tokens.shape
    model = policy.bind(params)
    positions = jnp.broadcast_to(jnp.arange(S), (P, 1, S))
    (hidden,), *_ = model.forward((prompts.tokens[:, None],), (positions,), keep=False)
    return model.logits(hidden[None, None, :, 0], model.head_weights((1, 1)))[0, 0]


def logits_error(
    model: transformers.PreTrainedModel,
    policy: Policy,
    params: Params,
    prompts: Prompts,
) -> float:
    """The largest difference at any token of any prompt."""
    expected = their_logits(model, left_padded(prompts))
    ours = np.asarray(our_logits(policy, params, prompts))
    S = ours.shape[1]
    errors = [
        np.abs(ours[row, :length] - expected[row, S - length :]).max()
        for row, length in enumerate(np.asarray(prompts.lengths))
    ]
    return max(errors)
