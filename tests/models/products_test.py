"""Products of float32 factors are exact on platforms that round them by default."""

import re

import jax
import pytest
from jax import numpy as jnp

from passk_jax.models import products
from tests.models import oracle

PRECISION = re.compile(r'precision = \[([A-Z]+), ([A-Z]+)\]')
TYPES = re.compile(r': \(tensor<(?:\d+x)*(\w+)>, tensor<(?:\d+x)*(\w+)>\)')


def precisions(text: str) -> list[tuple[str, str]]:
    """Returns the factors' dtype and the precision of each product of a program."""
    factors = []
    for line in text.splitlines():
        if 'dot_general' in line:
            x, y = TYPES.search(line).groups()
            precision = PRECISION.search(line)
            factors.append((f'{x} {y}', precision[1] if precision else 'DEFAULT'))
    return factors


@pytest.mark.parametrize('remat', ['none', 'full'])
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_a_tpu_rounds_no_float32_factor_of_a_gradient(dtype, remat):
    """The router's scores are float32 in bfloat16 networks too."""
    policy = oracle.tiny_policy(
        feed_forward='moe', num_experts=7, dtype=dtype, remat=remat
    )
    params = oracle.random_params(policy)
    prompts, tokens, lengths = oracle.random_batch(vocab_size=16)

    def loss(params):
        return oracle.loss_of(policy, prompts, tokens, lengths)(params)

    traced = jax.jit(jax.grad(loss)).trace(params)
    products = precisions(traced.lower(lowering_platforms=('tpu',)).as_text())
    assert products
    exact = [precision for factors, precision in products if factors == 'f32 f32']
    # Forward, and the gradients of both factors.
    assert len(exact) >= 3
    assert {*exact} == {'HIGHEST'}
    other_precisions = {
        precision for factors, precision in products if factors != 'f32 f32'
    }
    assert other_precisions == (set() if dtype == 'float32' else {'DEFAULT'})


def test_only_float32_factors_ask_for_more():
    x = jnp.ones((2, 2))
    assert products.choose_precision(x, x) == 'highest'
    assert products.choose_precision(x, x.astype('bfloat16')) is None


def test_a_default_of_the_process_decides():
    policy = oracle.tiny_policy()
    params = oracle.random_params(policy)
    prompts, tokens, lengths = oracle.random_batch(vocab_size=16)
    loss = oracle.loss_of(policy, prompts, tokens, lengths)
    jax.config.update('jax_default_matmul_precision', 'tensorfloat32')
    try:
        traced = jax.jit(jax.grad(loss)).trace(params)
        text = traced.lower(lowering_platforms=('cuda',)).as_text()
    finally:
        jax.config.update('jax_default_matmul_precision', None)
    assert {precision for _, precision in precisions(text)} == {'HIGH'}
