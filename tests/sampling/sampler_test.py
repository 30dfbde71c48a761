"""Scheduled sampling: the plain loop's rollouts, and fewer rows for them."""

import contextlib
import dataclasses
import functools
import math
from unittest import mock

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from benchmarks import lengths
from passk_jax import sharding
from passk_jax.models import attention_kernels, decode_attention
from passk_jax.models import policy as policies
from passk_jax.sampling import Purpose, plain_loop, sampler, step_key
from passk_jax.sampling.scheduled import cost, device, grid, host
from passk_jax.sampling.scheduled.cost import Pace
from passk_jax.sampling.scheduled.grid import Size
from passk_jax.types import Prompts
from tests.models import oracle
from tests.sampling.calls import keywords
from tests.sampling.plain_loop_independence_test import assert_same, select
from tests.slow import slow_rows, slow_values

# Long enough for two lengths of the cache, and 64 rows for several sizes. Then for
# three lengths, and for one.
N, T = 8, 49
LONGER, SHORT = 70, 33
SETTINGS = {
    'num_rollouts': N,
    'max_response_tokens': T,
    'temperature': 1.0,
    'top_p': 1.0,
    'top_k': 0,
    'stop_tokens': (6,),
}


# Policies this small never pay for a decision: here decisions are free. And no thread
# compiles beside the tests but those of ahead_test.py.
FREE = {'bandwidth': math.inf, 'decision': 0.0, 'ahead': False}
DEFAULT = cost._PACE['cpu']
CPU = dataclasses.replace(DEFAULT, **FREE)
ACCELERATORS = dataclasses.replace(cost._PACE_OF_ACCELERATORS, **FREE)
THREE = Pace(stride=3, part=1 / 5, times=2, flops=1.0, **FREE)


def key(seed: int = 0) -> jax.Array:
    return step_key(seed=seed, purpose=Purpose.ROLLOUTS, step=0)


@contextlib.contextmanager
def decodings():
    """The :class:`Decoding` of every call that schedules, once it has ended."""
    runs = []
    finish = host.Decoding.finish

    def watched(self, on_ended):
        finish(self, on_ended)
        runs.append(self)

    with mock.patch.object(host.Decoding, 'finish', watched):
        yield runs


@contextlib.contextmanager
def at(pace: Pace):
    """Another platform's pace."""
    with mock.patch.dict(cost._PACE, {jax.default_backend(): pace}):
        yield


@pytest.fixture(autouse=True)
def free_decisions():
    with at(CPU):
        yield


def run(policy, params, prompts, **changes):
    return sampler.sample(
        policy, params, prompts, **keywords({'key': key(), **SETTINGS, **changes})
    )


def plain(policy, params, prompts, **changes):
    settings = keywords({'key': key(), **SETTINGS, **changes})
    address = settings.pop('key')
    request = plain_loop.checked_request(policy, **settings)
    weights = policies.decoding_weights(policy, params)
    return plain_loop.sample(policy, weights, prompts, address, request)


def work_of(policy, prompts: Prompts, num_rollouts: int = N, tokens: int = T):
    P, S = prompts.tokens.shape
    work, _ = sampler.fit_grid(
        policy,
        num_prompts=P,
        num_rollouts=num_rollouts,
        prompt_tokens=S,
        max_response_tokens=tokens,
        max_cache_bytes=0,
    )
    return work


@pytest.fixture(scope='module')
def rollouts(policy, params, prompts):
    """The oracle's."""
    sampled = plain(policy, params, prompts)
    assert len(np.unique(sampled.lengths)) > 15
    return sampled


@pytest.fixture(scope='module')
def oracles(policy, params, prompts, rollouts):
    """The oracle's, for both limits."""
    longer = plain(policy, params, prompts, max_response_tokens=LONGER)
    return {T: rollouts, LONGER: longer}


