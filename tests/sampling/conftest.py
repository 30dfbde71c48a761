"""Policies small enough for many compilations, with predictions far from uniform."""

import jax
import numpy as np
import pytest

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.types import Prompts
from tests.models import oracle

VOCAB_SIZE = 12


def _make_params(policy: policies.Policy) -> policies.Params:
    """Random ones, on the host; logits have a standard deviation of about 2."""
    mesh = sharding.make_mesh(
        data=1, fsdp=1, rollout=1, tensor=1, devices=jax.devices()[:1]
    )
    params = policies.init_params(policy, jax.random.key(0), mesh)
    # Embeddings that count beside what attention adds, and a sharper head.
    params['embed.embedding'] *= 20
    params['head.kernel'] *= 2
    return jax.tree.map(np.asarray, params)


@pytest.fixture(scope='session')
def policy() -> policies.Policy:
    """Of one layer, which compiles in half the time."""
    return oracle.tiny_policy(vocab_size=VOCAB_SIZE, num_layers=1)


@pytest.fixture(scope='session')
def params(policy) -> policies.Params:
    return _make_params(policy)


@pytest.fixture(scope='session')
def two_layers() -> tuple[policies.Policy, policies.Params]:
    """For what one layer could hide."""
    policy = oracle.tiny_policy(vocab_size=VOCAB_SIZE)
    return policy, _make_params(policy)


@pytest.fixture(scope='session')
def prompts() -> Prompts:
    """Eight prompts of 1 to 9 tokens, padded to 9 with token 0."""
    rng = np.random.default_rng(0)
    lengths = np.array([5, 9, 1, 7, 3, 9, 2, 6], np.int32)
    tokens = rng.integers(0, VOCAB_SIZE, (8, 9), np.int32)
    tokens[np.arange(9) >= lengths[:, None]] = 0
    ids = np.array([40, 7, 0, 123456, 8, 2**31 - 1, 3, 19], np.int32)
    return Prompts(tokens=tokens, lengths=lengths, problem_ids=ids)
