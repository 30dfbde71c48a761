"""The tiny experiment with another value in every field that reaches the mathematics.

No value is a default, that of ``tests/tiny.py``, or that of another field of its kind:
a setting that is fixed, forgotten or exchanged with another shows.
"""

from passk_jax.config import ExperimentConfig
from tests import tiny

CHANGES = {
    'seed': 17,
    'model__family': 'qwen3',
    'model__arch__num_layers': 2,
    'model__arch__embed_dim': 24,
    'model__arch__num_heads': 6,
    'model__arch__num_kv_heads': 3,
    'model__arch__head_dim': 10,
    'model__arch__mlp_dim': 40,
    'model__arch__rope_theta': 500.0,
    'model__arch__norm_eps': 1e-3,
    'model__arch__tie_embeddings': False,
    'model__param_dtype': 'bfloat16',
    'model__compute_dtype': 'bfloat16',
    'model__remat': 'full',
    'model__head_chunk_tokens': 64,
    'init__warm_start__steps': 3,
    'init__warm_start__batch_size': 12,
    'init__warm_start__num_problems': 20,
    'init__warm_start__demonstrations': 'ignore_walls',
    'init__warm_start__optimizer__learning_rate': 5e-3,
    'init__warm_start__optimizer__warmup_updates': 4,
    'init__warm_start__optimizer__b1': 0.7,
    'init__warm_start__optimizer__b2': 0.85,
    'init__warm_start__optimizer__eps': 1e-4,
    'init__warm_start__optimizer__weight_decay': 0.2,
    'init__warm_start__optimizer__max_grad_norm': 0.25,
    'task__params__seed': 5,
    'data__max_prompt_tokens': 28,
    'data__overlong': 'drop',
    'sampling__num_rollouts': 6,
    'sampling__max_response_tokens': 7,
    'sampling__max_cache_bytes': 1_000_000_007,
    'sampling__temperature': 0.7,
    'sampling__top_p': 0.9,
    'sampling__top_k': 6,
    'sampling__min_p': 0.02,
    'advantage__k': 3,
    'reward__flip_wrong': 0.25,
    'loss__clip_low': 0.1,
    'loss__clip_high': 0.3,
    'loss__aggregation': 'sequence',
    'loss__entropy_coef': 0.02,
    'loss__kl_coef': 0.03,
    'loss__kl_estimator': 'k1',
    'loss__mask_truncated': True,
    'loss__sampler_weight_cap': 3.0,
    'optimizer__learning_rate': 3e-3,
    'optimizer__warmup_updates': 7,
    'optimizer__b1': 0.8,
    'optimizer__b2': 0.9,
    'optimizer__eps': 1e-3,
    'optimizer__weight_decay': 0.3,
    'optimizer__max_grad_norm': 0.5,
    'train__num_prompts': 24,
    'train__mini_batch_prompts': 12,
    'train__micro_batch_prompts': 4,
    'train__pack_sizes': 3,
    'train__dynamic_sampling_rounds': 2,
    'eval__num_problems': 5,
    'eval__num_responses': 3,
    'eval__batch_size': 2,
    'eval__temperature': 0.6,
    'eval__top_p': 0.8,
    'eval__top_k': 5,
    'eval__min_p': 0.03,
    'eval__bootstrap_samples': 31,
    'eval__kept_responses': 7,
}


def make_config(**overrides) -> ExperimentConfig:
    """The changed experiment with ``section__key=value`` set."""
    return tiny.make_config(**CHANGES | overrides)
