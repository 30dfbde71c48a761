"""The verb *sample*: what it hands to the sampler, and what comes back of it."""

import contextlib
import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from passk_jax import sampling
from passk_jax.config import SamplingOptions
from passk_jax.models import policy as policies
from passk_jax.rollouts.verify import Verification
from passk_jax.setup import setup as setup_lib
from tests import changed, tiny, train_pictures_test
from tests.slow import slow_values
from tests.train_wiring_test import sampled_with


@pytest.fixture(scope='module')
def setup():
    return tiny.make_setup(changed.make_config())


def test_rollouts_are_sampled_with_the_settings_of_training(setup):
    batch = setup.train_batches()[0]
    got = sampled_with(lambda: setup.sample()(None, batch, key='key'))
    assert got == {
        'key': 'key',
        'options': SamplingOptions(temperature=0.7, top_p=0.9, top_k=6, min_p=0.02),
        'num_rollouts': 6,
        'max_response_tokens': 7,
        'stop_tokens': setup.stop_tokens,
        'max_cache_bytes': 1_000_000_007,
    }


def test_an_error_before_the_verdicts_ends_the_verification(setup, monkeypatch):
    """Of the sampler, of devices that compute later, and of whoever hears of phases."""
    closed = []
    broken = mock.Mock(side_effect=RuntimeError('out of memory'))
    monkeypatch.setattr(Verification, 'close', lambda self: closed.append(self))
    sample, batch = setup.sample(), setup.train_batches()[0]

    def run():
        sampled = sample({}, batch, key=jax.random.key(0))
        sample.verify(sampled, step=0, begin_phase=broken)

    for module, name in ((sampling, 'sample'), (jax, 'block_until_ready'), (None, '')):
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(sampling, 'sample', mock.Mock()))
            if module:
                stack.enter_context(mock.patch.object(module, name, broken))
            with pytest.raises(RuntimeError, match='out of memory'):
                run()
    assert len(closed) == len({*closed}) == 3


KINDS = {
    'text': {},
    'adapters': {
        'model__lora__rank': 2,
        'model__lora__alpha': 4.0,
        'model__lora__targets': ('q_proj,down_proj',),
    },
    'int8': {'sampling__cache_dtype': 'int8'},
    'experts': {
        'model__family': 'qwen3_moe',
        'model__arch__num_experts': 4,
        'model__arch__experts_per_token': 2,
        'model__replay_routing': True,
    },
}
APART = {'mesh__fsdp': 2, 'mesh__rollout': 4, 'mesh__decode_tensor': 2}


@pytest.mark.parametrize('kind', slow_values(KINDS, quick=['text']))
def test_rollouts_come_back_from_the_mesh_of_sampling(kind):
    config = tiny.make_config(
        init__kind='scratch', model__arch__num_kv_heads=2, **APART, **KINDS[kind]
    )
    assert_same_apart(config)


@pytest.mark.parametrize(
    'trained', slow_values([False, True]), ids=['frozen', 'trained']
)
def test_pictures_come_along_to_the_mesh_of_sampling(trained, tmp_path_factory):
    source = train_pictures_test.write_source(tmp_path_factory, 'qwen3_vl')
    config = train_pictures_test.make_config(
        source, model__train_vision=trained, **APART
    )
    assert_same_apart(config)


def assert_same_apart(config):
    """Sampling on its own mesh and on that of training give the same, in one place."""
    with tiny.devices(8):
        setup = setup_lib.make_setup(config)
    apart = setup.sample()
    assert apart.decode_mesh != apart.mesh
    together = dataclasses.replace(apart, decode_mesh=apart.mesh)
    batch, both = setup.train_batches()[0], []
    with jax.set_mesh(setup.mesh):
        params = policies.init_params(setup.policy, jax.random.key(0), setup.mesh)
        key = setup.keys.key(sampling.Purpose.ROLLOUTS, 0)
        for sample in (apart, together):
            sampled = sample(params, batch, key=key)
            sample.verify(sampled, step=0)
            both.append(sampled.rollouts)
    have, want = map(jax.tree.leaves_with_path, both)
    assert len(have) == len(want)
    for (path, x), (_, y) in zip(have, want, strict=True):
        name = jax.tree_util.keystr(path)
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5, err_msg=name)
        assert x.sharding.mesh == setup.mesh, name
        if 'routing' not in name and 'features' not in name:
            assert x.sharding.is_equivalent_to(y.sharding, x.ndim), name
    np.testing.assert_array_equal(both[0].tokens, both[1].tokens)
    assert len(np.unique(both[0].tokens)) > 2
