"""The KL estimators against the exact KL and its gradients, by enumeration."""

import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from passk_jax.learning import losses

THETA = jnp.asarray([0.3, -1.0, 0.8, 0.1])
REF = jnp.asarray([-0.2, 0.5, 0.4, 0.0])


@functools.partial(jax.jit, static_argnums=0)
def kl_by_enumeration(estimator: str, theta, ref):
    """The mean estimate over all tokens, and the mean of its gradient."""

    def estimate(theta):
        log_probs = jax.nn.log_softmax(theta)[None, None]
        return losses.kl_penalty(
            log_probs,
            jax.nn.log_softmax(ref)[None, None],
            jnp.ones((1, 1, len(ref)), bool),
            estimator=estimator,
        )[0, 0]

    probs = jax.nn.softmax(theta)
    return probs @ estimate(theta), probs @ jax.jacobian(estimate)(theta)


@jax.jit
def reverse_kl(theta):
    p, q = jax.nn.log_softmax(theta), jax.nn.log_softmax(REF)
    return (jnp.exp(p) * (p - q)).sum()


@jax.jit
def forward_kl(theta):
    p, q = jax.nn.log_softmax(theta), jax.nn.log_softmax(REF)
    return (jnp.exp(q) * (q - p)).sum()


@pytest.mark.parametrize('estimator', ['k1', 'k3'])
def test_k1_and_k3_are_unbiased(estimator):
    mean, _ = kl_by_enumeration(estimator, THETA, REF)
    np.testing.assert_allclose(mean, reverse_kl(THETA), rtol=1e-5)


def test_k2_is_close_to_the_kl_of_near_policies_only():
    near = REF + 0.02 * (THETA - REF)
    mean, _ = kl_by_enumeration('k2', near, REF)
    np.testing.assert_allclose(mean, reverse_kl(near), rtol=0.03)
    mean, _ = kl_by_enumeration('k2', THETA, REF)
    assert abs(mean - reverse_kl(THETA)) > 0.01


def test_expected_gradients_of_the_kl_estimators():
    gradients = {
        name: kl_by_enumeration(name, THETA, REF)[1] for name in losses.KL_ESTIMATORS
    }
    reverse_slope, forward_slope = map(jax.jit, map(jax.grad, (reverse_kl, forward_kl)))
    np.testing.assert_allclose(gradients['k1'], 0, atol=1e-6)
    np.testing.assert_allclose(gradients['k2'], reverse_slope(THETA), atol=1e-6)
    np.testing.assert_allclose(gradients['k3'], forward_slope(THETA), atol=1e-6)


def test_k3_is_not_negative_and_keeps_the_digits_of_a_small_difference():
    d = jnp.asarray([[[-2.0, -1e-3, 0.0, 1e-3, 2.0]]])
    k3 = losses.kl_penalty(
        d, jnp.zeros_like(d), jnp.ones(d.shape, bool), estimator='k3'
    )
    exact = np.expm1(-np.asarray(d, np.float64)) + np.asarray(d, np.float64)
    assert (k3 >= 0).all()
    np.testing.assert_allclose(k3, exact, rtol=1e-3)
