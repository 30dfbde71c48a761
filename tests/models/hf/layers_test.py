"""Attention windows in config.json, read and written."""

import contextlib
import dataclasses
import math

import pytest

from passk_jax.errors import InputError
from passk_jax.models.arch import Layer
from passk_jax.models.families.table import family_of
from passk_jax.models.hf import config as hf_config
from passk_jax.models.hf.published import PUBLISHED
from passk_jax.models.rope import Rope
from tests.models import oracle
from tests.models.hf.config_test import LLAMA, MISTRAL, QWEN2, QWEN3, read, read_arch

SLIDING, FULL = 'sliding_attention', 'full_attention'
SIX = {'num_hidden_layers': 6, 'use_sliding_window': True, 'sliding_window': 8}


def windows_of(arch):
    return tuple(layer.window for layer in arch.layers)


@pytest.mark.parametrize(
    ('config', 'changes', 'windows'),
    [
        (MISTRAL, {'sliding_window': 4096}, (4096,)),
        (QWEN2, {'use_sliding_window': True}, (0,)),
        (QWEN2, SIX | {'max_window_layers': 0}, (8,)),
        (QWEN2, SIX | {'max_window_layers': 4}, (0, 0, 0, 0, 8, 8)),
        (QWEN3, SIX | {'layer_types': [FULL, SLIDING] * 3}, (0, 8)),
        (QWEN3, SIX | {'layer_types': [SLIDING, SLIDING, FULL] * 2}, (8, 8, 0)),
        (QWEN3, SIX | {'layer_types': [FULL] * 6}, (0,)),
        (QWEN3, {'use_sliding_window': False, 'sliding_window': 8}, (0,)),
    ],
)
def test_windows_are_the_shortest_pattern_of_the_layers(
    tmp_path, config, changes, windows
):
    assert windows_of(read_arch(tmp_path, config, **changes)) == windows


def test_any_family_may_say_that_no_layer_has_a_window():
    for config in (LLAMA, MISTRAL):
        layers = config['num_hidden_layers']
        assert windows_of(read(config | {'layer_types': [FULL] * layers})) == (0,)
        with pytest.raises(ValueError, match='does not know: layer_types='):
            read(config | {'layer_types': [SLIDING] * layers})
    # transformers ignores the field here and keeps the window.
    fields = {'sliding_window': 8, 'layer_types': [FULL] * MISTRAL['num_hidden_layers']}
    with pytest.raises(ValueError, match='does not know: layer_types='):
        read(MISTRAL | fields)


def test_an_absent_window_of_mistral_is_as_transformers_has_it():
    fields = {k: v for k, v in MISTRAL.items() if k != 'sliding_window'}
    assert windows_of(read(fields)) == (4096,)
    assert windows_of(read(MISTRAL)) == (0,)


@pytest.mark.parametrize(
    ('family', 'windows'),
    [('mistral', (7,)), ('qwen2', (7,)), ('qwen2', (0, 7)), ('qwen3', (0, 0, 7, 7))],
)
def test_windows_are_written_as_they_are_read(family, windows):
    parts = family_of(family)
    arch = oracle.tiny_arch(windows=windows, num_layers=4, **parts.pieces)
    assert read(write(arch, parts)) == arch
    # Two sizes of windows have no spelling, nor has a pattern in Mistral.
    with pytest.raises(ValueError, match=f'not a {family} model'):
        write(oracle.with_windows(arch, 7, 5), parts)
    # Nor have layers of different ropes, or of none.
    layer = arch.layers[0]
    for rope in (Rope(kind='default', theta=1e3), None):
        mixed = dataclasses.replace(layer, rope=rope), layer
        for layers in (mixed, mixed[::-1]):
            with pytest.raises(ValueError, match=r'not a|without rope'):
                write(dataclasses.replace(arch, layers=layers), parts)


def test_layers_without_positions_are_read_and_written():
    fields = dict(PUBLISHED['HuggingFaceTB/SmolLM3-3B'])
    layers = read(fields).layers
    assert [layer.rope is None for layer in layers] == [False, False, False, True]
    # Without the list, each fourth layer has none.
    del fields['no_rope_layers']
    assert read(fields).layers == layers
    assert len(read(fields | {'no_rope_layers': 36 * [1]}).layers) == 1
    for turning in (35 * [1], 36 * [2]):
        with pytest.raises(ValueError, match=r'no_rope_layers=.* for each of 36'):
            read(fields | {'no_rope_layers': turning})
    parts = family_of('smollm3')
    arch = oracle.tiny_arch(**parts.pieces)
    arch = dataclasses.replace(arch, layers=(*arch.layers, Layer(None)))
    assert write(arch, parts)['no_rope_layers'] == [1, 0]


@pytest.mark.parametrize('family', ['gemma3_text', 'olmo3'])
def test_both_kinds_of_layers_have_their_rope(family):
    parts = family_of(family)
    pieces = parts.pieces | {'feed_forward': parts.feed_forward}
    arch = oracle.tiny_arch(**pieces)
    # That of Olmo 3 is the default of transformers, which no file can change.
    near = Rope('default', 123.0 if family == 'gemma3_text' else 5e5)
    layers = (
        Layer(near, 7, parts.feed_forward),
        Layer(Rope('linear', 5e5, 2.0), 0, parts.feed_forward),
    )
    arch = dataclasses.replace(arch, layers=layers)
    assert read(write(arch, parts)) == arch


