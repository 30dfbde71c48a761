import dataclasses
import functools

import jax
import numpy as np
import pytest

from passk_jax.config import sampling_options
from passk_jax.models import pictures
from passk_jax.models import policy as policies
from passk_jax.models.policy import Policy
from passk_jax.models.transformer import Prefix
from passk_jax.sampling import Purpose, plain_loop, step_key
from passk_jax.types import Prompts
from tests.models import oracle
from tests.slow import slow_values

IMAGE = oracle.VISION.image_token


def test_features_stand_in_the_places_of_their_tokens():
    features = np.arange(2 * 3 * 4).reshape(2, 3, 4, 1).astype(np.float32)
    tokens = np.array([[1, IMAGE, IMAGE, 2, IMAGE, 3], [4, 5, 6, IMAGE, IMAGE, IMAGE]])
    placed = pictures.place(features, tokens, IMAGE)
    x = np.full((2, 1, 6, 1), 100.0, np.float32)
    want = [[100, 0, 1, 100, 2, 100], [100, 100, 100, 12, 13, 14]]
    np.testing.assert_array_equal(placed.replace(x)[:, 0, :, 0], want)
    # The features of tap j are added after layer j, and no layer else adds one.
    for layer, added in enumerate([[4, 5, 6], [8, 9, 10], [0, 0, 0]]):
        want = np.full(6, 100.0)
        want[[1, 2, 4]] += added
        have = placed.add_after(np.int32(layer), x)[0, 0, :, 0]
        np.testing.assert_array_equal(have, want)


def programs(policy: Policy) -> list[str]:
    """The lowered text of the programs that learn, sample and run prompts."""
    prompts, tokens, _ = oracle.random_batch(vocab_size=16)
    params = oracle.random_params(policy)
    text = {name: x for name, x in params.items() if not name.startswith('vision.')}
    tower = {name: x for name, x in params.items() if name not in text}

    def loss(text, tower, prompts, tokens):
        params = text | tower
        return oracle.log_probs_of(policy, prompts, tokens)(params)[0].sum()

    key = step_key(seed=0, purpose=Purpose.EVALUATION, step=0)
    request = plain_loop.checked_request(
        policy,
        num_rollouts=2,
        max_response_tokens=4,
        options=sampling_options(temperature=1.0),
        stop_tokens=(1,),
    )
    weights = policies.decoding_weights(policy, params)
    learned = jax.jit(jax.grad(loss)).lower(text, tower, prompts, tokens)
    sampled = plain_loop.sample.lower(policy, weights, prompts, key, request)
    return [program.as_text() for program in (learned, sampled)]


@pytest.mark.slow
def test_programs_of_text_are_those_of_a_model_without_a_tower():
    arch = oracle.family_arch('qwen3_vl')
    rope = dataclasses.replace(oracle.ROPE, sections=())
    layer = dataclasses.replace(arch.layers[0], rope=rope)
    plain = dataclasses.replace(arch, vision=None, layers=(layer,))
    have, want = (programs(Policy(x, head_chunk_tokens=64)) for x in (arch, plain))
    assert have == want


@pytest.mark.parametrize('window', slow_values([0, 3]))
def test_a_window_counts_tokens_and_not_positions(window):
    """A picture of 4 tokens takes 2 positions; responses see as many tokens before."""
    arch = oracle.family_arch('qwen3_vl', windows=(window,), num_layers=2)
    policy = Policy(arch, head_chunk_tokens=64)
    params = oracle.random_params(policy)
    tokens = np.array([[1, IMAGE, IMAGE, IMAGE, IMAGE, 2, 3, 0]], np.int32)
    at = np.array([0, 1, 1, 1, 1, 3, 4, 9])
    positions = np.stack([at, at, at], axis=-1)[None].astype(np.int32)
    positions[0, 1:5, 1:] += np.indices((2, 2)).reshape(2, -1).T
    prompts = Prompts(
        tokens=tokens,
        lengths=np.array([7], np.int32),
        problem_ids=np.zeros(1, np.int32),
        positions=positions,
        features=np.random.default_rng(0).normal(size=(1, 3, 4, 32)).astype('f'),
    )
    response = np.array([[[4, 5, 6, 7, 8]]], np.int32)
    want = oracle.log_probs_of(policy, prompts, response)(params)[0][0, 0]
    weights = policies.decoding_weights(policy, params)
    hidden, prefix = policies.prefill(policy, weights, prompts)
    assert isinstance(prefix, Prefix)
    np.testing.assert_array_equal(prefix.next_positions, [5])
    hidden = hidden[:, None]
    cache = policies.empty_cache(policy, num_prompts=1, num_rollouts=1, num_tokens=5)
    decode = jax.jit(functools.partial(policies.decode, policy))
    for t, token in enumerate(response[0, 0]):
        scores = policies.logits(policy, weights, hidden) / oracle.TEMPERATURE
        have = jax.nn.log_softmax(scores)[0, 0, token]
        np.testing.assert_allclose(have, want[t], rtol=0, atol=1e-5)
        hidden, cache = decode(weights, response[:, :, t], prefix, cache)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_no_copy_of_a_tower_is_made_for_decoding(dtype):
    arch = oracle.family_arch('qwen3_vl', dtype=dtype)
    policy = Policy(arch, head_chunk_tokens=64)
    params = oracle.random_params(policy)
    weights = policies.decoding_weights(policy, params)
    tower = [name for name in params if name.startswith('vision.')]
    assert len(tower) > 10
    for name in tower:
        places = (x.unsafe_buffer_pointer() for x in (weights[name], params[name]))
        assert len({*places}) == 1
    prepared = policies.prepare_decoding(policy, params)
    assert prepared.keys() == weights.keys()
    assert all(prepared[name] is params[name] for name in tower)
