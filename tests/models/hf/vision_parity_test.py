"""Models that read pictures have the numbers of transformers (torch, float32)."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
import torch
import transformers

from passk_jax import sampling, sharding
from passk_jax.config import sampling_options
from passk_jax.models import policy as policies
from passk_jax.models.families.table import FAMILIES
from passk_jax.models.frozen import read_pictures
from passk_jax.models.hf import weights
from passk_jax.models.transformer import Transformer
from tests.models.hf import oracle as hf_oracle
from tests.models.hf import pictured
from tests.models.hf.parity_gradient_test import stored, weights_of
from tests.slow import slow_values

TOLERANCE = 1e-5
N, T = 2, 6
P = len(pictured.GRIDS)
PICTURED = slow_values(
    [name for name, family in FAMILIES.items() if family.vision], quick=['qwen3_vl']
)


@pytest.fixture(scope='module', params=PICTURED)
def pair(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp('model')
    # Three layers: with DeepStack two add features, and one follows.
    model = hf_oracle.make_model(request.param, num_hidden_layers=3)
    with torch.no_grad():
        # No greedy response has the token of a picture, which they would look for.
        model.lm_head.weight[hf_oracle.IMAGE_TOKEN] = 0
    model.save_pretrained(directory)
    return model, *hf_oracle.read(directory), directory


@pytest.fixture(scope='module')
def prompts():
    return pictured.make_prompts(seed=1)


@pytest.fixture(scope='module')
def responses():
    tokens = np.random.default_rng(2).integers(0, hf_oracle.IMAGE_TOKEN, (P, N, T))
    return tokens.astype(np.int32)


@functools.partial(jax.jit, static_argnums=0)
def token_log_probs(policy, params, prompts, tokens):
    return policies.token_log_probs(policy, params, prompts, tokens, temperature=1.0)


def greedy(policy, params, prompts):
    key = sampling.step_key(seed=0, purpose=sampling.Purpose.EVALUATION, step=0)
    settings = {'num_rollouts': N, 'max_response_tokens': T, 'stop_tokens': ()}
    options = sampling_options(temperature=0.0)
    return sampling.sample(
        policy, params, prompts, key=key, options=options, **settings
    )


def test_responses_have_their_log_probs(pair, prompts, responses):
    model, policy, params, _ = pair
    ours, entropies, _ = token_log_probs(policy, params, prompts, responses)
    for p in range(P):
        for n in range(N):
            with torch.no_grad():
                dist = pictured.their_log_probs(model, prompts, p, responses[p, n])
            expected = dist.gather(-1, torch.tensor(responses[p, n, :, None]).long())
            np.testing.assert_allclose(
                ours[p, n], expected[:, 0], rtol=0, atol=TOLERANCE
            )
            entropy = -(dist.exp() * dist).sum(-1)
            np.testing.assert_allclose(entropies[p, n], entropy, rtol=0, atol=TOLERANCE)


def test_every_decoded_token_has_their_distribution(pair, prompts):
    model, policy, params, _ = pair
    rollouts = jax.device_get(greedy(policy, params, pictured.on_device(prompts)))
    for p in range(P):
        inputs = pictured.their_inputs(prompts, p)
        length = inputs['input_ids'].shape[1]
        options = transformers.GenerationConfig(
            do_sample=False, max_new_tokens=T, min_new_tokens=T, pad_token_id=0
        )
        generated = model.generate(**inputs, generation_config=options)[0, length:]
        np.testing.assert_array_equal(rollouts.tokens[p, 0], generated)
        with torch.no_grad():
            dist = pictured.their_log_probs(model, prompts, p, generated.numpy())
        want = dist.gather(-1, generated[:, None])[:, 0]
        for ours in rollouts.untruncated_log_probs[p]:
            np.testing.assert_allclose(ours, want, rtol=0, atol=TOLERANCE)


def test_features_of_the_tower_take_the_place_of_pictures(pair, prompts, responses):
    _, policy, params, _ = pair
    want = token_log_probs(policy, params, prompts, responses)[0]
    assert read_pictures(policy, params, prompts) is prompts
    tower = frozenset(name for name in params if name.startswith('vision.'))
    policy = dataclasses.replace(policy, frozen=tower)
    read = read_pictures(policy, params, prompts)
    assert read.images is None
    ours = token_log_probs(policy, params, read, responses)[0]
    np.testing.assert_allclose(ours, want, rtol=0, atol=1e-6)


@pytest.mark.parametrize('family', PICTURED)
@pytest.mark.parametrize('remat', slow_values(['none', 'full'], quick=['full']))
def test_every_gradient_is_that_of_transformers(remat, family, tmp_path):
    model = hf_oracle.make_model(family, num_hidden_layers=3, theta=1e4)
    with torch.no_grad():
        for name, x in model.named_parameters():
            # Gradients of moderate size, to which an absolute error is relative.
            large = 'norm' in name or 'ln_q' in name or 'mlp.gate.weight' in name
            x *= 1.0 if large else 0.5
    model.save_pretrained(tmp_path)
    policy, params = hf_oracle.read(tmp_path, remat=remat)
    prompts = pictured.make_prompts(pictured.GRIDS[:3], seed=3)
    rng = np.random.default_rng(4)
    tokens = rng.integers(0, hf_oracle.IMAGE_TOKEN, (3, N, T)).astype(np.int32)
    weights = weights_of(tokens)

    def loss(params):
        return (token_log_probs(policy, params, prompts, tokens)[0] * weights).sum()

    ours = stored(Transformer.parameters(policy.arch), jax.jit(jax.grad(loss))(params))
    total = 0.0
    for p, n in np.ndindex(3, N):
        response = torch.tensor(tokens[p, n, :, None]).long()
        values = pictured.their_log_probs(model, prompts, p, tokens[p, n])
        total += (values.gather(-1, response)[:, 0] * torch.tensor(weights[p, n])).sum()
    total.backward()
    expected = {name: x.grad.numpy() for name, x in model.named_parameters()}
    assert ours.keys() == expected.keys()
    for name, want in expected.items():
        if '.experts.' in name:
            want = want.swapaxes(1, 2)
        have = ours[name].reshape(want.shape)
        error, largest = np.abs(have - want).max(), np.abs(want).max()
        assert error < min(1e-6, 2e-5 * largest + 1e-9), (name, error, largest)
        has_none = name.endswith(('qkv.bias', 'k_proj.bias'))
        assert largest > 1e-5 or has_none, name


@pytest.mark.slow
@pytest.mark.parametrize('sizes', [(2, 2, 1, 2), (1, 2, 2, 2)])
def test_a_mesh_gives_what_one_device_gives(sizes, pair, prompts, responses):
    _, policy, alone, directory = pair
    mesh = sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))
    params = weights.load_params(policy, str(directory), mesh)
    want = token_log_probs(policy, alone, prompts, responses)
    tokens = greedy(policy, alone, pictured.on_device(prompts)).tokens
    with jax.set_mesh(mesh):
        placed = jax.device_put(prompts, sharding.batch_sharding(mesh, prompts))
        have = token_log_probs(policy, params, placed, responses)
        sampled = greedy(policy, params, placed).tokens
    for ours, expected in zip(have[:2], want[:2], strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(sampled, tokens)
