"""Rates of a step, by figures that a hand has counted."""

import dataclasses
import types

import numpy as np
import pytest

from passk_jax.config import TrainConfig
from passk_jax.models.arch import Arch, Layer
from passk_jax.models.rope import Rope
from passk_jax.planning.utilization import make_rates
from passk_jax.rollouts.dynamic_sampling import Draw, Draws
from passk_jax.rollouts.verify import Responses

# A layer has 16 + 8 + 8 + 16 weights of queries, keys, values and outputs, and 3 * 12
# of the MLP: 84. The head has 20. A pair costs 16 FLOPs a layer.
ARCH = Arch(
    vocab_size=5,
    num_layers=2,
    embed_dim=4,
    num_heads=2,
    num_kv_heads=1,
    head_dim=2,
    mlp_dim=3,
    layers=(Layer(Rope(kind='default', theta=1e4)),),
    norm_eps=1e-6,
    tie_embeddings=True,
    qkv_bias=False,
    qk_norm=False,
    param_dtype='float32',
    dtype='float32',
    remat='full',
    attention='plain',
)
TRAIN = TrainConfig(
    steps=1,
    num_prompts=2,
    mini_batch_prompts=2,
    epochs=1,
    micro_batch_prompts=1,
    micro_batch_rollouts=0,
    packing='prompts',
    pack_sizes=0,
    scoped_vmem_kib=0,
    dynamic_sampling_rounds=0,
    follow_difficulty=0.0,
)
# Two prompts of 3 tokens and 1, with two responses each.
LENGTHS = (np.array([3, 1], np.int32), np.array([[2, 1], [1, 4]], np.int32))
# The prompt of 3: one whole layer of 2 * 3 * 84 with 1 + 2 + 3 pairs, then keys and
# values, 2 * 3 * 16. Its 3 response tokens: 2 * (2 * 84 + 20) each, and in each layer
# 4 + 5 pairs of the first response, 4 of the second.
FIRST = (504 + 16 * 6 + 96) + (3 * 376 + 2 * 16 * (4 + 5 + 4))
# The same of the prompt of 1: 2 pairs of the first response, 14 of the second.
SECOND = (168 + 16 + 32) + (5 * 376 + 2 * 16 * (2 + 14))


def draw(prompts, lengths):
    responses = Responses(prompts, lengths, None, None, None, [], None)
    return Draw([], responses, None, None)


def draws(*extra):
    first = draw(*LENGTHS)
    return Draws(first, first, False, tuple(x.responses for x in (first, *extra)))


def rates(draws, *, kind='NVIDIA H100 80GB HBM3', arch=ARCH, kl_coef=0.0, **train):
    """Of a step that took two seconds on four devices."""
    devices = np.array([types.SimpleNamespace(device_kind=kind)] * 4)
    mesh = types.SimpleNamespace(devices=devices.reshape(2, 2), size=4)
    config = dataclasses.replace(TRAIN, **train)
    return make_rates(arch, mesh, config, types.SimpleNamespace(kl_coef=kl_coef))(
        draws, 2.0
    )


def test_tokens_of_all_draws_are_shared_by_the_chips():
    figures = rates(draws(draw(*LENGTHS)))
    assert figures['tokens_per_second_per_chip'] == 2 * 8 / 2 / 4


@pytest.mark.parametrize(
    ('settings', 'passes'),
    [
        # Decoding, then forward and backward.
        ({}, (1 + 3, 1 + 3)),
        ({'epochs': 2}, (1 + 6 + 1, 1 + 6 + 1)),
        # The second of two mini-batches is scored.
        ({'mini_batch_prompts': 1}, (1 + 3, 1 + 3 + 1)),
        ({'mini_batch_prompts': 1, 'epochs': 2}, (1 + 6 + 1, 1 + 6 + 1)),
        ({'kl_coef': 0.1}, (1 + 3 + 1, 1 + 3 + 1)),
        # Recomputation to save memory does not count.
        ({'micro_batch_rollouts': 1, 'pack_sizes': 2}, (1 + 3, 1 + 3)),
    ],
)
def test_mfu_is_what_a_hand_counts_over_the_peak_of_all_devices(settings, passes):
    flops = passes[0] * FIRST + passes[1] * SECOND
    assert rates(draws(), **settings)['mfu'] == flops / (2 * 4 * 989.4e12)


def test_a_draw_that_is_not_trained_is_decoded_only():
    other = draw(np.array([1, 1]), np.array([[1, 1], [1, 1]]))
    # A prompt of one token, and two responses of one token, of two pairs in each layer.
    decoded = 2 * (168 + 16 + 32 + 2 * 376 + 2 * 16 * 2 * 2)
    figures = [rates(x)['mfu'] * 2 * 4 * 989.4e12 for x in (draws(other), draws())]
    assert figures[0] - figures[1] == pytest.approx(decoded)
    trained = dataclasses.replace(draws(other), trained=other)
    flops = FIRST + SECOND + 4 * decoded
    assert rates(trained)['mfu'] == pytest.approx(flops / (2 * 4 * 989.4e12))


def test_recomputation_does_not_count():
    arch = dataclasses.replace(ARCH, remat='none')
    assert rates(draws(), arch=arch) == rates(draws())


def test_two_devices_of_a_tpu7x_are_a_chip():
    figures = rates(draws(), kind='TPU7x')
    assert figures['tokens_per_second_per_chip'] == 8 / 2 / 2
    assert figures['mfu'] == 4 * (FIRST + SECOND) / (2 * 2 * 2307e12)


@pytest.mark.parametrize('kind', ['cpu', 'NVIDIA H100 PCIe', 'TPU v9'])
def test_without_a_known_peak_there_is_no_mfu(kind):
    assert rates(draws(), kind=kind) == {'tokens_per_second_per_chip': 8 / 2 / 4}
