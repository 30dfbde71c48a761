"""Fields of a ``config.json`` that change no logit of our families.

Programs that publish or save a model add notes and repeat defaults.
:mod:`passk_jax.models.hf.config` rejects fields that neither this module nor its tables
list.
"""

from collections.abc import Mapping
from typing import Any

# Readers of the fields -> their names, separated by blanks.
_READERS = {
    'transformers, for notes and for what it returns besides logits': (
        '_attn_implementation _attn_implementation_autoset '
        '_attn_implementation_internal _commit_hash _experts_implementation '
        '_flash_attn_2_enabled _name_or_path '
        'attn_implementation gradient_checkpointing keys_to_ignore_at_inference '
        'loss_type neftune_noise_alpha output_attentions output_hidden_states '
        'output_router_logits output_scores prefix return_dict '
        'return_dict_in_generate task_specific_params tf_legacy_loss torchscript '
        'transformers_version use_cache'
    ),
    'heads of classes': (
        'classifier_dropout finetuning_task id2label label2id num_labels problem_type'
    ),
    'encoders and decoders, of which a causal model is neither': (
        'chunk_size_feed_forward decoder_start_token_id is_decoder'
    ),
    # Older versions of transformers store these here; runs sample by their settings.
    'generate()': (
        'bad_words_ids begin_suppress_tokens cache_implementation diversity_penalty '
        'do_sample early_stopping encoder_no_repeat_ngram_size '
        'exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id '
        'length_penalty max_length max_new_tokens min_length min_new_tokens min_p '
        'no_repeat_ngram_size num_beam_groups num_beams num_return_sequences '
        'remove_invalid_values repetition_penalty suppress_tokens temperature top_k '
        'top_p typical_p'
    ),
    'the tokenizer': (
        'bos_token_id eos_token_id pad_token_id sep_token_id mask_token_id '
        'unk_token_id max_sequence_length model_max_length padding_side '
        'tokenizer_class'
    ),
    'trainers, for the dtypes; a run has its own': (
        'dtype torch_dtype use_bfloat16 use_flash_attention_2 use_flash_attn'
    ),
    # Loading overwrites every initial weight.
    'initialisation': 'initializer_range',
    'unsloth, nanotron and transformers.js': (
        'unsloth_fixed unsloth_version is_llama_config transformers.js_config'
    ),
}
FIELDS = frozenset(' '.join(_READERS.values()).split())
"""Fields that change nothing, with any value."""

VALUES: Mapping[str, Any] = {
    # RoPE rotates the halves of a head together, not neighbours (SmolLM2).
    'rope_interleaved': False,
    # RoPE rotates the whole head.
    'partial_rotary_factor': 1.0,
    # Other values mean other networks; families/ has more such fields.
    'add_cross_attention': False,
    'cross_attention_hidden_size': None,
    'is_encoder_decoder': False,
    'mlp_bias': False,
    'pretraining_tp': 1,
    'pruned_heads': {},
    'quantization_config': None,
    'tie_encoder_decoder': False,
    'use_mrope': False,
}
"""Fields that may be present only with this value, which every family implies."""
