"""What a rollout must depend on, and everything that it must not depend on.

These are properties of ``sampling.sampler`` and ``sampling.keys`` together, token for
token.
"""

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.sampling import Purpose, sample, step_key
from passk_jax.types import Prompts, Rollouts
from tests.sampling.calls import keywords
from tests.slow import slow_rows

DEFAULTS = {
    'num_rollouts': 4,
    'max_response_tokens': 10,
    'temperature': 1.0,
    'top_p': 1.0,
    'top_k': 0,
    'stop_tokens': (3, 7),
}
FIGURES = ('sampler_log_probs', 'untruncated_log_probs', 'entropies')


def rollout_key(*, seed=0, purpose=Purpose.ROLLOUTS, step=0, split=''):
    return step_key(seed=seed, purpose=purpose, step=step, split=split)


def run(policy, params, prompts, *, key=None, **overrides) -> Rollouts:
    key = rollout_key() if key is None else key
    return sample(policy, params, prompts, key=key, **keywords(DEFAULTS | overrides))


def select(prompts: Prompts, index) -> Prompts:
    return jax.tree.map(lambda x: x[index], prompts)


def assert_same(
    actual: Rollouts, expected: Rollouts, problems=slice(None), *, atol=1e-5
):
    """The same tokens exactly; the same figures as float32 sums in any order."""
    N, T = actual.tokens.shape[1:]
    for name in ('tokens', 'lengths', 'stopped'):
        want = np.asarray(getattr(expected, name))[problems, :N]
        want = want[..., :T] if name == 'tokens' else want
        np.testing.assert_array_equal(getattr(actual, name), want)
    for name in FIGURES:
        want = np.asarray(getattr(expected, name))[problems, :N, :T]
        np.testing.assert_allclose(getattr(actual, name), want, atol=atol)


@pytest.fixture(scope='module')
def rollouts(policy, params, prompts) -> Rollouts:
    """What every test here compares with."""
    sampled = run(policy, params, prompts)
    assert len(np.unique(sampled.lengths)) > 3
    return sampled


@pytest.mark.slow
def test_the_same_call_gives_the_same_rollouts(policy, params, prompts, rollouts):
    again = run(policy, params, prompts)
    jax.tree.map(np.testing.assert_array_equal, again, rollouts)


def test_batch_order_does_not_matter(policy, params, prompts, rollouts):
    order = np.array([5, 2, 7, 0, 6, 1, 4, 3])
    assert_same(run(policy, params, select(prompts, order)), rollouts, order)


@pytest.mark.parametrize('part', [slice(2, 3), slice(0, 4), slice(4, 8)])
def test_a_micro_batch_gives_what_the_batch_gives(
    policy, params, prompts, rollouts, part
):
    assert_same(run(policy, params, select(prompts, part)), rollouts, part)


@pytest.mark.parametrize(('width', 'pad'), [(9, 11), (16, 5)])
def test_prompt_pads_do_not_matter(policy, params, prompts, rollouts, width, pad):
    tokens = np.full((8, width), pad, np.int32)
    tokens[:, :9] = np.where(
        np.arange(9) < prompts.lengths[:, None], prompts.tokens, pad
    )
    padded = Prompts(tokens, prompts.lengths, prompts.problem_ids)
    assert_same(run(policy, params, padded), rollouts)


def test_the_first_rollouts_do_not_depend_on_how_many(
    policy, params, prompts, rollouts
):
    more = run(policy, params, prompts, num_rollouts=7)
    assert_same(rollouts, more)


def test_a_larger_limit_goes_on_from_a_smaller_one(policy, params, prompts, rollouts):
    short = run(policy, params, prompts, max_response_tokens=4)
    tokens = np.asarray(rollouts.tokens)[..., :4]
    np.testing.assert_array_equal(short.tokens, tokens)
    np.testing.assert_array_equal(short.lengths, np.minimum(rollouts.lengths, 4))
    ended = np.asarray(rollouts.stopped) & (np.asarray(rollouts.lengths) <= 4)
    np.testing.assert_array_equal(short.stopped, ended)


@pytest.mark.parametrize(
    ('sizes', 'how'),
    [
        *slow_rows([((1, 1, 1), {}), ((8, 1, 1), {})]),
        ((2, 2, 2), {'temperature': 0.8, 'top_p': 0.9, 'top_k': 5}),
        *slow_rows([((1, 4, 2), {'temperature': 0.0})]),
    ],
)
def test_the_mesh_does_not_matter(policy, params, prompts, sizes, how):
    expected = run(policy, params, prompts, **how)
    data, fsdp, tensor = sizes
    devices = jax.devices()[: data * fsdp * tensor]
    mesh = sharding.make_mesh(
        data=data, fsdp=fsdp, rollout=1, tensor=tensor, devices=devices
    )
    with jax.set_mesh(mesh):
        shapes = policies.param_shapes(policy, mesh)
        placed = {k: jax.device_put(v, shapes[k].sharding) for k, v in params.items()}
        local = jax.device_put(prompts, sharding.batch_sharding(mesh, prompts))
        # As in the training loop, no implicit transfer is allowed.
        with jax.transfer_guard('disallow'):
            sampled = run(policy, placed, local, **how)
        shardings = sharding.batch_sharding(mesh, sampled)
    assert_same(sampled, expected)
    for x, want in zip(
        jax.tree.leaves(sampled), jax.tree.leaves(shardings), strict=True
    ):
        assert x.sharding.is_equivalent_to(want, x.ndim)


@pytest.mark.slow
def test_a_batch_that_the_mesh_does_not_divide_works(policy, params, prompts, rollouts):
    mesh = sharding.make_mesh(data=4, fsdp=1, rollout=1, tensor=2)
    with jax.set_mesh(mesh):
        sampled = run(policy, params, select(prompts, slice(0, 3)))
    assert_same(sampled, rollouts, slice(0, 3))


def test_steps_purposes_splits_and_seeds_share_no_responses(policy, params, prompts):
    keys = [
        rollout_key(),
        rollout_key(step=1),
        rollout_key(seed=1),
        rollout_key(purpose=Purpose.EVALUATION),
        rollout_key(purpose=Purpose.EVALUATION, split='test'),
    ]
    # Twelve tokens at temperature 3: a response met twice is a shared key.
    token_lists = [
        np.asarray(
            run(
                policy, params, prompts, key=key, temperature=3.0, stop_tokens=()
            ).tokens
        )
        for key in keys
    ]
    responses = np.concatenate(token_lists).reshape(-1, 10)
    assert len(np.unique(responses, axis=0)) == len(responses) == 5 * 8 * 4


def test_two_problems_with_one_prompt_share_no_responses(policy, params, prompts):
    twice = select(prompts, np.array([0, 0]))
    twice = Prompts(twice.tokens, twice.lengths, np.array([1, 2], np.int32))
    sampled = run(policy, params, twice, temperature=3.0, stop_tokens=())
    responses = np.asarray(sampled.tokens).reshape(-1, 10)
    assert len(np.unique(responses, axis=0)) == 8


def test_greedy_uses_no_randomness(policy, params, prompts):
    first = run(policy, params, prompts, temperature=0.0)
    other = run(policy, params, prompts, temperature=0.0, key=rollout_key(seed=9))
    jax.tree.map(np.testing.assert_array_equal, first, other)


def test_the_arguments_are_not_consumed(policy, params, prompts):
    placed = jax.device_put((params, prompts))
    run(policy, *placed)
    assert not any(x.is_deleted() for x in jax.tree.leaves(placed))
