"""The same numbers as transformers (torch, CPU, float32) from the same files."""

import functools
import itertools

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp

from passk_jax import sampling, sharding
from passk_jax.config import sampling_options
from passk_jax.models import policy as policies
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.hf import weights
from tests.models.hf import oracle as hf_oracle
from tests.slow import slow_rows, slow_values

TOLERANCE = 1e-5
LENGTHS = (9, 3, 14, 1)
N, T = 2, 12
# Every stretched rope of one family, and one family of each other kind.
QUICK = [
    *itertools.product(['llama'], hf_oracle.ROPES),
    *itertools.product(['qwen3_moe'], ['default', 'windows']),
    ('qwen3_vl', 'default'),
]


@pytest.fixture(
    scope='module',
    params=slow_values(
        [
            *itertools.product(FAMILIES, hf_oracle.ROPES),
            *itertools.product(hf_oracle.WINDOWS, ['windows']),
        ],
        quick=QUICK,
    ),
    ids='-'.join,
)
def pair(request, tmp_path_factory):
    """Their model, and our policy of what it saved."""
    family, kind = request.param
    directory = tmp_path_factory.mktemp('model')
    # With the policies of the meshes below: a stretched rope and an untied head.
    windowed = 'yarn' if family == 'mistral' else 'default'
    rope = windowed if kind == 'windows' else kind
    sizes = hf_oracle.WINDOWS[family] if kind == 'windows' else {}
    tie = rope in ('linear', 'llama3')
    model = hf_oracle.make_model(family, rope=rope, tie_word_embeddings=tie, **sizes)
    model.save_pretrained(directory)
    return model, *hf_oracle.read(directory)


@pytest.fixture(scope='module')
def prompts():
    return hf_oracle.unequal_prompts(40, lengths=LENGTHS, seed=1)


@pytest.fixture(scope='module')
def responses():
    rng = np.random.default_rng(2)
    return jnp.asarray(rng.integers(0, 40, (len(LENGTHS), N, T)), jnp.int32)


@functools.partial(jax.jit, static_argnums=0)
def token_log_probs(policy, params, prompts, tokens):
    return policies.token_log_probs(policy, params, prompts, tokens, temperature=0.8)


def greedy(policy, params, prompts, **settings):
    key = sampling.step_key(seed=0, purpose=sampling.Purpose.EVALUATION, step=0)
    chosen = {'num_rollouts': N, 'max_response_tokens': T, 'stop_tokens': ()}
    return sampling.sample(
        policy,
        params,
        prompts,
        key=key,
        options=sampling_options(temperature=0.0),
        **(chosen | settings),
    )


def test_prompts_of_unequal_lengths_have_their_logits(pair, prompts):
    assert hf_oracle.logits_error(*pair, prompts) < TOLERANCE


def test_responses_have_their_log_probs_and_entropies(pair, prompts, responses):
    model, policy, params = pair
    ours, entropies, _ = token_log_probs(policy, params, prompts, responses)
    inputs = hf_oracle.left_padded(prompts)
    S = inputs['input_ids'].shape[1]
    for n in range(N):
        response = torch.tensor(np.asarray(responses[:, n]), dtype=torch.int64)
        ids = torch.cat([inputs['input_ids'], response], dim=1)
        mask = torch.cat([inputs['attention_mask'], torch.ones_like(response)], dim=1)
        logits = hf_oracle.their_logits(
            model, {'input_ids': ids, 'attention_mask': mask}
        )
        dist = torch.tensor(logits[:, S - 1 : -1] / 0.8).log_softmax(-1)
        expected = dist.gather(-1, response[..., None])[..., 0]
        np.testing.assert_allclose(ours[:, n], expected, rtol=0, atol=TOLERANCE)
        entropy = -(dist.exp() * dist).sum(-1)
        np.testing.assert_allclose(entropies[:, n], entropy, rtol=0, atol=TOLERANCE)


# Every family, every rope and every kind of windows, but not every pair of them.
SAMPLED = [
    ('llama', 'default'),
    ('llama', 'llama3'),
    ('qwen2', 'linear'),
    ('qwen3', 'yarn'),
    *itertools.product(hf_oracle.WINDOWS, ['windows']),
]


@pytest.mark.parametrize(
    'pair', slow_values(SAMPLED, quick=QUICK[:1]), ids='-'.join, indirect=True
)
def test_greedy_sampling_continues_as_generate_does(pair, prompts):
    model, policy, params = pair
    ours = greedy(policy, params, prompts)
    inputs = hf_oracle.left_padded(prompts)
    expected = model.generate(
        **inputs, do_sample=False, max_new_tokens=T, min_new_tokens=T, pad_token_id=0
    )
    expected = expected[:, inputs['input_ids'].shape[1] :]
    for n in range(N):
        np.testing.assert_array_equal(ours.tokens[:, n], expected)
    # A policy that repeats one token would hide an error of positions.
    assert len(np.unique(expected)) > 4


def test_generate_stops_where_sampling_does(tmp_path, prompts):
    model = hf_oracle.make_model('qwen3')
    model.save_pretrained(tmp_path)
    policy, params = hf_oracle.read(tmp_path)
    stop = int(greedy(policy, params, prompts).tokens[0, 0, 3])
    ours = greedy(policy, params, prompts, stop_tokens=(stop,))
    assert ours.stopped[0, 0]
    assert ours.lengths[0, 0] <= 4
    inputs = hf_oracle.left_padded(prompts)
    expected = model.generate(
        **inputs, do_sample=False, max_new_tokens=T, eos_token_id=stop, pad_token_id=0
    )[:, inputs['input_ids'].shape[1] :]
    for row in range(len(LENGTHS)):
        length = int(ours.lengths[row, 0])
        np.testing.assert_array_equal(
            ours.tokens[row, 0, :length], expected[row, :length]
        )
        assert not expected[row, length:].any()


@pytest.mark.parametrize(
    ('family', 'sizes'),
    slow_rows(
        [
            (family, ((2, 2, 1, 2), (1, 2, 2, 2))[i % 2])
            for i, family in enumerate(FAMILIES)
        ],
        quick=[('llama', (2, 2, 1, 2)), ('qwen3_moe', (1, 2, 2, 2))],
    ),
)
def test_a_mesh_gives_what_one_device_gives(
    family, sizes, tmp_path, prompts, responses
):
    windows = hf_oracle.WINDOWS[family] if family == 'mistral' else {}
    model = hf_oracle.make_model(family, rope='yarn', **windows)
    model.save_pretrained(tmp_path)
    policy, alone = hf_oracle.read(tmp_path)
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    params = weights.load_params(policy, str(tmp_path), mesh)
    expected = token_log_probs(policy, alone, prompts, responses)
    tokens = greedy(policy, alone, prompts).tokens
    with jax.set_mesh(mesh):
        placed = jax.device_put(prompts, sharding.batch_sharding(mesh, prompts))
        have = token_log_probs(policy, params, placed, responses)
        sampled = greedy(policy, params, placed).tokens
    for ours, want in zip(have[:2], expected[:2], strict=True):
        np.testing.assert_allclose(ours, want, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(sampled, tokens)
