import dataclasses
import re

import pytest
import transformers

from passk_jax.models.arch import Vision
from passk_jax.models.families.table import FAMILIES, family_of
from passk_jax.models.feed_forward import FEED_FORWARDS
from tests.models import oracle


@pytest.mark.parametrize('name', FAMILIES)
def test_a_family_is_known_to_transformers_under_its_names(name):
    family = family_of(name)
    parts = family.vision
    assert family.model_type == name
    config = getattr(transformers, family.architecture).config_class
    assert config.model_type == name
    # Each named field is one of theirs: a misspelt one would never refuse a file.
    reference = config().get_text_config()
    fields = vars(reference).keys() | {
        'pretraining_tp',
        'use_mrope',
        'max_window_layers',
    }
    # transformers 5.17 does not know it in every family.
    fields |= {'output_router_logits'}
    # Older spellings, which they convert.
    fields |= {'sliding_window_pattern', 'rope_local_base_freq'}
    fields |= reference.attribute_map.keys()
    # Fields that only published files have.
    fields |= {'norm_topk_prob'} if parts else set()
    if family.feed_forward == 'moe':
        # As Qwen3-Coder's.
        fields |= {'qkv_bias', 'use_qk_norm', 'shared_expert_intermediate_size'}
    stated = family.fixed.keys() | family.window_fields | family.inert
    assert stated | {*family.sizes.values(), *family.synonyms} <= fields
    if parts:
        assert reference.model_type == parts.text_type
        tower = config().vision_config
        assert tower.model_type == parts.vision_types[0]
        assert {*parts.sizes.values(), *parts.fixed} <= vars(tower).keys()
        assert parts.pieces.keys() <= {x.name for x in dataclasses.fields(Vision)}


@pytest.mark.parametrize('name', FAMILIES)
def test_a_family_chooses_pieces_that_a_block_has(name):
    family = family_of(name)
    assert family.feed_forward in FEED_FORWARDS
    arch = oracle.tiny_arch(feed_forward=family.feed_forward, **family.pieces)
    assert family.sizes.keys() <= vars(arch).keys()


@pytest.mark.parametrize('unknown', ['gpt2', '', None, ['qwen2'], {'qwen2': 1}])
def test_an_unknown_family_is_refused_with_the_choices(unknown):
    words = f'model_type={unknown!r} is none of {sorted(FAMILIES)}'
    with pytest.raises(ValueError, match=re.escape(words)):
        family_of(unknown)
