"""Parity with transformers, field by field of its config."""

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax import sharding
from passk_jax.config import ModelConfig
from passk_jax.models import hf_weights
from passk_jax.models import policy as policies
from tests.models import oracle

SIZES = {
    'tied': {'tie_word_embeddings': True},
    'untied': {'tie_word_embeddings': False},
    'one key head': {'num_key_value_heads': 1},
    'as many key heads': {'num_key_value_heads': 4, 'num_hidden_layers': 1},
    'far rope': {'rope_parameters': {'rope_type': 'default', 'rope_theta': 1e6}},
    'own head dim': {'head_dim': 16, 'intermediate_size': 40},
    'large eps': {'rms_norm_eps': 1e-2, 'hidden_size': 24, 'vocab_size': 53},
}


@pytest.fixture(params=SIZES)
def reference(request, tmp_path):
    """A random float32 model of transformers, and the directory it saved."""
    torch = pytest.importorskip('torch')
    transformers = pytest.importorskip('transformers')
    sizes = {
        'vocab_size': 48,
        'hidden_size': 32,
        'intermediate_size': 56,
        'num_hidden_layers': 2,
        'num_attention_heads': 4,
        'num_key_value_heads': 2,
        **SIZES[request.param],
    }
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes)).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            # Its own biases start at zero and its norms at one: they would be untested.
            x.normal_(std=0.2).add_(1.0 if name.endswith('norm.weight') else 0.0)
    model.save_pretrained(tmp_path)
    return torch, model, str(tmp_path)


def test_logits_and_log_probs_equal_transformers(reference):
    torch, model, source = reference
    arch = hf_weights.arch_from_hf(
        source, param_dtype='float32', compute_dtype='float32', remat=False
    )
    config = ModelConfig(
        family='qwen2',
        source=source,
        tokenizer='source',
        arch=None,
        param_dtype='float32',
        compute_dtype='float32',
        remat=False,
        head_chunk_tokens=16,
    )
    policy = policies.make_policy(config, arch)
    mesh = sharding.make_mesh(data=1, fsdp=1, tensor=1, devices=jax.devices()[:1])
    params = hf_weights.load_params(policy, source, mesh)
    prompts, tokens, _ = oracle.random_batch(vocab_size=arch.vocab_size, S=7)
    P, N, _ = tokens.shape

    def theirs(rows, mask=None):
        with torch.no_grad():
            rows = torch.tensor(np.array(rows), dtype=torch.long)
            return model(rows, attention_mask=mask).logits.numpy()

    @jax.jit
    def ours(params, rows):
        at = jnp.broadcast_to(jnp.arange(rows.shape[1]), rows[:, None].shape)
        network = policy.bind(params)
        return network.logits(network(rows[:, None], at)[0])[:, 0]

    have = ours(params, prompts.tokens)
    mask = np.arange(prompts.tokens.shape[1]) < np.asarray(prompts.lengths)[:, None]
    want = theirs(prompts.tokens, torch.tensor(mask.astype(int)))
    np.testing.assert_allclose(have[mask], want[mask], atol=1e-5, rtol=0)

    run = jax.jit(policies.token_log_probs, static_argnums=0)
    log_probs, _ = run(policy, params, prompts, tokens, temperature=1.0)
    for p in range(P):
        length = int(prompts.lengths[p])
        prompt = np.broadcast_to(prompts.tokens[p, :length], (N, length))
        whole = np.concatenate([prompt, tokens[p]], axis=1)
        logits = theirs(whole)[:, length - 1 : -1]
        want = torch.log_softmax(torch.tensor(logits), dim=-1).numpy()
        want = np.take_along_axis(want, np.asarray(tokens[p])[..., None], axis=-1)
        np.testing.assert_allclose(log_probs[p], want[..., 0], atol=1e-5, rtol=0)


def test_entropies_of_a_uniform_policy_are_the_log_of_its_vocabulary():
    policy = oracle.tiny_policy(tie=False)
    params = oracle.random_params(policy)
    params['head.kernel'] = jnp.zeros_like(params['head.kernel'])
    prompts, tokens, _ = oracle.random_batch(vocab_size=16)
    log_probs, entropies = policies.token_log_probs(
        policy, params, prompts, tokens, temperature=1.0
    )
    np.testing.assert_allclose(entropies, np.log(16), rtol=1e-6)
    np.testing.assert_allclose(log_probs, -np.log(16), rtol=1e-6)