@pytest.mark.parametrize(
    ('size', 'tokens', 'ring'),
    slow_rows(
        [
            (None, T, 48),
            (Size(8, 3), T, 48),
            (Size(2, 2), LONGER, 80),
            (Size(1, 1), T, 48),
        ],
        quick=[(Size(8, 3), T, 48)],
    ),
)
def test_every_schedule_gives_the_plain_loops_rollouts(
    policy, params, prompts, oracles, size, tokens, ring
):
    limit = work_of(policy, prompts, tokens=tokens).cache_bytes(size) if size else 0
    settings = {'max_response_tokens': tokens, 'max_cache_bytes': limit}
    with decodings() as runs:
        assert_same(run(policy, params, prompts, **settings), oracles[tokens])
    (done,) = runs
    # The cache was made longer, and all rows but few moved to smaller sizes.
    assert done.ring == ring > grid.shortest_ring(ring)
    assert done.size.total <= 12


@pytest.mark.slow
def test_windows_see_the_same_tokens_in_every_row(two_layers, prompts):
    """Rows begin at different times, and the ring is shorter than all they hold."""
    policy, params = two_layers
    arch = oracle.with_windows(policy.arch, 5, 0)
    windowed = dataclasses.replace(policy, arch=arch)
    few = select(prompts, slice(0, 3))
    limit = work_of(windowed, few).cache_bytes(Size(2, 2))
    sampled = run(windowed, params, few, max_cache_bytes=limit)
    assert_same(sampled, plain(windowed, params, few))
    assert (sampled.tokens != plain(policy, params, few).tokens).any()


@pytest.mark.parametrize('size', slow_values([None, Size(2, 2)], quick=[Size(2, 2)]))
@pytest.mark.parametrize('windows', slow_values([(0,), (5, 0)], quick=[(5, 0)]))
def test_the_kernel_of_tpus_samples_the_plain_forms_tokens(
    two_layers, prompts, monkeypatch, size, windows
):
    for module, name in (
        (attention_kernels, '_splash'),
        (decode_attention, 'attend_filled'),
    ):
        kernel = functools.partial(getattr(module, name), interpret=True)
        monkeypatch.setattr(module, name, kernel)
    policy, params = two_layers
    policy, on_tpus = (
        dataclasses.replace(
            policy,
            arch=dataclasses.replace(
                oracle.with_windows(policy.arch, *windows), attention=attention
            ),
        )
        for attention in ('plain', 'splash')
    )
    few = select(prompts, slice(0, 4))
    limit = work_of(policy, few).cache_bytes(size) if size else 0
    want = plain(policy, params, few, temperature=0.0)
    have = run(on_tpus, params, few, temperature=0.0, max_cache_bytes=limit)
    np.testing.assert_array_equal(have.tokens, want.tokens)
    np.testing.assert_array_equal(have.lengths, want.lengths)
    np.testing.assert_allclose(
        have.untruncated_log_probs, want.untruncated_log_probs, atol=1e-4
    )


@pytest.mark.parametrize(
    ('size', 'pace'),
    [(Size(4, 3), THREE), *slow_rows([(None, ACCELERATORS), (Size(4, 3), DEFAULT)])],
)
def test_the_pace_does_not_matter(policy, params, prompts, rollouts, size, pace):
    limit = work_of(policy, prompts).cache_bytes(size) if size else 0
    with at(pace):
        assert_same(run(policy, params, prompts, max_cache_bytes=limit), rollouts)


@pytest.mark.parametrize(
    'how', [{'temperature': 0.8, 'top_p': 0.9, 'top_k': 5}, {'temperature': 0.0}]
)
def test_settings_mean_what_they_mean_to_the_plain_loop(policy, params, prompts, how):
    few = select(prompts, slice(0, 3))
    how = {**how, 'max_response_tokens': SHORT}
    limit = work_of(policy, few, tokens=SHORT).cache_bytes(Size(2, 2))
    sampled = run(policy, params, few, max_cache_bytes=limit, **how)
    assert_same(sampled, plain(policy, params, few, **how))