def test_two_bases_of_one_rope_are_refused():
    fields = dict(PUBLISHED['google/gemma-3-270m-it'])
    del fields['rope_scaling']
    for kind, name in ((FULL, 'rope_theta'), (SLIDING, 'rope_local_base_freq')):
        ropes = {'rope_parameters': {kind: {'rope_type': 'default', 'rope_theta': 7.0}}}
        with pytest.raises(ValueError, match=rf'{name} is .* and, in the rope, 7\.0'):
            read(fields | ropes)


def write(arch, parts):
    return hf_config.hf_config_fields(
        arch,
        parts,
        dtype='float32',
        max_positions=64,
        eos_token_ids=(1,),
        pad_token_id=None,
    )


@pytest.mark.parametrize('kind', [FULL, SLIDING])
def test_the_rope_of_a_kind_is_an_object(kind):
    fields = dict(PUBLISHED['google/gemma-3-270m-it'])
    with pytest.raises(ValueError, match=r"'x' in rope=.* must be an object"):
        read(fields | {'rope_parameters': {kind: 'x'}, 'rope_scaling': None})


def test_only_gemma_has_a_field_for_the_near_rope():
    # transformers ignores it in Olmo 3, so no file may state it there.
    near = {'rope_local_base_freq': 7.0}
    with pytest.raises(ValueError, match=r'does not know: rope_local_base_freq=7\.0'):
        read(PUBLISHED['allenai/Olmo-3-7B-Instruct'] | near)
    layers = read(PUBLISHED['google/gemma-3-270m-it'] | near).layers
    assert {layer.rope.theta for layer in layers} == {7.0, 1e6}


OLMO3 = 'allenai/Olmo-3-7B-Instruct'


def ropes_of_olmo3(**changes):
    fields = {k: x for k, x in PUBLISHED[OLMO3].items() if not k.startswith('rope')}
    return {
        layer.window > 0: layer.rope.theta for layer in read(fields | changes).layers
    }


def default_rope(*bases):
    kinds = (FULL, SLIDING)[: len(bases)]
    pairs = zip(kinds, bases, strict=True)
    return {kind: {'rope_type': 'default', 'rope_theta': base} for kind, base in pairs}


@pytest.mark.parametrize(
    'changes',
    [
        {'rope_theta': 1e4},
        {'rope_theta': 1e4, 'rope_scaling': {'rope_type': 'linear', 'factor': 2.0}},
        {'rope_parameters': default_rope(1e4)},
        {'rope_theta': 1e4, 'rope_parameters': default_rope(1e4)},
    ],
)
def test_a_base_that_only_some_layers_of_olmo_3_would_get_is_refused(changes):
    with pytest.raises(ValueError, match=r'rope_theta=10000\.0 would be the base only'):
        ropes_of_olmo3(**changes)


def test_both_bases_of_olmo_3_may_be_stated():
    assert ropes_of_olmo3() == {True: 5e5, False: 5e5}
    assert ropes_of_olmo3(rope_theta=5e5) == {True: 5e5, False: 5e5}
    both = ropes_of_olmo3(rope_parameters=default_rope(1e4, 2e4))
    assert both == {False: 1e4, True: 2e4}


@pytest.mark.parametrize('name', [OLMO3, 'google/gemma-3-270m-it'])
def test_one_rope_for_both_kinds_is_refused(name):
    fields = {k: x for k, x in PUBLISHED[name].items() if not k.startswith('rope')}
    rope = {'rope_parameters': {'rope_type': 'default', 'rope_theta': 1e4}}
    with pytest.raises(ValueError, match='must have a rope for each of'):
        read(fields | rope)


@pytest.mark.parametrize('scalar', [0, -1, 0.0, True])
def test_the_root_of_a_scalar_that_is_not_positive_divides_nothing(scalar):
    fields = PUBLISHED['google/gemma-3-270m-it'] | {'query_pre_attn_scalar': scalar}
    with pytest.raises(ValueError, match='query_pre_attn_scalar'):
        read(fields)


WRONG = (5, -1, 0.5, True, 'x', [5], [None], [['a']], {'a': 1}, math.nan, 10**400)


@pytest.mark.parametrize('name', [OLMO3, 'google/gemma-3-270m-it', 'qwen3', 'llama'])
def test_a_value_of_another_type_is_one_clear_line(name):
    fields = dict({'qwen3': QWEN3, 'llama': LLAMA}.get(name) or PUBLISHED[name])
    more = ('layer_types', 'sliding_window', 'rope_scaling', 'rope_parameters')
    for key in {*fields, *more, 'rope_theta', 'rope_local_base_freq', 'architectures'}:
        for value in WRONG:
            # Some are of a type that the field has; transformers takes others.
            with contextlib.suppress(InputError):
                read(fields | {key: value})
    for value in WRONG:
        with pytest.raises(InputError, match='layer_types=') as caught:
            read(fields | {'layer_types': value})
        assert '\n' not in str(caught.value)
