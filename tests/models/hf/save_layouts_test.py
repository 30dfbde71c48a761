"""Layouts and names of tensors that differ between files of a family."""

import jax
import numpy as np
import pytest
import safetensors.numpy

from passk_jax import sharding
from passk_jax.models.families.table import FAMILIES
from tests.models.hf import oracle as hf_oracle
from tests.models.hf.save_test import ONE_FILE, save

FUSED = [name for name, x in FAMILIES.items() if x.pieces.get('fused_experts')]


@pytest.mark.parametrize('sizes', [(1, 1, 1, 1), (2, 2, 1, 2), (1, 1, 1, 4)])
@pytest.mark.parametrize('family', FUSED)
def test_experts_are_read_in_both_layouts_and_written_as_published(
    family, sizes, tmp_path
):
    source, ours = tmp_path / 'theirs', tmp_path / 'ours'
    model = hf_oracle.make_model(family)
    model.save_pretrained(source)
    count = int(np.prod(sizes))
    mesh = sharding.make_mesh(
        **dict(zip(sharding.MESH_AXES, sizes, strict=True)),
        devices=jax.devices()[:count],
    )
    policy, params = hf_oracle.read(source, mesh)
    save(policy, params, ours, dtype='float32', max_shard_bytes=ONE_FILE)
    both = [
        safetensors.numpy.load_file(x / 'model.safetensors') for x in (source, ours)
    ]
    in_memory = model.state_dict()
    E, D, F = 8, 32, 24
    for name, shape in (('gate_up_proj', (E, D, 2 * F)), ('down_proj', (E, F, D))):
        names = [x for x in both[0] if x.endswith(f'experts.{name}')]
        assert len(names) == policy.arch.num_layers
        for tensor in names:
            # What transformers holds, and writes of a model that it has not read.
            np.testing.assert_array_equal(both[0][tensor], in_memory[tensor])
            assert both[1][tensor].shape == shape
            np.testing.assert_array_equal(
                both[1][tensor], in_memory[tensor].mT, strict=True
            )
    kernels = params['layers.mlp.gate.kernel'], params['layers.mlp.up.kernel']
    first = in_memory['model.language_model.layers.0.mlp.experts.gate_up_proj']
    for part, kernel in zip(first.split(F, dim=1), kernels, strict=True):
        np.testing.assert_array_equal(kernel[0], part.mT)
    (ours / 'config.json').write_text((source / 'config.json').read_text())
    _, again = hf_oracle.read(ours, mesh)
    assert again.keys() == params.keys()
    for name, x in params.items():
        assert again[name].sharding == x.sharding
        np.testing.assert_array_equal(again[name], x)


@pytest.mark.parametrize('family', FUSED)
@pytest.mark.parametrize('sizes', [(48, 24), (24, 24)])
def test_experts_whose_shapes_do_not_tell_their_layout_are_refused(
    family, sizes, tmp_path
):
    embed, mlp = sizes
    model = hf_oracle.make_model(
        family, hidden_size=embed, moe_intermediate_size=mlp, num_hidden_layers=1
    )
    model.save_pretrained(tmp_path)
    words = f'embed_dim={embed} is mlp_dim={mlp} of the experts or twice as much'
    with pytest.raises(ValueError, match=words) as error:
        hf_oracle.read(tmp_path)
    assert '\n' not in str(error.value)


@pytest.mark.parametrize('family', FUSED)
def test_experts_of_another_shape_are_named_with_both_layouts(family, tmp_path):
    hf_oracle.make_model(family, num_hidden_layers=1).save_pretrained(tmp_path)
    path = tmp_path / 'model.safetensors'
    stored = safetensors.numpy.load_file(path)
    name = 'model.language_model.layers.0.mlp.experts.gate_up_proj'
    stored[name] = stored[name][:, 1:]
    safetensors.numpy.save_file(stored, path, metadata={'format': 'pt'})
    words = r'gate_up_proj has shape \(8, 47, 32\), not \(8, 32, 48\) or \(8, 48, 32\)'
    with pytest.raises(ValueError, match=words):
        hf_oracle.read(tmp_path)


@pytest.mark.parametrize('sizes', [(1, 1, 1, 1), (1, 2, 1, 4)])
@pytest.mark.parametrize('mlp', [24, 16, 32])
def test_experts_apart_are_read_as_transformers_holds_them_too(mlp, sizes, tmp_path):
    model = hf_oracle.make_model('qwen3_moe', moe_intermediate_size=mlp)
    model.save_pretrained(tmp_path / 'apart')
    # Also where the width of the model is that of an expert, or twice as much.
    model.save_pretrained(tmp_path / 'together', save_original_format=False)
    stored = safetensors.numpy.load_file(tmp_path / 'together/model.safetensors')
    assert stored['model.layers.1.mlp.experts.gate_up_proj'].shape == (8, 2 * mlp, 32)
    mesh = sharding.make_mesh(
        **dict(zip(sharding.MESH_AXES, sizes, strict=True)),
        devices=jax.devices()[: int(np.prod(sizes))],
    )
    _, want = hf_oracle.read(tmp_path / 'apart', mesh)
    _, have = hf_oracle.read(tmp_path / 'together', mesh)
    for name, x in want.items():
        np.testing.assert_array_equal(have[name], x)


SHORT = {'model.language_model.': 'model.', 'model.visual.': 'visual.'}


def test_a_tower_and_its_decoder_are_read_under_both_names(tmp_path):
    source, ours = tmp_path / 'theirs', tmp_path / 'ours'
    model = hf_oracle.make_model('qwen2_5_vl')
    model.save_pretrained(source)
    policy, params = hf_oracle.read(source)
    save(policy, params, ours, dtype='float32', max_shard_bytes=ONE_FILE)
    path = ours / 'model.safetensors'
    published, names = safetensors.numpy.load_file(path), {}
    for name in model.state_dict():
        long = next((x for x in SHORT if name.startswith(x)), '')
        names[name] = SHORT.get(long, '') + name.removeprefix(long)
    assert published.keys() == {*names.values()}
    assert {'visual.merger.ln_q.weight', 'model.layers.0.mlp.up_proj.weight'} <= {
        *published
    }
    # As newer versions name them, and then some of each.
    renamed = {name: published[short] for name, short in names.items()}
    safetensors.numpy.save_file(renamed, path)
    (ours / 'config.json').write_text((source / 'config.json').read_text())
    _, again = hf_oracle.read(ours)
    for name, x in params.items():
        np.testing.assert_array_equal(again[name], x)
    norm = 'model.language_model.norm.weight'
    renamed['model.norm.weight'] = renamed.pop(norm)
    safetensors.numpy.save_file(renamed, path)
    with pytest.raises(ValueError, match=f'missing {norm}'):
        hf_oracle.read(ours)
