"""A policy small enough for many compilations, with predictions far from uniform."""

import dataclasses

import jax
import numpy as np
import pytest

from passk_jax import config, sharding
from passk_jax.models import policy as policies
from passk_jax.types import Prompts

VOCAB_SIZE = 12

_ARCH = config.ArchConfig(
    num_layers=2,
    embed_dim=32,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    mlp_dim=64,
    rope_theta=1e4,
    norm_eps=1e-6,
    tie_embeddings=False,
)
_MODEL = config.ModelConfig(
    family='qwen2',
    source='',
    tokenizer='characters',
    arch=_ARCH,
    param_dtype='float32',
    compute_dtype='float32',
    remat=False,
    head_chunk_tokens=1 << 20,
)


def _make_policy(compute_dtype: str) -> policies.Policy:
    model = dataclasses.replace(_MODEL, compute_dtype=compute_dtype)
    arch = policies.arch_from_config(model, vocab_size=VOCAB_SIZE)
    return policies.make_policy(model, arch)


@pytest.fixture(scope='session')
def policy() -> policies.Policy:
    return _make_policy('float32')


@pytest.fixture(scope='session')
def bfloat16_policy() -> policies.Policy:
    return _make_policy('bfloat16')


@pytest.fixture(scope='session')
def params(policy) -> policies.Params:
    """Random parameters, on the host; logits have a standard deviation of about 2."""
    mesh = sharding.make_mesh(data=1, fsdp=1, tensor=1, devices=jax.devices()[:1])
    params = policies.init_params(policy, jax.random.key(0), mesh)
    # Embeddings that count beside what attention adds, and a sharper head.
    params['embed.embedding'] *= 20
    params['head.kernel'] *= 2
    return jax.tree.map(np.asarray, params)


@pytest.fixture(scope='session')
def prompts() -> Prompts:
    """Eight prompts of 1 to 9 tokens, padded to 9 with token 0."""
    rng = np.random.default_rng(0)
    lengths = np.array([5, 9, 1, 7, 3, 9, 2, 6], np.int32)
    tokens = rng.integers(0, VOCAB_SIZE, (8, 9), np.int32)
    tokens[np.arange(9) >= lengths[:, None]] = 0
    ids = np.array([40, 7, 0, 123456, 8, 2**31 - 1, 3, 19], np.int32)
    return Prompts(tokens=tokens, lengths=lengths, problem_ids=ids)
