"""The tower that reads pictures, beside that of transformers (torch, float32)."""

import dataclasses

import jax
import numpy as np
import pytest
import torch
import transformers
from flax import nnx
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl

from passk_jax.models import vision
from passk_jax.models.arch import Vision
from passk_jax.models.families.table import family_of
from passk_jax.models.vision import VisionTower
from passk_jax.types import Images
from tests.models import oracle
from tests.slow import slow_rows

TOWERS = {
    'qwen2_5_vl': modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel,
    'qwen3_vl': modeling_qwen3_vl.Qwen3VLVisionModel,
}
GRIDS = (((10, 16), (6, 6)), ((14, 4),), (), ((2, 2), (2, 8), (8, 2)))
PATCHES = 10 * 16 + 6 * 6 + 8


def make_images(seed=0, pads=True):
    """Pictures of unequal sizes, with numbers in the pads."""
    rng = np.random.default_rng(seed)
    grids = np.zeros((len(GRIDS), 3, 2), np.int32)
    for p, of_prompt in enumerate(GRIDS):
        grids[p, : len(of_prompt)] = np.reshape(of_prompt, (-1, 2))
    values = rng.normal(size=(len(GRIDS), PATCHES, 48)).astype(np.float32)
    if not pads:
        for p, of_prompt in enumerate(GRIDS):
            values[p, sum(a * b for a, b in of_prompt) :] = 0
    return Images(values, grids)


def make_pair(family='qwen3_vl', **changes):
    """Their tower with random parameters, and ours with the same."""
    parts, sizes = family_of(family).vision, oracle.family_vision(family, **changes)
    fields = {name: getattr(sizes, ours) for ours, name in parts.sizes.items()}
    fields |= {name: list(x) for name, x in fields.items() if isinstance(x, tuple)}
    if 'table_size' in parts.sizes:
        fields[parts.sizes['table_size']] **= 2
    config = transformers.AutoConfig.for_model(
        parts.vision_types[0], **fields, out_hidden_size=32
    )
    # AutoModel of transformers 5.17 does not know every tower.
    reference = TOWERS[family]._from_config(config, attn_implementation='eager')
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, x in reference.named_parameters():
            x.copy_(0.2 * torch.randn(x.shape, generator=generator))
            x += ('norm' in name or 'ln_q' in name) and name.endswith('weight')
    arch = oracle.family_arch(family, vision=sizes)
    tower = nnx.eval_shape(lambda: VisionTower(arch, rngs=nnx.Rngs(0)))
    shapes = {'.'.join(k): x for k, x in nnx.to_flat_state(nnx.state(tower))}
    table = VisionTower.parameters(arch)
    assert shapes.keys() == table.keys()
    stored, params = reference.state_dict(), {}
    for name, row in table.items():
        shape = shapes[name].shape
        params[name] = np.zeros(shape, np.float32)
        for place in row.places(shape):
            tensor = stored.pop(row.tensor_at(place)).numpy()
            inner, order = shape[len(row.stack) :], [d for g in row.dims for d in g]
            tensor = tensor.reshape([inner[d] for d in order])
            params[name][place] = tensor.transpose(np.argsort(order))
    assert not stored
    state = {tuple(name.split('.')): nnx.Param(x) for name, x in params.items()}
    return reference.eval(), nnx.merge(nnx.graphdef(tower), nnx.from_flat_state(state))


@jax.jit
def features(tower, images):
    return tower(images)


