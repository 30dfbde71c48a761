"""Decisions are made when decoding has paid for them."""

import math

import jax
import pytest

from passk_jax import sharding
from passk_jax.sampling.scheduled import cost
from passk_jax.sampling.scheduled.cost import Account, Pace
from tests.models.token_costs_test import NETWORKS, decoding_weights, multiplied

# A FLOP a second and a byte a second.
PACE = Pace(stride=1, part=1 / 2, times=2, flops=1.0, bandwidth=1.0, decision=3.0)


def test_a_step_takes_as_long_as_its_products_or_the_weights_it_reads():
    account = Account(PACE, weights=10, weight_bytes=80)
    assert account.step(8) == 160
    assert account.step(2) == 80


def test_a_decision_moves_bytes():
    account = Account(PACE, weights=1, weight_bytes=1)
    assert account.decision() == 3
    assert account.decision(5) == 8


def test_decisions_take_one_part_of_the_time_of_decoding():
    account = Account(PACE, weights=1, weight_bytes=1)
    for _ in range(5):
        steps = account.steps_until_paid(3.0, rows=4)
        assert steps > 0
        account.decoded += steps * account.step(4)
        assert account.steps_until_paid(3.0, rows=4) == 0
        account.spent += 3.0
        assert account.spent <= account.decoded / cost.PART
    assert account.decoded == pytest.approx(cost.PART * account.spent, abs=8)


def test_what_costs_nothing_is_always_paid_for():
    free = Pace(1, 1 / 2, 2, flops=1.0, bandwidth=math.inf, decision=0.0)
    account = Account(free, weights=1, weight_bytes=1)
    assert account.steps_until_paid(account.decision(1e9), rows=1) == 0


@pytest.mark.parametrize('tensor', [1, 2])
@pytest.mark.parametrize(('name', 'arch'), NETWORKS.items(), ids=NETWORKS)
def test_an_account_counts_the_weights_of_one_device(name, arch, tensor):
    """What multiplies a token: the chosen experts, the head, no look-up, no tower."""
    weights = decoding_weights(arch)
    head = arch.vocab_size * arch.embed_dim
    mesh = sharding.make_mesh(data=8 // tensor, fsdp=1, rollout=1, tensor=tensor)
    with jax.set_mesh(mesh):
        account = cost.open_account(arch, weights)
    assert account.weights == (multiplied(arch, weights) + head) // tensor
    read = {key: x for key, x in weights.items() if not key.startswith('vision.')}
    if name != 'tied':
        del read['embed.embedding']
    # Of float32. All experts: some row needs each.
    assert account.weight_bytes == 4 * sum(x.size for x in read.values()) // tensor
