"""Forces the lengths of responses, whatever the policy, for tests and benchmarks.

A rollout's length is drawn from its random key, so that it is the same under every
schedule. A response stops at this length and nowhere else.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from unittest import mock

import jax
from jax import numpy as jnp

from passk_jax.sampling import distribution, keys, plain_loop

STOP, OTHER = 0, 1


def log_normal(uniform: jax.Array) -> jax.Array:
    """Returns log-normal lengths: mean 57 and median 39, cut by a limit of 256."""
    normal = jax.scipy.special.ndtri(jnp.clip(uniform, 1e-6, 1 - 1e-6))
    return jnp.round(39 * jnp.exp(0.9 * normal))


def geometric(uniform: jax.Array) -> jax.Array:
    """Returns geometric lengths, of which 5 % are longer than 256."""
    rate = -jnp.log(0.05) / 256
    return jnp.ceil(-jnp.log(1 - uniform) / rate)


def from_20_to_48(uniform: jax.Array) -> jax.Array:
    """Returns uniform lengths of 20 to 48 tokens."""
    return jnp.floor(20 + 29 * uniform)


def never(uniform: jax.Array) -> jax.Array:
    """Returns infinite lengths, so that all responses reach the limit."""
    return jnp.full_like(uniform, jnp.inf)


@contextlib.contextmanager
def forced(*quantiles: Callable[[jax.Array], jax.Array]) -> Iterator[None]:
    """Ends responses by ``STOP`` at lengths with these quantile functions.

    Programs that compile inside stay compiled, so use a policy that nothing else uses.
    The same programs serve several functions: a temperature of 1 chooses the first, 2
    the second.
    """
    uniforms_of = keys.position_uniforms

    def uniforms(row_keys: jax.Array, positions: jax.Array) -> jax.Array:
        of_row = jax.vmap(jax.vmap(lambda key: jax.random.uniform(key)))(row_keys)
        ends = [positions + 1 >= quantile(of_row) for quantile in quantiles]
        token_uniforms = uniforms_of(row_keys, positions)
        return jnp.stack([*jnp.moveaxis(token_uniforms, -1, 0), *ends], axis=-1)

    def choose(logits, uniforms, settings, **static):
        choice = distribution.choose(logits, uniforms[..., :2], settings, **static)
        unstopped = jnp.where(choice.tokens == STOP, OTHER, choice.tokens)
        number = settings.temperature.astype(jnp.int32) - 1
        ends = jnp.take(uniforms[..., 2:], number, axis=-1, mode='clip')
        tokens = jnp.where(ends > 0, STOP, unstopped)
        return dataclasses.replace(choice, tokens=tokens)

    with (
        mock.patch.object(keys, 'position_uniforms', uniforms),
        mock.patch.object(plain_loop, 'choose', choose),
    ):
        yield