@pytest.mark.parametrize(
    ('family', 'changes'),
    slow_rows(
        [
            *(('qwen3_vl', {'taps': taps}) for taps in ((0, 1), (0, 2), (2,), ())),
            ('qwen3_vl_moe', {}),
            *(('qwen2_5_vl', {'global_blocks': x}) for x in ((1,), (0, 2), ())),
            # Of a token, of three, and larger than any picture.
            *(('qwen2_5_vl', {'window_size': size}) for size in (8, 24, 512)),
        ],
        quick=[('qwen3_vl', {'taps': (0, 2)}), ('qwen2_5_vl', {'window_size': 24})],
    ),
    ids=str,
)
def test_features_are_those_of_transformers(family, changes):
    reference, ours = make_pair(family, **changes)
    images = make_images()
    have = features(ours, images)
    for p, grids in enumerate(GRIDS):
        if not grids:
            continue
        count = sum(a * b for a, b in grids)
        patches = images.patches[p, :count].reshape(count, 3, 1, -1).repeat(2, axis=2)
        with torch.no_grad():
            want = reference(
                torch.tensor(patches.reshape(count, -1)),
                grid_thw=torch.tensor([(1, *grid) for grid in grids]),
            )
        expected = [want.pooler_output, *getattr(want, 'deepstack_features', ())]
        assert have.shape[1] == len(expected) == 1 + len(ours.vision.taps)
        for k, x in enumerate(expected):
            x = x.numpy()
            error = np.abs(have[p, k, : count // 4] - x).max()
            assert error < 1e-5, (p, k)
            assert np.abs(x).max() > 0.5


@pytest.mark.parametrize('family', ['qwen3_vl', 'qwen2_5_vl'])
def test_neither_pads_nor_other_pictures_change_a_feature(family):
    _, tower = make_pair(family)
    have = features(tower, make_images())
    without = features(tower, make_images(pads=False))
    for p, grids in enumerate(GRIDS):
        count = sum(a * b for a, b in grids) // 4
        np.testing.assert_array_equal(have[p, :, :count], without[p, :, :count])
    images = make_images()
    # The first picture of the first prompt is another one.
    patches = images.patches.copy()
    patches[0, :160] += 1
    changed = features(tower, dataclasses.replace(images, patches=patches))
    first, second = have[0, :, 40:49], changed[0, :, 40:49]
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-6)
    assert np.abs(have[0, :, :40] - changed[0, :, :40]).max() > 0.1


@pytest.mark.parametrize('family', ['qwen3_vl', 'qwen2_5_vl'])
def test_weights_held_in_bfloat16_are_not_rounded_further(family):
    graphdef, state = nnx.split(make_pair(family)[1])
    short = jax.tree.map(lambda x: x.astype('bfloat16'), state)
    wide = jax.tree.map(lambda x: x.astype('float32'), short)
    have, want = (
        features(nnx.merge(graphdef, x), make_images()) for x in (short, wide)
    )
    np.testing.assert_array_equal(have, want)


@pytest.mark.slow
def test_attention_in_chunks_is_that_at_once(monkeypatch):
    _, tower = make_pair()
    images = make_images()
    want = tower(images)
    attend = vision._attend
    monkeypatch.setattr(
        vision, '_attend', lambda *args: attend(*args, max_logits=50 * PATCHES)
    )
    np.testing.assert_allclose(tower(images), want, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'taps': (1, 0)}, r'taps=\(1, 0\) of vision must ascend'),
        ({'taps': (3,)}, r'taps=\(3,\) of vision must ascend, .* depth=3'),
        ({'embed_dim': 12}, 'embed_dim=12 of vision must be a multiple of 4'),
        ({'merge_size': 0}, 'merge_size=0 of vision must be positive'),
        ({'image_token': 16}, 'image_token=16 of vision is not below vocab_size=16'),
        ({'global_blocks': (2, 1)}, r'global_blocks=\(2, 1\) of vision must ascend'),
        ({'block': 'geglu'}, r"block='geglu' of vision: none of \('gelu', 'swiglu'\)"),
        (
            {'window_size': 7},
            'window_size=7 of vision is below the pixels of a token, 8',
        ),
        ({'window_size': -8}, 'window_size=-8 of vision must be positive'),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes, words):
    sizes = {**vars(oracle.VISION), **changes}
    with pytest.raises(ValueError, match=words):
        oracle.family_arch('qwen3_vl', vision=Vision(**sizes))


def test_sections_come_with_a_tower_and_fill_half_a_head():
    with pytest.raises(ValueError, match='add up to 0 pairs, not 4'):
        oracle.tiny_arch(vision=oracle.VISION)
    rope = dataclasses.replace(oracle.ROPE, sections=(2, 1, 1))
    with pytest.raises(ValueError, match='add up to 4 pairs, not 0'):
        oracle.tiny_arch(rope=rope)