@pytest.mark.parametrize(
    'sizes', slow_values([(2, 2, 1, 2), (1, 2, 2, 2)], quick=[(2, 2, 1, 2)])
)
def test_the_mesh_does_not_matter(policy, params, prompts, rollouts, sizes):
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    with jax.set_mesh(mesh), decodings() as runs:
        shapes = policies.param_shapes(policy, mesh)
        placed = {k: jax.device_put(v, shapes[k].sharding) for k, v in params.items()}
        local = jax.device_put(prompts, sharding.batch_sharding(mesh, prompts))
        work = work_of(policy, local)
        limit = work.cache_bytes(Size(1, 2))
        call_key = key()
        # As in the training loop, no implicit transfer is allowed.
        with jax.transfer_guard('disallow'):
            have = run(policy, placed, local, key=call_key, max_cache_bytes=limit)
    assert_same(have, rollouts)
    assert runs[0].num_cells == math.prod(sizes[:3])
    shardings = sharding.batch_sharding(mesh, prompts)
    assert have.prompts.tokens.sharding == shardings.tokens


@pytest.mark.slow
@pytest.mark.parametrize(
    'how',
    [{}, {'temperature': 0.8, 'top_p': 0.9, 'top_k': 50}, {'temperature': 0.0}],
    ids=str,
)
def test_a_vocabulary_on_several_devices_gives_the_plain_loops_rollouts(prompts, how):
    policy = oracle.tiny_policy(vocab_size=1024, num_layers=1)
    params = oracle.random_params(policy)
    how = {**how, 'stop_tokens': tuple(range(0, 1024, 32))}
    expected = plain(policy, params, prompts, **how)
    mesh = sharding.make_mesh(data=2, fsdp=1, rollout=1, tensor=4)
    with jax.set_mesh(mesh):
        shapes = policies.param_shapes(policy, mesh)
        placed = {k: jax.device_put(v, shapes[k].sharding) for k, v in params.items()}
        local = jax.device_put(prompts, sharding.batch_sharding(mesh, prompts))
        limit = work_of(policy, local).cache_bytes(Size(2, 3))
        with decodings() as runs:
            scheduled = run(policy, placed, local, max_cache_bytes=limit, **how)
        assert_same(scheduled, expected)
        assert_same(plain(policy, placed, local, **how), expected)
    assert runs


def test_what_is_quick_and_fits_is_left_to_the_plain_loop(policy, params, prompts):
    with at(DEFAULT), decodings() as runs:
        run(policy, params, prompts, max_response_tokens=10)
    assert not runs


def test_a_batch_that_the_mesh_does_not_divide_cannot_wait(policy, params, prompts):
    mesh = sharding.make_mesh(data=4, fsdp=1, rollout=1, tensor=2)
    few = select(prompts, slice(0, 3))
    with jax.set_mesh(mesh):
        limit = work_of(policy, few).cache_bytes(Size(2, 2))
        with pytest.raises(ValueError, match='3 prompts with 8 rollouts'):
            run(policy, params, few, max_cache_bytes=limit)


def test_a_cache_for_no_row_is_an_error_before_any_work(policy, prompts):
    with pytest.raises(ValueError, match='max_cache_bytes=1 is too small'):
        run(policy, None, prompts, max_cache_bytes=1)


# Half of what lengths.py forces, which is enough for three lengths of the cache.
MANY, LIMIT = 32, 128
LONG = {
    'num_rollouts': MANY,
    'max_response_tokens': LIMIT,
    'stop_tokens': (lengths.STOP,),
}


@pytest.fixture(scope='module')
def small() -> tuple:
    """One layer, and a static policy whose programs have forced lengths."""
    policy = oracle.tiny_policy(
        num_layers=1, vocab_size=12, num_heads=1, num_kv_heads=1, head_chunk_tokens=7
    )
    return policy, oracle.random_params(policy)


# A temperature of 1 is the first law of :func:`run_forced`.
GEOMETRIC = 2.0


def tabulated(quantile):
    """Half of it, by a table, because every program has the law compiled into it."""
    size = 4096
    table = np.ceil(quantile((np.arange(size) + 0.5) / size) / 2)
    return lambda uniform: jnp.take(
        table, (size * uniform).astype(jnp.int32), mode='clip'
    )


