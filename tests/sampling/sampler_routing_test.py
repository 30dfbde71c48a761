"""The experts that sampling keeps for the learner, in both of its loops."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import PartitionSpec

from passk_jax import sampling, sharding
from passk_jax.config import sampling_options
from passk_jax.models import policy as policies
from passk_jax.sampling import sampler
from passk_jax.sampling.scheduled import device
from tests.models import oracle
from tests.slow import slow_rows, slow_values

MOE = {'feed_forward': 'moe', 'num_experts': 6, 'experts_per_token': 2}
P, N, T = 4, 3, 9
STOP = (3, 7)


def make(**changes):
    arch = oracle.tiny_arch(**MOE, **changes)
    policy = policies.Policy(arch, 1 << 20, replay_routing=True)
    prompts, _, _ = oracle.random_batch(vocab_size=16, P=P, S=5)
    return policy, oracle.random_params(policy), prompts


def sample(policy, params, prompts, **options):
    key = sampling.step_key(seed=0, purpose=sampling.Purpose.ROLLOUTS, step=0)
    return sampling.sample(
        policy,
        params,
        prompts,
        key=key,
        num_rollouts=N,
        max_response_tokens=T,
        options=sampling_options(),
        stop_tokens=STOP,
        **options,
    )


@functools.partial(jax.jit, static_argnames='policy')
def score(policy, params, rollouts, routing):
    arrays = rollouts.prompts, rollouts.tokens, None, routing
    return policies.token_log_probs(policy, params, *arrays, temperature=1.0)


@pytest.mark.parametrize('max_cache_bytes', slow_values([0, 25_000], quick=[0]))
def test_sampling_keeps_the_experts_that_the_learner_would_choose(max_cache_bytes):
    policy, params, prompts = make()
    rollouts = sample(policy, params, prompts, max_cache_bytes=max_cache_bytes)
    assert rollouts.routing.shape == (P, N, T, 2, 2)
    assert rollouts.routing.dtype == jnp.uint8
    log_probs, _, figures = score(policy, params, rollouts, None)
    real = np.arange(T) < np.asarray(rollouts.lengths)[..., None]
    assert len(np.unique(rollouts.lengths)) > 1
    sampled, expected = (
        np.sort(x)[real] for x in (rollouts.routing, figures['routing'])
    )
    np.testing.assert_array_equal(sampled, expected)
    # And those of the prompts.
    model = policy.bind(params)
    S = prompts.tokens.shape[1]
    positions = jnp.broadcast_to(jnp.arange(S), (P, 1, S))
    _, _, statistics = model.forward(
        (prompts.tokens[:, None],), (positions,), keep=True
    )
    expected = np.moveaxis(statistics['routing'][0][:, :, 0], 0, 2)
    np.testing.assert_array_equal(rollouts.prompts.routing, expected)
    # The learner runs the same ones, so nothing changes.
    again, _, figures = score(policy, params, rollouts, rollouts.routing)
    np.testing.assert_allclose(again[real], log_probs[real], atol=1e-6)
    assert not np.asarray(figures['rerouted'])[real].any()


def test_the_experts_of_a_prompt_are_split_as_its_problem():
    """Their second axis is tokens, not heads of keys and values."""
    policy, params, prompts = make()
    tokens = jnp.pad(prompts.tokens, ((0, 0), (0, 1)))
    prompts = dataclasses.replace(prompts, tokens=tokens)
    mesh = sharding.make_mesh(
        data=2, fsdp=1, rollout=1, tensor=2, devices=jax.devices()[:4]
    )
    weights = policies.decoding_weights(policy, params)
    weights, prompts = jax.tree.map(np.asarray, (weights, prompts))
    with jax.set_mesh(mesh):
        slots = device.prefill(policy, weights, prompts, jax.random.key(0))
    assert slots.prefix.routing.shape == (P, 6, 2, 2)
    want = jax.NamedSharding(mesh, PartitionSpec(('data', 'fsdp')))
    assert slots.prefix.routing.sharding.is_equivalent_to(want, 4)


def test_the_schedule_was_run():
    policy, _, _ = make()
    sizes = {'num_prompts': P, 'num_rollouts': N, 'prompt_tokens': 5}
    fit = functools.partial(sampler.fit_grid, policy, **sizes, max_response_tokens=T)
    work, first = fit(max_cache_bytes=25_000)
    assert first != work.everything
    work, first = fit(max_cache_bytes=0)
    assert first == work.everything


@pytest.mark.parametrize(
    ('sizes', 'max_cache_bytes'),
    [
        *slow_rows([((2, 2, 1, 2), 0)]),
        ((2, 2, 1, 2), 4_500),
        *slow_rows([((1, 1, 3, 2), 0), ((1, 1, 3, 2), 8_000)]),
    ],
)
def test_a_mesh_keeps_the_same_experts(sizes, max_cache_bytes):
    policy, params, prompts = make()
    want = sample(policy, params, prompts)
    axes = dict(zip(sharding.MESH_AXES, sizes, strict=True))
    count = int(np.prod(sizes))
    mesh = sharding.make_mesh(**axes, devices=jax.devices()[:count])
    with jax.set_mesh(mesh):
        placed = jax.device_put(prompts, sharding.batch_sharding(mesh, prompts))
        shapes = policies.param_shapes(policy, mesh)
        shardings = {name: x.sharding for name, x in shapes.items()}
        params = jax.device_put(params, shardings)
        have = sample(policy, params, placed, max_cache_bytes=max_cache_bytes)
    np.testing.assert_array_equal(have.tokens, want.tokens)
    real = np.arange(T) < np.asarray(want.lengths)[..., None]
    routings = (np.asarray(x.routing)[real] for x in (have, want))
    np.testing.assert_array_equal(*routings)
    np.testing.assert_array_equal(have.prompts.routing, want.prompts.routing)


def test_the_learner_runs_the_experts_that_it_is_given():
    """Others than its router's, with the router's weights for them."""
    policy, params, prompts = make()
    rollouts = sample(policy, params, prompts)
    other = (rollouts.routing + 1) % 6
    plain, _, _ = score(policy, params, rollouts, rollouts.routing)
    moved, _, figures = score(policy, params, rollouts, other)
    real = np.arange(T) < np.asarray(rollouts.lengths)[..., None]
    assert np.abs(plain - moved)[real].max() > 0.01
    assert 0 < np.asarray(figures['rerouted'])[real].min() <= 1
    np.testing.assert_array_equal(figures['routing'], other)

    def loss(params):
        return score(policy, params, rollouts, other)[0].sum()

    router = jax.grad(loss)(params)['layers.mlp.router.kernel']
    assert np.abs(router).max() > 1e-3


def test_nothing_is_kept_unless_the_policy_says_so():
    policy, params, prompts = make()
    other = policies.Policy(policy.arch, 1 << 20)
    rollouts = sample(other, params, prompts)
    assert rollouts.routing is None
    assert rollouts.prompts.routing is None


def test_a_policy_without_experts_has_no_routing_to_keep():
    with pytest.raises(ValueError, match='replay_routing=True needs a family with'):
        policies.Policy(oracle.tiny_arch(), 1, replay_routing=True)
