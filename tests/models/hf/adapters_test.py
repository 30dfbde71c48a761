"""Adapters as a directory of PEFT: what it reads of ours, and we of its.

PEFT is optional (the extra ``peft``): its tests are skipped without it. The layout is
tested without it too, against torch's product.
"""

import dataclasses
import json

import jax
import numpy as np
import pytest
import safetensors.numpy
import torch

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.hf import adapters
from passk_jax.models.lora import Lora, is_adapter, merge
from tests.models import oracle
from tests.models.hf import oracle as hf_oracle
from tests.slow import slow_values

LORA = Lora(rank=3, alpha=12.0, targets=('all-linear',))
LENGTHS = (9, 3, 14)


def read(directory, lora=LORA):
    """Our policy of a model's directory, with random adapters of both kinds."""
    policy, base = hf_oracle.read(directory)
    arch = dataclasses.replace(policy.arch, lora=lora)
    policy = dataclasses.replace(policy, arch=arch, frozen=frozenset(base))
    drawn = oracle.random_params(policy, seed=3)
    return policy, base | {k: x for k, x in drawn.items() if is_adapter(k)}


def make_model(family, tmp_path):
    """Their model, whose files lie in ``tmp_path / 'base'``."""
    tied = family in ('qwen3', 'llama', 'gemma3_text')
    model = hf_oracle.make_model(family, tie_word_embeddings=tied)
    model.save_pretrained(tmp_path / 'base')
    return model


def write(policy, params, directory, **changes):
    directory.mkdir(exist_ok=True)
    base = str(directory.parent / 'base')
    adapters.write_adapters(policy, params, directory, base=base, dtype='float32')
    path = directory / adapters.CONFIG
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(fields))


def prompts():
    return hf_oracle.unequal_prompts(40, lengths=LENGTHS, seed=1)


@pytest.mark.parametrize('family', FAMILIES)
def test_peft_reads_what_we_write(family, tmp_path):
    peft = pytest.importorskip('peft', reason="needs the extra 'peft'")
    model = make_model(family, tmp_path)
    policy, params = read(tmp_path / 'base')
    write(policy, params, tmp_path / 'ours')
    peft_model = peft.PeftModel.from_pretrained(model, tmp_path / 'ours').eval()
    assert hf_oracle.logits_error(peft_model, policy, params, prompts()) < 2e-5
    merged = merge(params, LORA, 'float32')
    merged_model = peft_model.merge_and_unload()
    assert hf_oracle.logits_error(merged_model, policy.base, merged, prompts()) < 2e-5
    base = {k: x for k, x in params.items() if not is_adapter(k)}
    assert hf_oracle.logits_error(merged_model, policy, base, prompts()) > 0.1


@pytest.mark.parametrize('family', slow_values(FAMILIES, quick=['qwen2_5_vl']))
@pytest.mark.parametrize('targets', [('all-linear',), ('mlp.up_proj', 'v_proj')])
def test_the_targets_name_the_adapted_matrices_alone(targets, family, tmp_path):
    if 'num_experts' in FAMILIES[family].sizes:
        targets = [x for x in targets if not x.startswith('mlp')]
    model = make_model(family, tmp_path)
    policy, params = read(tmp_path / 'base', Lora(3, 12.0, tuple(targets)))
    write(policy, params, tmp_path / 'ours')
    fields = json.loads((tmp_path / 'ours/adapter_config.json').read_text())
    stored = safetensors.numpy.load_file(tmp_path / 'ours/adapter_model.safetensors')
    ends = tuple(f'.{target}' for target in fields['target_modules'])
    # As PEFT finds them.
    modules = {name for name, _ in model.named_modules() if f'.{name}'.endswith(ends)}
    names = {f'base_model.model.{x}.lora_{y}.weight' for x in modules for y in 'AB'}
    assert stored.keys() == names
    mesh = hf_oracle.one_device()
    assert adapters.load_adapters(policy, str(tmp_path / 'ours'), mesh)


def test_older_names_of_tensors_are_read(tmp_path):
    make_model('qwen2_5_vl', tmp_path)
    policy, params = read(tmp_path / 'base')
    write(policy, params, tmp_path / 'ours')
    path = tmp_path / 'ours/adapter_model.safetensors'
    stored = safetensors.numpy.load_file(path)
    older = {k.replace('.language_model.', '.'): x for k, x in stored.items()}
    assert older.keys().isdisjoint(stored)
    safetensors.numpy.save_file(older, path)
    mesh = hf_oracle.one_device()
    for name, x in adapters.load_adapters(policy, str(path.parent), mesh).items():
        np.testing.assert_array_equal(x, params[name])


def test_targets_that_name_nothing_are_as_good_as_absent(tmp_path):
    make_model('qwen2', tmp_path)
    policy, params = read(tmp_path / 'base')
    fields = adapters._fields(policy, str(tmp_path / 'base'))
    targets = [*fields['target_modules'], 'mlp.experts.gate_proj', 'c_attn']
    write(policy, params, tmp_path / 'ours', target_modules=targets)
    mesh = hf_oracle.one_device()
    assert adapters.load_adapters(policy, str(tmp_path / 'ours'), mesh)


def test_a_base_on_this_machine_is_a_path_before_it_is_there(tmp_path):
    make_model('qwen2', tmp_path)
    policy, _ = read(tmp_path / 'base')
    place = '/data/me@lab/adapters/base'
    for base, name, revision in (
        (place, place, None),
        ('you/base@v1', 'you/base', 'v1'),
    ):
        fields = adapters._fields(policy, base)
        assert fields['base_model_name_or_path'] == name
        assert fields['revision'] == revision


