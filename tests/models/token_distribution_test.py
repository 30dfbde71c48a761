import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.models.token_distribution import log_probs_and_entropies

RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(2, 5, 7)).astype(np.float32)
TOKENS = RNG.integers(0, 7, (2, 5), np.int32)


def plainly(logits, tokens):
    log_probs = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]
    return chosen, -(jnp.exp(log_probs) * log_probs).sum(-1)


def test_values_are_those_of_a_softmax():
    have, want = (
        jax.jit(fn)(LOGITS, TOKENS) for fn in (log_probs_and_entropies, plainly)
    )
    np.testing.assert_allclose(have, want, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize(('of_log_prob', 'of_entropy'), [(1, 0), (0, 1), (1, -0.3)])
def test_the_written_gradient_is_that_of_autodiff(of_log_prob, of_entropy):
    def gradient(fn):
        def loss(logits):
            log_probs, entropies = fn(logits, TOKENS)
            weights = jnp.cos(jnp.arange(log_probs.size)).reshape(log_probs.shape)
            return (weights * (of_log_prob * log_probs + of_entropy * entropies)).sum()

        return jax.jit(jax.grad(loss))(LOGITS)

    have, want = gradient(log_probs_and_entropies), gradient(plainly)
    np.testing.assert_allclose(have, want, atol=1e-6)


def test_extreme_logits_stay_finite():
    logits = jnp.array([[1e4, -1e4, 0.0]])
    fn = jax.grad(
        lambda x: sum(y.sum() for y in log_probs_and_entropies(x, TOKENS[:1, 0] % 3))
    )
    assert np.isfinite(jax.jit(fn)(logits)).all()
    np.testing.assert_allclose(log_probs_and_entropies(logits, jnp.array([0])), 0.0)


def test_neither_pass_gathers_or_scatters():
    def loss(logits):
        return sum(y.sum() for y in log_probs_and_entropies(logits, TOKENS))

    text = str(jax.make_jaxpr(jax.grad(loss))(LOGITS))
    assert 'exp' in text
    assert 'gather' not in text
    assert 'scatter' not in text


def test_axes_of_size_1_do_not_reach_the_sums():
    """XLA:CPU takes twenty times as long under them."""

    def pair(logits):
        return log_probs_and_entropies(logits[None, :, None], TOKENS[None, :, None])

    program = jax.make_jaxpr(pair)(LOGITS)
    assert [x.aval.shape for x in program.jaxpr.outvars] == [(1, 2, 1, 5)] * 2
    (inner,) = [x for x in program.jaxpr.eqns if 'custom_vjp' in x.primitive.name]
    assert inner.invars[0].aval.shape == LOGITS.shape
    want = log_probs_and_entropies(LOGITS, TOKENS)
    np.testing.assert_array_equal([x[0, :, 0] for x in pair(LOGITS)], want)
