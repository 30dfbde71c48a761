"""A run with adapters: its base, checkpoints and exports, and the run after it."""

import json

import jax
import numpy as np
import pytest
import transformers

from passk_jax import export
from passk_jax.initial import params as initial
from passk_jax.initial import warm_start
from passk_jax.models import policy as policies
from passk_jax.models.hf import adapters
from passk_jax.models.lora import is_adapter, merge, without_adapters
from passk_jax.report.run_log import RunLog
from passk_jax.runs import checkpoints
from tests import tiny
from tests.models.hf import oracle as hf_oracle
from tests.train_resume_test import Killed, kill_at

LAST = 3
LORA = {
    'model__lora__rank': 2,
    'model__lora__alpha': 6.0,
    'model__lora__targets': ('q_proj,v_proj', 'mlp.down_proj'),
    'model__frozen_dtype': 'bfloat16',
}


def make_config(**changes):
    settings = {'train__steps': LAST, 'loss__kl_coef': 0.01, **LORA}
    return tiny.make_config(**settings | changes)


@pytest.fixture(scope='module')
def finished(finished_run, tmp_path_factory):
    """It begins with the warm start of a run without adapters."""
    workdir = tiny.warm_copy(finished_run, tmp_path_factory.mktemp('lora'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm_start, 'make_update', None)
        assert tiny.run(make_config(), workdir)
    return workdir


def restored(workdir, config):
    """The policy of a run and its parameters."""
    policy, mesh = (setup := tiny.make_setup(config)).policy, setup.mesh
    shapes = policies.param_shapes(policy, mesh)
    return policy, checkpoints.restore_params(workdir, shapes)[0]


def test_checkpoints_hold_the_adapters_and_the_base_lies_beside_them(finished):
    policy, params = restored(finished, make_config())
    saved = tiny.saved_arrays(finished, LAST)
    names = {x.removeprefix('params/') for x in saved if x.startswith('params/')}
    assert names == {name for name in params if is_adapter(name)}
    assert names == set(params) - policy.frozen
    of_matrices = [x for x, array in saved.items() if array.ndim]
    assert all(map(is_adapter, of_matrices))
    commit = (finished / 'checkpoints' / str(LAST) / 'commit.json').read_text()
    assert 'query.lora_b' in commit
    assert 'query.kernel' not in commit
    for name, x in params.items():
        assert x.dtype == ('float32' if is_adapter(name) else 'bfloat16')
    # The base is the result of the warm start, rounded once.
    setup = tiny.make_setup(tiny.make_config())
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    first = checkpoints.restoring.restore(
        finished / 'warm_start' / '0', {'params': shapes}
    )[1]['params']
    for name, x in first.items():
        np.testing.assert_array_equal(params[name], x.astype('bfloat16'))


def test_sampler_and_learner_are_one_policy_which_leaves_the_base(finished):
    lines = tiny.metrics(finished, 'train')
    assert all(line['sampler_gap_max'] < 1e-4 for line in lines)
    assert lines[0]['ref_kl_k3'] == 0
    assert lines[-1]['ref_kl_k3'] > 1e-6


def test_interrupted_it_ends_the_same(finished, tmp_path):
    """It needs neither its warm start nor the first adapters to go on."""
    tiny.warm_copy(finished, tmp_path)
    with pytest.raises(Killed), kill_at(RunLog, 'step', 3):
        tiny.run(make_config(), tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(initial, 'published_or_random', None, raising=False)
        patch.setattr('passk_jax.setup.setup.initial_params', None)
        assert tiny.run(make_config(), tmp_path)
    tiny.assert_same_run(tmp_path, finished, last=LAST)


def test_another_rank_cannot_go_on(finished):
    with pytest.raises(ValueError, match=r'model\.lora\.alpha'):
        tiny.run(make_config(model__lora__alpha=7.0), finished)


@pytest.mark.parametrize('lora', [{}, LORA | {'model__lora__rank': 3}])
def test_another_run_begins_with_the_merged_policy(finished, lora, tmp_path):
    """With or without adapters, which are new ones of any rank."""
    policy, params = restored(finished, make_config())
    merged = merge(params, policy.arch.lora, 'float32')
    start = {'init__kind': 'checkpoint', 'init__checkpoint': str(finished)}
    setup = tiny.make_setup(tiny.make_config(**start, **lora))
    with jax.set_mesh(setup.mesh):
        first = setup.initial_params(tmp_path)
        # A resumed run reads the step that the note says.
        again = setup.initial_params(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert any(map(is_adapter, first)) == bool(lora)
    for name, x in without_adapters(first).items():
        want = merged[name].astype('bfloat16') if lora else merged[name]
        np.testing.assert_array_equal(x, want)
        assert x.dtype == ('bfloat16' if lora else 'float32')


def run_export(workdir, out, **flags):
    with tiny.devices(1):
        export.main(workdir=str(workdir), out=str(out), **flags)


def test_exported_merged_or_as_peft_it_is_the_policy_of_the_run(finished, tmp_path):
    config = make_config()
    policy, params = restored(finished, config)
    run_export(finished, tmp_path / 'merged', dtype='float32')
    run_export(finished, tmp_path / 'peft', peft=True)
    prompts = hf_oracle.unequal_prompts(11, lengths=(9, 3, 14), seed=1)
    load = transformers.AutoModelForCausalLM.from_pretrained
    model = load(tmp_path / 'merged').eval()
    assert hf_oracle.logits_error(model, policy, params, prompts) < 1e-5
    base = load(tmp_path / 'peft' / 'base', dtype='float32').eval()
    assert hf_oracle.logits_error(base, policy, params, prompts) > 1e-4
    alone = without_adapters(params)
    assert hf_oracle.logits_error(base, policy, alone, prompts) < 1e-5
    mesh = hf_oracle.one_device()
    back = adapters.load_adapters(policy, str(tmp_path / 'peft'), mesh)
    for name, x in back.items():
        np.testing.assert_array_equal(x, params[name])
    fields = json.loads((tmp_path / 'peft' / 'adapter_config.json').read_text())
    assert fields['base_model_name_or_path'] == str(tmp_path / 'peft' / 'base')
    peft = pytest.importorskip('peft', reason="needs the extra 'peft'")
    exported = peft.AutoPeftModelForCausalLM.from_pretrained(
        tmp_path / 'peft', dtype='float32'
    )
    assert hf_oracle.logits_error(exported.eval(), policy, params, prompts) < 1e-5


def test_adapters_of_a_peft_directory_are_the_first_ones(finished, tmp_path):
    """The KL penalty's reference still is the base."""
    run_export(finished, tmp_path / 'peft', peft=True)
    source = {'model__lora__source': str(tmp_path / 'peft')}
    setup = tiny.make_setup(make_config(**source, **{'init__kind': 'scratch'}))
    with jax.set_mesh(setup.mesh):
        first = setup.initial_params(tmp_path)
    _, params = restored(finished, make_config())
    for name, x in first.items():
        if is_adapter(name):
            np.testing.assert_array_equal(x, params[name])


def test_a_run_without_adapters_has_none_to_write(finished_run, tmp_path):
    with pytest.raises(ValueError, match=r'--peft writes adapters, and .* none'):
        run_export(finished_run, tmp_path / 'out', peft=True)


def test_adapters_are_not_rounded(finished, tmp_path):
    with pytest.raises(ValueError, match="dtype='bfloat16' would round what adapters"):
        run_export(finished, tmp_path / 'out', peft=True, dtype='bfloat16')
    assert not (tmp_path / 'out').exists()
