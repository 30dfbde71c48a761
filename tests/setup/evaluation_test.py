"""How many problems an evaluation samples at a time."""

import types

import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.errors import InputError
from passk_jax.sampling import sampler
from passk_jax.sampling.scheduled.grid import Size
from passk_jax.setup import evaluation, memory
from passk_jax.setup.model import as_evaluated
from tests import tiny


def problems(count, pictured=None):
    return types.SimpleNamespace(indices=range(count), pictured=pictured)


def make_mesh(fsdp=2, rollout=2):
    return sharding.make_mesh(data=1, fsdp=fsdp, rollout=rollout, tensor=-1)


def test_all_problems_are_a_batch_that_the_mesh_divides():
    config = tiny.make_config(eval__batch_size=0, eval__num_responses=4)
    mesh = make_mesh()
    assert evaluation.batch_size(config, mesh, mesh, problems(101)) == 102
    assert evaluation.batch_size(config, mesh, mesh, problems(1)) == 2
    config = tiny.make_config(eval__batch_size=5)
    assert evaluation.batch_size(config, mesh, mesh, problems(101)) == 5


def test_a_batch_is_divided_by_the_mesh_of_training_too():
    """Prompts come from it, and rollouts return to it."""
    config = tiny.make_config(eval__batch_size=0, eval__num_responses=4)
    meshes = make_mesh(fsdp=8, rollout=1), make_mesh(fsdp=4, rollout=1)
    assert evaluation.batch_size(config, *meshes, problems(11)) == 16


@pytest.mark.parametrize(
    ('responses', 'pictured', 'want'),
    # 8 prompts with 4 rollouts, 2 on each device: as many rows, and no more prompts.
    [(4, object(), 4), (3, None, 4), (1, object(), 8)],
)
def test_what_cannot_wait_has_batches_of_a_training_step(responses, pictured, want):
    config = tiny.make_config(
        eval__batch_size=0,
        eval__num_responses=responses,
        train__num_prompts=8,
        sampling__num_rollouts=4,
    )
    mesh = make_mesh()
    size = evaluation.batch_size(config, mesh, mesh, problems(101, pictured))
    assert size == want


def test_an_evaluation_of_all_has_the_memory_of_a_step():
    setup = tiny.make_setup(tiny.make_config(eval__batch_size=0))
    of_step = memory.training_cache(setup.config, setup.policy, setup.mesh)
    assert setup.evaluate().sample.max_cache_bytes == of_step > 0
    setup = tiny.make_setup(tiny.make_config())
    assert setup.evaluate().sample.max_cache_bytes == 0
    limited = tiny.make_config(eval__batch_size=0, sampling__max_cache_bytes=10**6)
    assert tiny.make_setup(limited).evaluate().sample.max_cache_bytes == 10**6


def test_only_training_holds_keys_and_values_as_int8():
    setup = tiny.make_setup(tiny.make_config(sampling__cache_dtype='int8'))
    assert setup.sample().policy.quantizes_cache
    assert not setup.evaluate().sample.policy.quantizes_cache
    sizes = setup.config, setup.policy, setup.mesh
    full = memory.training_cache(setup.config, as_evaluated(setup.policy), setup.mesh)
    # Eight numbers and a scale, in the place of eight numbers of float32.
    assert memory.training_cache(*sizes) / full == 12 / 32
    # The memory of an evaluation with batches of its own is that of its dtype.
    config = tiny.make_config(sampling__cache_dtype='int8', eval__batch_size=64)
    assert memory.check_cache(config, *sizes[1:]) > 2 * memory.training_cache(*sizes)


@pytest.mark.parametrize(('prompts', 'rollouts'), [(1, 1), (1, 2), (2, 2)])
def test_an_evaluation_fits_a_response_where_training_has_few_as_int8(
    prompts, rollouts
):
    setup = tiny.make_setup(
        tiny.make_config(
            sampling__cache_dtype='int8',
            sampling__num_rollouts=rollouts,
            train__num_prompts=prompts,
            train__mini_batch_prompts=prompts,
            train__micro_batch_prompts=prompts,
            advantage__k=1,
            eval__batch_size=0,
        )
    )
    sample, config = setup.evaluate().sample, setup.config
    _, size = sampler.fit_grid(
        sample.policy,
        num_prompts=6,
        num_rollouts=4,
        prompt_tokens=config.data.max_prompt_tokens,
        max_response_tokens=config.sampling.max_response_tokens,
        max_cache_bytes=sample.max_cache_bytes,
    )
    assert size == Size(1, 1)


def test_a_limit_that_fits_a_response_as_int8_alone_is_an_error_at_once():
    int8 = {'sampling__cache_dtype': 'int8', 'eval__batch_size': 0}
    setup = tiny.make_setup(tiny.make_config(**int8))
    least = memory.least_cache(setup.config, setup.policy, setup.mesh)
    config = tiny.make_config(**int8, sampling__max_cache_bytes=least)
    message = f'evaluation: sampling.max_cache_bytes={least} is too small'
    with pytest.raises(InputError, match=message):
        tiny.make_setup(config)


def test_it_is_no_more_than_half_of_a_device(monkeypatch):
    monkeypatch.setattr(evaluation.capacity, 'device_bytes', lambda device: 2000)
    setup = tiny.make_setup(tiny.make_config(eval__batch_size=0))
    assert setup.evaluate().sample.max_cache_bytes == 1000


@pytest.mark.parametrize(('size', 'warns'), [(1, True), (0, False), (64, False)])
def test_a_small_batch_on_many_devices_is_warned_of(size, warns, caplog):
    config = tiny.make_config(eval__batch_size=size, sampling__num_rollouts=8)
    for platform, count in (('tpu', 4), ('tpu', 1), ('cpu', 4)):
        caplog.clear()
        devices = np.array([types.SimpleNamespace(platform=platform)], object)
        mesh = types.SimpleNamespace(size=count, devices=devices)
        evaluation.warn_of_idle_devices(config, mesh)
        expected = warns and (platform, count) == ('tpu', 4)
        assert ('leaves devices idle' in caplog.text) == expected
