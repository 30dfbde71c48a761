"""Nested files of models that read pictures."""

import copy
import re

import pytest
import transformers

from passk_jax.models.families.table import family_of
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf import nested
from passk_jax.models.hf.published import PUBLISHED
from tests.models import oracle
from tests.models.hf.config_test import read

SMALL = PUBLISHED['Qwen/Qwen3-VL-2B-Instruct']
SETTINGS = {'param_dtype': 'float32', 'compute_dtype': 'float32', 'remat': 'none'}


MOE = PUBLISHED['Qwen/Qwen3-VL-30B-A3B-Instruct']
WINDOWED = PUBLISHED['Qwen/Qwen2.5-VL-7B-Instruct']
AROUND = nested._AROUND | {'vision_token_id'}


def as_saved():
    """A published file with windows as transformers 5 saves it, text in a section."""
    fields = copy.deepcopy(dict(WINDOWED))
    text = {name: fields.pop(name) for name in fields.keys() - AROUND}
    rope = text.pop('rope_scaling') | {'rope_theta': text.pop('rope_theta')}
    text['rope_parameters'] = rope | {'rope_type': 'default'}
    fields['text_config'] = text | {'model_type': 'qwen2_5_vl_text'}
    del (
        fields['vision_config']['in_chans'],
        fields['vision_config']['spatial_patch_size'],
    )
    fields['vision_config'] |= {'in_channels': 3, 'model_type': 'qwen2_5_vl_vision'}
    return fields


def changed(model=SMALL, **changes):
    """Fields of a published model; ``a__b`` is b of section a, None no field."""
    fields = copy.deepcopy(dict(model))
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


def test_experts_are_always_renormalized_and_come_together():
    arch = read(changed(MOE))
    assert (arch.num_experts, arch.experts_per_token, arch.mlp_dim) == (128, 8, 768)
    assert arch.norm_topk_prob
    assert arch.fused_experts
    assert arch.vision == read(changed(PUBLISHED['Qwen/Qwen3-VL-8B-Instruct'])).vision
    # transformers does not read it.
    assert read(changed(MOE, text_config__norm_topk_prob=None)) == arch
    renamed = {'num_experts': None, 'num_local_experts': 128}
    renamed = {f'text_config__{name}': value for name, value in renamed.items()}
    assert read(changed(MOE, **renamed)) == arch


def test_a_tower_with_windows_is_read_from_flat_and_from_nested_files():
    arch = read(changed(WINDOWED))
    tower, (layer,) = arch.vision, arch.layers
    assert (layer.rope.sections, layer.rope.interleaved) == ((16, 24, 24), False)
    assert (tower.block, tower.table_size, tower.taps) == ('swiglu', 0, ())
    assert (tower.window_patches, tower.global_blocks) == (8, (7, 15, 23, 31))
    assert hf_config.position_limit(WINDOWED) == 128_000
    assert read(as_saved()) == arch
    # Some versions repeat the fields of the text, and remove the window inside only.
    inner = as_saved()
    inner['text_config'] |= {
        **{'sliding_window': None, 'max_window_layers': 28},
        'vision_token_id': 151_654,
    }
    outer = {'sliding_window': 32_768, 'max_window_layers': 28, 'hidden_size': 3584}
    assert read(inner | outer) == arch
    with pytest.raises(ValueError, match='hidden_size is 8 and, in text_config, 3584'):
        read(inner | {'hidden_size': 8})


@pytest.mark.parametrize('outer', [True, False, None])
@pytest.mark.parametrize('inner', [True, False, None])
def test_where_files_were_flat_either_field_ties_the_head(outer, inner):
    changes = {'tie_word_embeddings': outer, 'text_config__tie_word_embeddings': inner}
    fields = changed(as_saved(), **{k: x for k, x in changes.items() if x is not None})
    if outer is None:
        del fields['tie_word_embeddings']
    if inner is None:
        fields['text_config'].pop('tie_word_embeddings', None)
    have = read(fields).tie_embeddings
    reference = transformers.AutoConfig.for_model(**copy.deepcopy(fields))
    assert have == bool(reference.tie_word_embeddings) == bool(outer or inner)