LAWS = tuple(map(tabulated, (lengths.log_normal, lengths.geometric)))


def run_forced(small, prompts, **changes):
    """The rollouts of a law, and how they were decoded."""
    with lengths.forced(*LAWS), decodings() as runs:
        have = run(*small, prompts, **{**LONG, **changes})
    (done,) = runs
    return have, done


def runs_of(small, prompts) -> tuple:
    """Two runs of a long tail, and how many programs they compiled."""
    before = device.advance._cache_size()
    runs = [run_forced(small, prompts, key=key(seed)) for seed in range(2)]
    return runs, device.advance._cache_size() - before


@pytest.fixture(scope='module')
def tails(small, prompts) -> tuple:
    """At the pace of a CPU; whoever shares its programs must ask for it first."""
    with at(CPU):
        return runs_of(small, prompts)


def assert_costs_about_its_tokens(have, done):
    """A quarter more rows than tokens, for a long tail."""
    tokens = int(have.lengths.sum())
    assert 22 < tokens / have.lengths.size < 33
    assert tokens <= done.row_steps <= 1.25 * tokens
    # Waiting for the longest would have cost this.
    assert have.lengths.size * int(have.lengths.max()) > 3.5 * tokens


@pytest.mark.slow
@pytest.mark.usefixtures('tails')
def test_a_long_tail_costs_a_quarter_more_rows_than_tokens_if_few_fit(small, prompts):
    limit = work_of(small[0], prompts, MANY, LIMIT).cache_bytes(Size(8, 8))
    assert_costs_about_its_tokens(*run_forced(small, prompts, max_cache_bytes=limit))


@pytest.mark.slow
@pytest.mark.usefixtures('tails')
def test_geometric_lengths_cost_about_their_sum(small, prompts):
    have, done = run_forced(small, prompts, temperature=GEOMETRIC)
    at_limit = (np.asarray(have.lengths) == LIMIT).mean()
    assert 0.02 < at_limit < 0.09
    assert done.row_steps <= 1.25 * int(have.lengths.sum())


@pytest.mark.parametrize('pace', slow_values([CPU, ACCELERATORS], quick=[CPU]))
def test_other_lengths_compile_a_bounded_number_of_programs(
    small, prompts, tails, pace
):
    """And whatever they are, a long tail costs little more than its tokens."""
    if pace == CPU:
        runs, compiled = tails
        for have, done in runs:
            assert_costs_about_its_tokens(have, done)
    else:
        with at(pace):
            runs, compiled = runs_of(small, prompts)
    work = runs[0][1].work
    smaller = grid.smaller_sizes(work, work.everything, part=pace.part)
    sizes = (work.everything, *smaller)
    rings = [grid.shortest_ring(LIMIT)]
    while rings[-1] < LIMIT:
        rings.append(min(pace.times * rings[-1], LIMIT))
    assert len(rings) <= compiled <= len(sizes) * len(rings)
    # At most so many, whatever the lengths; those of an accelerator take long.
    assert len(sizes) * len(rings) <= (27 if pace.stride == 1 else 6)


@pytest.mark.slow
def test_in_bfloat16_a_smaller_memory_rounds_otherwise_and_no_more(prompts):
    """Products of other shapes round differently, and a token may then differ."""
    policy = oracle.tiny_policy(num_layers=2, dtype='bfloat16')
    params = oracle.random_params(policy)
    limit = work_of(policy, prompts, tokens=SHORT).cache_bytes(Size(4, 2))
    quiet = {'stop_tokens': (), 'max_response_tokens': SHORT}
    have = run(policy, params, prompts, max_cache_bytes=limit, **quiet)
    want = plain(policy, params, prompts, **quiet)
    # Up to the first other token, that one excepted.
    same = np.cumprod(np.asarray(have.tokens == want.tokens), axis=-1).astype(bool)
    assert same.mean() > 0.5
    gaps = np.abs(have.sampler_log_probs - want.sampler_log_probs)[same]
    assert gaps.max() < 0.05
