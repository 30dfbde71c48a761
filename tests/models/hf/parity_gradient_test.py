"""Gradients of a mixture of experts are those of transformers (torch, float32)."""

import math

import jax
import numpy as np
import pytest
import torch

from passk_jax.models import policy as policies
from passk_jax.models.parameters import tensors_in_order
from passk_jax.models.transformer import Transformer
from tests.models.hf import oracle as hf_oracle
from tests.slow import slow_values

LENGTHS, N, T = (5, 3), 2, 6


def stored(table, gradients):
    """Gradients in the layout of the tensors, by their names in memory."""
    shapes, tensors = {name: x.shape for name, x in gradients.items()}, {}
    for tensor, names, place in tensors_in_order(table, shapes):
        parts = []
        for name in names:
            row, x = table[name], np.asarray(gradients[name][place])
            sizes = [math.prod(x.shape[d] for d in group) for group in row.dims]
            x = x.transpose([d for group in row.dims for d in group])
            parts.append(x.reshape(sizes))
        tensors[tensor] = np.concatenate(parts, axis=-1) if parts[1:] else parts[0]
    return tensors


def weights_of(tokens):
    return np.cos(np.arange(tokens.size)).reshape(tokens.shape) / tokens.size


def their_gradients(model, prompts, tokens):
    """Of a mean of log-probabilities in which each has its own weight."""
    weights = torch.tensor(weights_of(tokens))
    total = 0.0
    for p, length in enumerate(LENGTHS):
        for n in range(N):
            response = torch.tensor(np.asarray(tokens[p, n]), dtype=torch.int64)
            prompt = torch.tensor(np.asarray(prompts.tokens[p, :length]))
            ids = torch.cat([prompt.to(torch.int64), response])[None]
            logits = model(input_ids=ids).logits[0, length - 1 : -1]
            values = logits.log_softmax(-1).gather(-1, response[:, None])[:, 0]
            total = total + (values * weights[p, n]).sum()
    total.backward()
    return apart({name: x.grad.numpy() for name, x in model.named_parameters()})


def apart(grads):
    """Gradients of their parameters, those of each expert apart, as files have them."""
    for name in [name for name in grads if '.experts.' in name]:
        # In memory all experts of a layer are one tensor, gate before up.
        kernels, before = grads.pop(name), name.rpartition('.')[0]
        parts = {'down': kernels}
        if name.endswith('gate_up_proj'):
            parts = dict(zip(('gate', 'up'), np.split(kernels, 2, axis=1), strict=True))
        for part, of_experts in parts.items():
            for e, x in enumerate(of_experts):
                grads[f'{before}.{e}.{part}_proj.weight'] = x
    return grads


@pytest.mark.parametrize('remat', slow_values(['none', 'full'], quick=['full']))
@pytest.mark.parametrize('normed', slow_values([True, False], quick=[True]))
def test_every_gradient_is_that_of_transformers(normed, remat, tmp_path):
    model = hf_oracle.make_model('qwen3_moe', norm_topk_prob=normed, theta=1e4)
    with torch.no_grad():
        for name, x in model.named_parameters():
            # Gradients of moderate size, to which an absolute error is relative.
            x *= 1.0 if 'norm' in name or 'gate.weight' in name else 0.5
    model.save_pretrained(tmp_path)
    policy, params = hf_oracle.read(tmp_path, remat=remat)
    prompts = hf_oracle.unequal_prompts(40, lengths=LENGTHS, seed=3)
    rng = np.random.default_rng(4)
    tokens = rng.integers(0, 40, (len(LENGTHS), N, T)).astype(np.int32)
    weights = weights_of(tokens)

    def loss(params):
        values, *_ = policies.token_log_probs(
            policy, params, prompts, tokens, temperature=1.0
        )
        return (values * weights).sum()

    ours = stored(Transformer.parameters(policy.arch), jax.jit(jax.grad(loss))(params))
    expected = their_gradients(model, prompts, tokens)
    assert ours.keys() == expected.keys()
    for name, want in expected.items():
        error, largest = np.abs(ours[name] - want).max(), np.abs(want).max()
        assert error < min(1e-6, 2e-5 * largest), (name, error, largest)
    router = 'model.layers.0.mlp.gate.weight'
    assert np.abs(expected[router]).max() > 1e-3