@pytest.mark.parametrize('model', [SMALL, MOE, WINDOWED])
def test_what_is_written_is_read_back(model):
    arch, family = read(changed(model)), family_of(model['model_type'])
    fields = hf_config.hf_config_fields(
        arch,
        family,
        dtype='bfloat16',
        max_positions=4096,
        eos_token_ids=(1,),
        pad_token_id=None,
    )
    assert {'text_config', 'vision_config'} <= fields.keys()
    assert read(fields) == arch
    reference = transformers.AutoConfig.for_model(**copy.deepcopy(fields))
    assert reference.vision_config.hidden_size == arch.vision.embed_dim


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
    'num_position_embeddings=0 must be positive': {
        'vision_config__num_position_embeddings': 0
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


UNSUPPORTED = {
    'norm_topk_prob=False; only True': (MOE, {'text_config__norm_topk_prob': False}),
    'mlp_only_layers=[3]; only []': (MOE, {'text_config__mlp_only_layers': [3]}),
    'sliding_window=4; only None': (MOE, {'text_config__sliding_window': 4}),
    "vision_config: model_type='qwen3_vl' is none of": (
        MOE,
        {'vision_config__model_type': 'qwen3_vl'},
    ),
    'embed_dim=1536 is mlp_dim=768 of the experts or twice': (
        MOE,
        {'text_config__hidden_size': 1536, 'vision_config__out_hidden_size': 1536},
    ),
    "text_config: model_type='qwen3_vl_text'; only 'qwen3_vl_moe_text'": (
        MOE,
        {'text_config__model_type': 'qwen3_vl_text'},
    ),
    'does not know: audio_token_id=7': (WINDOWED, {'audio_token_id': 7}),
    'mrope_section is supported only with mrope_interleaved=false': (
        WINDOWED,
        {'rope_scaling__mrope_interleaved': True},
    ),
    'head_dim=64 must be hidden_size': (WINDOWED, {'head_dim': 64}),
    'add up to 0 pairs, not 64': (WINDOWED, {'rope_scaling': None}),
    "only rope types ('default'": (WINDOWED, {'rope_scaling__mrope_section': None}),
    'spatial_patch_size=16 and patch_size=14 are two names of one field': (
        WINDOWED,
        {'vision_config__spatial_patch_size': 16},
    ),
    'in_channels=1; only 3': (WINDOWED, {'vision_config__in_chans': 1}),
    "stated; ['window_size'] are not": (WINDOWED, {'vision_config__window_size': None}),
    'fullatt_block_indexes=7 must be a list of whole numbers': (
        WINDOWED,
        {'vision_config__fullatt_block_indexes': 7},
    ),
    'global_blocks=(7, 32) of vision must ascend': (
        WINDOWED,
        {'vision_config__fullatt_block_indexes': [7, 32]},
    ),
    'window_size=0 must be positive': (WINDOWED, {'vision_config__window_size': 0}),
    'window_size=20 of vision is below the pixels of a token, 28': (
        WINDOWED,
        {'vision_config__window_size': 20},
    ),
    'does not know: deepstack_visual_indexes=[5]': (
        WINDOWED,
        {'vision_config__deepstack_visual_indexes': [5]},
    ),
    'vision_config=None must be an object': (WINDOWED, {'vision_config': None}),
    'out_hidden_size=8 is not the hidden_size=3584': (
        WINDOWED,
        {'vision_config__out_hidden_size': 8},
    ),
}


@pytest.mark.parametrize('words', UNSUPPORTED)
def test_what_other_families_do_not_honor_is_refused(words):
    model, changes = UNSUPPORTED[words]
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        read(changed(model, **changes))
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
