"""What a curve optimizes: its weight on a problem's success probability.

On policy, with rewards of 0 and 1 and at any N, a curve ``(positive, negative)`` obeys

    E[ (1/N) sum_i A_i grad log pi(y_i) ] = omega(p) grad p
    omega(p) = E[ positive(c' + 1) - negative(c') ],    c' ~ Bin(N - 1, p)

exactly; c' counts the correct ones among the other responses. So the curve climbs the
objective F with derivative omega. Only the gap between the two advantages matters; its
split affects variance and clipping. See "An advantage is a curve": arXiv:2510.23049,
arXiv:2605.24331, arXiv:2607.01490.

omega is a polynomial in Bernstein form whose coefficients are the gaps. Its integral
has degree N, because the integral of a binomial weight is a Beta distribution function,
``(1/N) P(Bin(N, p) > c')``. De Casteljau's recurrence evaluates both. It only averages,
so no digits cancel, and 0 and 1 are exact.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from passk_jax.errors import InputError

Numbers = Float[Array | np.ndarray, '*P']


def weight_of_curve(
    positive: np.ndarray, negative: np.ndarray, p: Numbers | float
) -> Numbers:
    """Computes omega(p) of a curve.

    Args:
        positive, negative: ``[N + 1]`` over the number of correct responses. The
            impossible ``positive[0]`` and ``negative[N]`` are not read.
        p: success probabilities, a number or an array.

    Returns:
        omega, in the shape of ``p``: float64 in NumPy; for a traced ``p``, its dtype or
        float32.

    Raises:
        ValueError: a probability that is not traced is outside ``[0, 1]``.

    >>> float(weight_of_curve(np.array([0, 0.5, 0]), np.array([0, -0.5, 0]), 0.25))
    0.5
    """
    return _bernstein(_gaps(positive, negative), p)


def objective_of_curve(
    positive: np.ndarray, negative: np.ndarray, p: Numbers | float
) -> Numbers:
    """Computes F(p), the integral of :func:`weight_of_curve` from 0 to p.

    Arguments, result and errors are those of :func:`weight_of_curve`.
    """
    gaps = _gaps(positive, negative)
    return _bernstein(np.append(0.0, np.cumsum(gaps)) / len(gaps), p)


def as_float64(p: Any) -> np.ndarray:
    """Converts to float64; anything but numbers becomes NaN, which is in no range."""
    try:
        # NumPy would parse a number in a text.
        is_text = np.asarray(p).dtype.kind in 'US'
        return np.array(np.nan) if is_text else np.asarray(p, np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)


def _gaps(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Computes the gain of being correct, ``[N]`` for c' = 0, ..., N - 1."""
    return np.asarray(positive, np.float64)[1:] - np.asarray(negative, np.float64)[:-1]


def _bernstein(coefficients: np.ndarray, p: Numbers | float) -> Numbers:
    """Averages ``coefficients[c]`` over c ~ Bin(len(coefficients) - 1, p)."""
    if isinstance(p, jax.core.Tracer):
        dtype = jnp.result_type(p.dtype, jnp.float32)
        return _de_casteljau(jnp.asarray(coefficients, dtype), p)
    probabilities = as_float64(p)
    if not np.all((probabilities >= 0) & (probabilities <= 1)):
        raise InputError(f'{p=} must be an array of probabilities, in [0, 1]')
    with jax.enable_x64(True):
        return np.asarray(_de_casteljau(coefficients, probabilities))[()]


@jax.jit
def _de_casteljau(
    coefficients: Float[Array, 'C'], p: Float[Array, '*P']
) -> Float[Array, '*P']:
    chance = p[..., None]
    values = jnp.broadcast_to(coefficients, (*p.shape, len(coefficients)))

    # Values that the roll moves to the end never reach the first place.
    def step(_: int, values: Float[Array, '*P C']) -> Float[Array, '*P C']:
        return (1 - chance) * values + chance * jnp.roll(values, -1, axis=-1)

    return jax.lax.fori_loop(0, len(coefficients) - 1, step, values)[..., 0]