@pytest.mark.parametrize('family', ['llama', 'qwen2'])
def test_we_read_what_peft_writes(family, tmp_path):
    peft = pytest.importorskip('peft', reason="needs the extra 'peft'")
    model = make_model(family, tmp_path)
    config = peft.LoraConfig(
        r=5, lora_alpha=8, target_modules=['q_proj', 'down_proj', 'o_proj']
    )
    peft_model = peft.get_peft_model(model, config).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, x in peft_model.named_parameters():
            if 'lora_' in name:
                x.copy_(0.3 * torch.randn(x.shape, generator=generator))
    peft_model.save_pretrained(tmp_path / 'theirs')
    lora = Lora(5, 8.0, ('down_proj', 'q_proj', 'o_proj'))
    policy, params = read(tmp_path / 'base', lora)
    mesh = hf_oracle.one_device()
    params |= adapters.load_adapters(policy, str(tmp_path / 'theirs'), mesh)
    assert hf_oracle.logits_error(peft_model, policy, params, prompts()) < 2e-5


@pytest.mark.parametrize('shape', [(1, 1, 1, 1), (1, 2, 1, 2)])
def test_the_tensors_are_torchs_and_come_back_bit_for_bit(tmp_path, shape):
    hf_oracle.make_model('qwen2').save_pretrained(tmp_path / 'base')
    policy, params = read(tmp_path / 'base')
    write(policy, params, tmp_path / 'ours')
    stored = safetensors.numpy.load_file(tmp_path / 'ours/adapter_model.safetensors')
    assert len(stored) == 2 * 7 * 2
    layer = 'base_model.model.model.layers.1'
    for module, name in (
        (f'{layer}.self_attn.q_proj', 'layers.attention.query'),
        (f'{layer}.self_attn.o_proj', 'layers.attention.out'),
        (f'{layer}.mlp.down_proj', 'layers.mlp.down'),
    ):
        a, b = (stored[f'{module}.lora_{x}.weight'] for x in 'AB')
        assert a.shape[0] == b.shape[1] == 3
        merged = merge(params, LORA, 'float32')[f'{name}.kernel']
        delta = np.asarray(merged - params[f'{name}.kernel'])[1]
        inputs, outputs = a.shape[1], b.shape[0]
        # torch stores [out, in].
        np.testing.assert_allclose(
            4 * b @ a, delta.reshape(inputs, outputs).T, atol=1e-5
        )
    sizes = dict(zip(sharding.MESH_AXES, shape, strict=True))
    devices = jax.devices()[: int(np.prod(shape))]
    mesh = sharding.make_mesh(**sizes, devices=devices)
    have = adapters.load_adapters(policy, str(tmp_path / 'ours'), mesh)
    shapes = policies.param_shapes(policy, mesh)
    assert have.keys() == {name for name in params if is_adapter(name)}
    for name, x in have.items():
        np.testing.assert_array_equal(x, params[name])
        assert x.sharding == shapes[name].sharding


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp('written')
    hf_oracle.make_model('qwen2').save_pretrained(root / 'base')
    policy, params = read(root / 'base')
    write(policy, params, root / 'ours')
    return root / 'ours', policy, params


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'r': 4}, r'set model\.lora\.rank=4, alpha=12\.0, targets=\['),
        ({'lora_alpha': 6}, r'set model\.lora\.rank=3, alpha=6, targets='),
        ({'target_modules': ['q_proj']}, r"targets=\['q_proj'\]"),
        ({'use_rslora': True}, r"'use_rslora': True.* only plain LoRA"),
        ({'use_dora': True}, r"'use_dora': True.* only plain LoRA"),
        ({'bias': 'all'}, "'bias': 'all'"),
        ({'init_lora_weights': 'pissa'}, "'init_lora_weights': 'pissa'"),
        ({'rank_pattern': {'q_proj': 8}}, 'rank_pattern'),
        ({'modules_to_save': ['lm_head']}, 'modules_to_save'),
        ({'layers_to_transform': [1]}, 'layers_to_transform'),
        ({'of_tomorrow': {'x': 1}}, 'of_tomorrow'),
        ({'peft_type': 'IA3'}, "peft_type='IA3' is not LORA"),
    ],
)
def test_what_is_no_plain_adapter_of_the_run_is_refused(written, change, words):
    directory, policy, params = written
    write(policy, params, directory, **change)
    with pytest.raises(ValueError, match=words):
        adapters.load_adapters(policy, str(directory), hf_oracle.one_device())


def test_fields_that_change_no_logit_are_read_over(written):
    directory, policy, params = written
    inert = {'lora_dropout': 0.05, 'init_lora_weights': 'gaussian', 'revision': 'main'}
    stated = {'target_modules': r'.*(self_attn|mlp).*_proj', 'rank_pattern': {}}
    write(policy, params, directory, **inert, **stated)
    mesh = hf_oracle.one_device()
    assert adapters.load_adapters(policy, str(directory), mesh)


def test_missing_tensors_are_named(written):
    directory, policy, params = written
    write(policy, params, directory)
    path = directory / 'adapter_model.safetensors'
    stored = safetensors.numpy.load_file(path)
    name = 'base_model.model.model.layers.0.mlp.up_proj.lora_B.weight'
    stored['base_model.model.lm_head.lora_A.weight'] = stored.pop(name)
    safetensors.numpy.save_file(stored, path)
    words = r'missing .*up_proj\.lora_B\.weight\n  unexpected .*lm_head\.lora_A'
    with pytest.raises(ValueError, match=words):
        adapters.load_adapters(policy, str(directory), hf_oracle.one_device())
    path.unlink()
    with pytest.raises(ValueError, match=r'has no adapter_model\.safetensors'):
        adapters.load_adapters(policy, str(directory), hf_oracle.one_device())
