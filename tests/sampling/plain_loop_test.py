"""The decode loop: against naive generation, and what a rollout must not depend on."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import sampling_options
from passk_jax.models import policy as policies
from passk_jax.sampling import Purpose, sample, step_key
from passk_jax.sampling import plain_loop as sampler_module
from passk_jax.types import Rollouts
from tests.sampling import oracle
from tests.sampling.calls import keywords
from tests.slow import slow_values

STOPS = (3, 7)
DEFAULTS = {
    'num_rollouts': 4,
    'max_response_tokens': 10,
    'temperature': 1.0,
    'top_p': 1.0,
    'top_k': 0,
    'stop_tokens': STOPS,
}
TRUNCATED = {'temperature': 0.8, 'top_p': 0.9, 'top_k': 5}
PER_TOKEN = ('tokens', 'sampler_log_probs', 'untruncated_log_probs', 'entropies')


@pytest.fixture(scope='module')
def policy(two_layers) -> policies.Policy:
    return two_layers[0]


@pytest.fixture(scope='module')
def params(two_layers) -> policies.Params:
    return two_layers[1]


@pytest.fixture(scope='module')
def bfloat16_policy(policy) -> policies.Policy:
    return dataclasses.replace(
        policy, arch=dataclasses.replace(policy.arch, dtype='bfloat16')
    )


token_log_probs = jax.jit(policies.token_log_probs, static_argnums=0)


def rollout_key(*, seed=0, purpose=Purpose.ROLLOUTS, step=0):
    return step_key(seed=seed, purpose=purpose, step=step)


def run(policy, params, prompts, *, key=None, **overrides) -> Rollouts:
    key = rollout_key() if key is None else key
    return sample(policy, params, prompts, key=key, **keywords(DEFAULTS | overrides))


def mask_of(rollouts: Rollouts) -> np.ndarray:
    slots = np.arange(rollouts.tokens.shape[-1])
    return slots < np.asarray(rollouts.lengths)[..., None]


@functools.partial(jax.jit, static_argnums=0)
def _plain_logits(policy, params, sequences):
    positions = jnp.broadcast_to(jnp.arange(sequences.shape[1]), sequences.shape)
    model = policy.bind(params)
    (hidden,), *_ = model.forward(
        (sequences[:, None],), (positions[:, None],), keep=False
    )
    return policies.logits(policy, params, hidden[:, 0])


def naive_logits(policy, params, prompts, responses) -> np.ndarray:
    """Logits of each response token: the whole sequence, no prefix, no cache."""
    P, N, T = responses.shape
    width = prompts.tokens.shape[1] + T
    sequences = np.zeros((P, N, width), np.int32)
    for p, n in np.ndindex(P, N):
        length = int(prompts.lengths[p])
        sequences[p, n, :length] = prompts.tokens[p, :length]
        sequences[p, n, length : length + T] = responses[p, n]
    logits = _plain_logits(policy, params, sequences.reshape(P * N, width))
    logits = np.asarray(logits).reshape(P, N, width, -1)
    at = np.asarray(prompts.lengths)[:, None, None] - 1 + np.arange(T)
    at = np.broadcast_to(at, (P, N, T))
    return np.take_along_axis(logits, at[..., None], axis=2)


def test_greedy_is_naive_greedy_generation(policy, params, prompts):
    greedy = run(policy, params, prompts, temperature=0.0, num_rollouts=2)
    T = DEFAULTS['max_response_tokens']
    expected = np.zeros((8, 1, T), np.int32)
    for t in range(T):
        logits = naive_logits(policy, params, prompts, expected)
        expected[..., t] = logits[:, :, t].argmax(-1)
    stopped = np.isin(expected, STOPS)
    lengths = np.where(stopped.any(-1), stopped.argmax(-1) + 1, T)
    expected[np.arange(T) >= lengths[..., None]] = 0
    assert 0 < stopped.any(-1).mean() < 1
    for n in range(2):
        np.testing.assert_array_equal(greedy.tokens[:, n], expected[:, 0])
        np.testing.assert_array_equal(greedy.lengths[:, n], lengths[:, 0])
        np.testing.assert_array_equal(greedy.stopped[:, n], stopped.any(-1)[:, 0])
    np.testing.assert_array_equal(greedy.sampler_log_probs, 0)


@pytest.mark.parametrize('how', [*slow_values([{}]), {'temperature': 0.7}, TRUNCATED])
def test_recorded_figures_are_those_of_plain_forwards(policy, params, prompts, how):
    how = {'temperature': 1.0, 'top_p': 1.0, 'top_k': 0} | how
    rollouts = run(policy, params, prompts, **how)
    tokens, mask = np.asarray(rollouts.tokens), mask_of(rollouts)
    logits = naive_logits(policy, params, prompts, tokens)
    expected = oracle.figures(logits[mask], tokens[mask], **how)
    figures = {name: np.asarray(getattr(rollouts, name))[mask] for name in PER_TOKEN}
    np.testing.assert_allclose(
        figures['sampler_log_probs'], expected.sampler, atol=1e-5
    )
    np.testing.assert_allclose(
        figures['untruncated_log_probs'], expected.untruncated, atol=1e-5
    )
    np.testing.assert_allclose(figures['entropies'], expected.entropies, atol=1e-5)


def test_the_learner_recomputes_the_recorded_log_probs(policy, params, prompts):
    rollouts = run(policy, params, prompts, **TRUNCATED)
    log_probs, entropies, _ = token_log_probs(
        policy, params, prompts, rollouts.tokens, temperature=TRUNCATED['temperature']
    )
    mask = mask_of(rollouts)
    assert len(np.unique(rollouts.lengths)) > 3
    np.testing.assert_allclose(
        rollouts.untruncated_log_probs, np.where(mask, log_probs, 0), atol=1e-5
    )
    np.testing.assert_allclose(
        rollouts.entropies, np.where(mask, entropies, 0), atol=1e-5
    )


@pytest.mark.slow
def test_the_learner_agrees_in_bfloat16(bfloat16_policy, params, prompts):
    rollouts = run(bfloat16_policy, params, prompts)
    log_probs, *_ = token_log_probs(
        bfloat16_policy, params, prompts, rollouts.tokens, temperature=1.0
    )
    mask = mask_of(rollouts)
    difference = np.abs(np.asarray(rollouts.untruncated_log_probs - log_probs))[mask]
    # 1e-7 in the mean here, where rounding to bfloat16 hides the order of the sums;
    # larger policies show some 1e-3.
    assert difference.mean() < 1e-2
    assert rollouts.untruncated_log_probs.dtype == jnp.float32


@pytest.mark.parametrize(
    'how',
    [
        {'temperature': 1.0, 'top_p': 1.0, 'top_k': 0},
        {'temperature': 0.7, 'top_p': 1.0, 'top_k': 0},
        *slow_values([{'temperature': 1.0, 'top_p': 0.95, 'top_k': 0}]),
        {'temperature': 1.0, 'top_p': 1.0, 'top_k': 3},
    ],
)
def test_first_tokens_are_as_frequent_as_their_probability(
    policy, params, prompts, how
):
    few = jax.tree.map(lambda x: x[:3], prompts)
    number = 20_000
    rollouts = run(
        policy, params, few, num_rollouts=number, max_response_tokens=1, **how
    )
    logits = naive_logits(policy, params, few, np.zeros((3, 1, 1), np.int32))[:, 0, 0]
    expected = number * oracle.distribution(logits, **how)
    for p in range(3):
        counts = np.bincount(np.asarray(rollouts.tokens)[p, :, 0], minlength=12)
        assert oracle.chi_square_sigmas(counts, expected[p]) < 5
        assert (np.abs(counts - expected[p]) <= 5 * np.sqrt(expected[p])).all()


def test_settings_at_and_beyond_their_borders_work(policy, params, prompts):
    greedy = run(policy, params, prompts, temperature=0.0)
    smallest = run(policy, params, prompts, top_p=1e-6)
    np.testing.assert_array_equal(smallest.tokens, greedy.tokens)
    np.testing.assert_array_equal(smallest.sampler_log_probs, 0)
    plain = run(policy, params, prompts)
    most = run(policy, params, prompts, top_k=10**7)
    np.testing.assert_array_equal(most.tokens, plain.tokens)


def test_responses_have_mixed_lengths_and_end_with_their_stop(policy, params, prompts):
    rollouts = run(policy, params, prompts)
    tokens, lengths = np.asarray(rollouts.tokens), np.asarray(rollouts.lengths)
    mask, stopped = mask_of(rollouts), np.asarray(rollouts.stopped)
    last = np.take_along_axis(tokens, lengths[..., None] - 1, axis=-1)[..., 0]
    assert stopped.any()
    assert not stopped.all()
    assert set(np.unique(last[stopped])) == set(STOPS)
    np.testing.assert_array_equal(lengths[~stopped], DEFAULTS['max_response_tokens'])
    assert not np.isin(last[~stopped], STOPS).any()
    # The stop is inside the response, only at its end, and has its log-probability.
    before_last = np.arange(tokens.shape[-1]) < lengths[..., None] - 1
    assert not np.isin(tokens[before_last], STOPS).any()
    assert (np.asarray(rollouts.sampler_log_probs)[mask] < 0).all()
    assert (np.asarray(rollouts.entropies)[mask] > 0).all()


def test_positions_past_the_length_are_zero(policy, params, prompts):
    rollouts = run(policy, params, prompts)
    dead = ~mask_of(rollouts)
    assert dead.any()
    for name in PER_TOKEN:
        assert (np.asarray(getattr(rollouts, name))[dead] == 0).all()


def test_a_stop_token_may_be_token_zero(policy, params, prompts):
    rollouts = run(policy, params, prompts, stop_tokens=(0,))
    tokens, mask = np.asarray(rollouts.tokens), mask_of(rollouts)
    stopped = np.asarray(rollouts.stopped)
    assert stopped.any()
    np.testing.assert_array_equal(((tokens == 0) & mask).any(-1), stopped)


def test_no_stop_token_runs_to_the_limit(policy, params, prompts):
    rollouts = run(policy, params, prompts, stop_tokens=())
    assert not np.asarray(rollouts.stopped).any()
    np.testing.assert_array_equal(rollouts.lengths, DEFAULTS['max_response_tokens'])


def test_a_limit_of_one_token_works(policy, params, prompts):
    one = run(policy, params, prompts, max_response_tokens=1)
    assert one.tokens.shape == (8, 4, 1)
    np.testing.assert_array_equal(one.lengths, 1)
    np.testing.assert_array_equal(one.stopped, np.isin(one.tokens[..., 0], STOPS))


def test_settings_and_stop_tokens_do_not_recompile(policy, params, prompts):
    run(policy, params, prompts)
    run(policy, params, prompts, **TRUNCATED)
    compiled = sampler_module.sample._cache_size()
    for stops in ((1,), (2, 5, 6), ()):
        run(policy, params, prompts, stop_tokens=stops)
    run(policy, params, prompts, temperature=1.7, key=rollout_key(step=5))
    run(policy, params, prompts, temperature=0.3, top_p=0.5, top_k=0)
    run(policy, params, prompts, temperature=1.0, top_p=1.0, top_k=2)
    assert sampler_module.sample._cache_size() == compiled


def test_the_loop_ends_with_the_longest_response(policy, params, prompts, monkeypatch):
    calls = []

    def counted(*args):
        jax.debug.callback(lambda: calls.append(None))
        return policies_decode(*args)

    policies_decode = policies.decode
    monkeypatch.setattr(policies, 'decode', counted)
    # Another static policy, so that the counting program stays in this test.
    policy = dataclasses.replace(policy, head_chunk_tokens=12345)
    some_stop = {'stop_tokens': tuple(range(9)), 'max_response_tokens': 500}
    rollouts = run(policy, params, prompts, **some_stop)
    jax.effects_barrier()
    longest = int(np.max(rollouts.lengths))
    assert 1 < longest < 100
    assert len(calls) == longest - 1
    calls.clear()
    rollouts = run(policy, params, prompts, **some_stop | {'stop_tokens': range(12)})
    jax.effects_barrier()
    np.testing.assert_array_equal(rollouts.lengths, 1)
    assert not calls


def compiled(policy, params, prompts, *, num_rollouts, max_response_tokens):
    request = sampler_module.checked_request(
        policy,
        num_rollouts=num_rollouts,
        max_response_tokens=max_response_tokens,
        options=sampling_options(),
        stop_tokens=(),
    )
    key = rollout_key()
    weights = policies.decoding_weights(policy, params)
    program = sampler_module.sample.lower(policy, weights, prompts, key, request)
    return program.compile()


def test_decoding_keeps_one_cache_in_memory(policy, params, prompts):
    N, T = 64, 257
    program = compiled(policy, params, prompts, num_rollouts=N, max_response_tokens=T)
    arch = policy.arch
    cache = 2 * arch.num_layers * arch.num_kv_heads * arch.head_dim * 4
    cache *= 8 * N * (T - 1)
    # Updated in place; a copy in the loop would be another half or whole of it. The
    # rest is one step's attention weights.
    assert program.memory_analysis().temp_size_in_bytes < 1.3 * cache


def test_decoding_sends_no_parameter_between_devices(policy, params, prompts):
    mesh = sharding.make_mesh(data=1, fsdp=8, rollout=1, tensor=1)
    with jax.set_mesh(mesh):
        shapes = policies.param_shapes(policy, mesh)
        placed = {k: jax.device_put(v, shapes[k].sharding) for k, v in params.items()}
        local = jax.device_put(prompts, sharding.batch_sharding(mesh, prompts))
        program = compiled(
            policy, placed, local, num_rollouts=4, max_response_tokens=10
        )
        gathers = policies._prepare_decoding.lower(policy, placed).compile().as_text()
    # All are gathered once, before the loop.
    assert 'all-gather(' in gathers
    lines = program.as_text().splitlines()
    in_loop = [line for line in lines if 'decode/while/body' in line]
    assert in_loop
    assert not [line for line in in_loop if 'all-gather' in line]


@pytest.mark.parametrize(
    ('bad', 'message'),
    [
        ({'num_rollouts': 0}, 'num_rollouts=0'),
        ({'max_response_tokens': 0}, 'max_response_tokens=0'),
        ({'temperature': -0.1}, 'temperature=-0.1'),
        ({'temperature': float('nan')}, 'temperature=nan'),
        ({'temperature': float('inf')}, 'temperature=inf'),
        ({'temperature': 1e-40}, 'temperature=1e-40'),
        ({'top_p': 0.0}, 'top_p=0.0'),
        ({'top_p': 1.01}, 'top_p=1.01'),
        ({'top_p': float('nan')}, 'top_p=nan'),
        ({'top_k': -1}, 'top_k=-1'),
        ({'stop_tokens': (3, 12)}, 'stop token 12'),
        ({'stop_tokens': (-1,)}, 'stop token -1'),
    ],
)
def test_a_bad_setting_is_an_error_before_any_work(policy, bad, message):
    # No parameters and no prompts: nothing can have touched them.
    with pytest.raises(ValueError, match=message):
        run(policy, None, None, key=jax.random.key(0), **bad)
