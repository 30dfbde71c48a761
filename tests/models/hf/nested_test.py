"""Nested files of models that read pictures."""

import copy
import re

import pytest

from passk_jax.models.families.table import family_of
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf import nested
from passk_jax.models.hf.published import PUBLISHED
from tests.models import oracle
from tests.models.hf.config_test import read

SMALL = PUBLISHED['Qwen/Qwen3-VL-2B-Instruct']
SETTINGS = {'param_dtype': 'float32', 'compute_dtype': 'float32', 'remat': 'none'}


def changed(**changes):
    """Fields of a published model; ``a__b`` is b of section a, None no field."""
    fields = copy.deepcopy(dict(SMALL))
    for path, value in changes.items():
        *sections, name = path.split('__')
        section = fields
        for key in sections:
            section = section[key]
        if value is None:
            del section[name]
        else:
            section[name] = value
    return fields


def test_a_published_file_gives_text_and_tower():
    arch = read(changed())
    assert arch.layers[0].rope.sections == (24, 20, 20)
    assert (arch.vision.taps, arch.vision.table_size) == ((5, 11, 17), 48)
    assert arch.vision.image_token == 151_655
    assert hf_config.position_limit(SMALL) == 262_144


@pytest.mark.parametrize('outer', [True, False, None])
@pytest.mark.parametrize('inner', [True, False, None])
def test_the_outer_field_says_whether_the_head_is_tied(outer, inner):
    fields = changed(tie_word_embeddings=outer, text_config__tie_word_embeddings=inner)
    assert read(fields).tie_embeddings == bool(outer)


REFUSED = {
    'text_config=None must be an object': {'text_config': None},
    "vision_config='x' must be an object": {'vision_config': 'x'},
    'does not know: audio_config={}': {'audio_config': {}},
    "text_config: model_type='qwen3'; only 'qwen3_vl_text'": {
        'text_config__model_type': 'qwen3'
    },
    'does not know: sliding_window=4': {'text_config__sliding_window': 4},
    'every size must be stated; hidden_size=None': {'text_config__hidden_size': None},
    "vision_config: model_type='siglip' is none of": {
        'vision_config__model_type': 'siglip'
    },
    "vision_config: every size must be stated; ['depth'] are not": {
        'vision_config__depth': None
    },
    "stated; ['deepstack_visual_indexes'] are not": {
        'vision_config__deepstack_visual_indexes': None
    },
    'vision_config: fields that passk_jax does not know: window_size=112': {
        'vision_config__window_size': 112
    },
    "vision_config: hidden_act='silu'; only 'gelu_pytorch_tanh'": {
        'vision_config__hidden_act': 'silu'
    },
    'in_channels=1; only 3': {'vision_config__in_channels': 1},
    'out_hidden_size=2560 is not the hidden_size=2048': {
        'vision_config__out_hidden_size': 2560
    },
    'num_position_embeddings=2300 is no square': {
        'vision_config__num_position_embeddings': 2300
    },
    'num_position_embeddings=-4 is no square': {
        'vision_config__num_position_embeddings': -4
    },
    "quantization_config={'bits': 4}; only None": {'quantization_config': {'bits': 4}},
    'vision_config: use_mrope=True; only False': {'vision_config__use_mrope': True},
    'patch_size=[16, 16] must be a whole number': {
        'vision_config__patch_size': [16, 16]
    },
    'deepstack_visual_indexes=5 must be a list of whole numbers': {
        'vision_config__deepstack_visual_indexes': 5
    },
    "deepstack_visual_indexes=['5'] must be a list of whole numbers": {
        'vision_config__deepstack_visual_indexes': ['5']
    },
    "depth='x' must be a whole number": {'vision_config__depth': 'x'},
    'depth=0 of vision must be positive': {
        'vision_config__depth': 0,
        'vision_config__deepstack_visual_indexes': [],
    },
    'taps=(5, 30) of vision must ascend': {
        'vision_config__deepstack_visual_indexes': [5, 30]
    },
    "rope_parameters={'rope_type': 'axial', 'rope_theta': 5.0}; only": {
        'vision_config__rope_parameters': {'rope_type': 'axial', 'rope_theta': 5.0}
    },
    'image_token_id=None must be the id of a token': {'image_token_id': None},
    "image_token_id='x' must be the id of a token": {'image_token_id': 'x'},
    'image_token=151936 of vision is not below vocab_size=151936': {
        'image_token_id': 151_936
    },
    'mrope_section is supported only with mrope_interleaved=true': {
        'text_config__rope_scaling__mrope_interleaved': False
    },
    'mrope_section=5 must be whole numbers': {
        'text_config__rope_scaling__mrope_section': 5
    },
    'mrope_section=[24.5, 20, 19.5] must be whole numbers': {
        'text_config__rope_scaling__mrope_section': [24.5, 20, 19.5]
    },
    'add up to 63 pairs, not 64': {
        'text_config__rope_scaling__mrope_section': [24, 20, 19]
    },
    'add up to 0 pairs, not 64': {'text_config__rope_scaling': None},
}


@pytest.mark.parametrize('words', REFUSED)
def test_what_the_network_does_not_honor_is_refused(words):
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        read(changed(**REFUSED[words]))
    assert '\n' not in str(error.value)


def test_sections_of_a_model_that_reads_only_text_are_refused():
    fields = dict(PUBLISHED['Qwen/Qwen3-0.6B'])
    fields['rope_scaling'] = SMALL['text_config']['rope_scaling']
    with pytest.raises(ValueError, match='add up to 64 pairs, not 0'):
        read(fields)


def test_a_family_of_text_stays_flat():
    fields, family = dict(PUBLISHED['Qwen/Qwen3-0.6B']), family_of('qwen3')
    assert nested.text_fields(fields, family) == fields
    assert nested.vision(fields, family) is None
    assert nested.nest(fields, oracle.tiny_arch(), family) == fields
