"""What a run says of its memory before it begins."""

import dataclasses
import math

import pytest

from passk_jax.models import policy as policies
from passk_jax.models.arch import REMAT
from passk_jax.setup import memory
from tests import tiny


@pytest.fixture
def setup():
    return tiny.make_setup(tiny.make_config())


def estimate(setup, **changes):
    config = tiny.make_config(**changes)
    return memory.estimate_memory(config, setup.policy, setup.mesh, prompt_tokens=20)


@pytest.mark.parametrize(('dtype', 'size'), [('float32', 16), ('bfloat16', 14)])
def test_weights_count_with_their_averages_and_gradient(dtype, size):
    setup = tiny.make_setup(tiny.make_config(model__param_dtype=dtype))
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    num_params = sum(math.prod(x.shape) for x in shapes.values())
    assert estimate(setup)['weights, optimizer and gradient'] == size * num_params


@pytest.mark.parametrize(('dtype', 'size'), [('float32', 4), ('bfloat16', 8)])
def test_a_frozen_base_has_no_averages_but_a_copy_if_sampling_casts_it(dtype, size):
    settings = {'rank': 2, 'alpha': 4.0, 'targets': ('q_proj',)}
    lora = {f'model__lora__{name}': value for name, value in settings.items()}
    lora['model__compute_dtype'] = dtype
    config = tiny.make_config(**lora, init__kind='scratch')
    setup = tiny.make_setup(config)
    shapes = policies.param_shapes(setup.policy, setup.mesh)
    names = setup.policy.frozen
    base, adapters = (
        sum(
            math.prod(x.shape)
            for name, x in shapes.items()
            if (name in names) == is_frozen
        )
        for is_frozen in (True, False)
    )
    parts = memory.estimate_memory(config, setup.policy, setup.mesh, prompt_tokens=20)
    assert parts['weights, optimizer and gradient'] == size * base + 16 * adapters
    # A warm start trains the base.
    config = tiny.make_config(**lora)
    parts = memory.estimate_memory(config, setup.policy, setup.mesh, prompt_tokens=20)
    assert parts['weights, optimizer and gradient'] == 16 * (base + adapters)


def test_what_a_setting_lets_grow_grows_with_it(setup):
    small = estimate(setup)
    larger = estimate(setup, sampling__max_response_tokens=50)
    for name in ('keys and values', 'activations', 'logits'):
        assert larger[name] > small[name]
    # The batch of a warm start is one pass, which counts if it is the larger one.
    assert small == estimate(setup, train__micro_batch_prompts=1)
    smaller = estimate(setup, init__kind='scratch', train__micro_batch_prompts=1)
    assert smaller['activations'] < small['activations']


def test_what_the_backward_pass_recomputes_is_not_saved(setup):
    def activations(remat):
        arch = dataclasses.replace(setup.policy.arch, num_layers=3, remat=remat)
        policy = dataclasses.replace(setup.policy, arch=arch)
        parts = memory.estimate_memory(
            tiny.make_config(), policy, setup.mesh, prompt_tokens=20
        )
        return parts['activations']

    values = [activations(remat) for remat in REMAT]
    assert values == sorted(set(values), reverse=True)


def test_the_log_says_what_is_needed_and_what_is_free(setup, monkeypatch, caplog):
    config = tiny.make_config()
    monkeypatch.setattr(memory, 'free_bytes', lambda: 2**40)
    memory.warn_of_memory(config, setup.policy, setup.mesh, prompt_tokens=20)
    assert 'WARNING' not in caplog.text
    monkeypatch.setattr(memory, 'free_bytes', lambda: 2**29)
    memory.warn_of_memory(config, setup.policy, setup.mesh, prompt_tokens=20)
    assert 'memory on this CPU: about 1.0 GiB (weights, opt' in caplog.text
    assert '0.5 GiB are free: smaller train.micro_batch_prompts' in caplog.text


def test_free_memory_is_no_more_than_there_is():
    assert 0 < memory.free_bytes() <= memory.host_bytes()
