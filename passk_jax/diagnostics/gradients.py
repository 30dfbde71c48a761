"""Estimates signal and noise of the policy gradient of several advantage estimators.

The gradient G of a step is a sum over chunks of problems, the learner's micro-batches.
The share h_i of a chunk is random, as its problems and their responses are. With M
independent chunks, products of different chunks estimate the square of the mean of G:

    signal_ef = M / (M - 1) sum_{i != j} <h_i of e, h_j of f>     for <E G_e, E G_f>
    noise_e   = |G_e|^2 - signal_ee                               for E |G_e - E G_e|^2

Both are values of the whole step, whatever the size of its chunks. They are unbiased,
with two exceptions: the normalizer counts the tokens of all chunks, and the advantages
of some estimators depend on other problems of the step (``adaptive``, both forms of
``reinforce_plus_plus``, ``curverl`` at its first step). If noise prevails, the variance
of the signal's estimate is proportional to M / (M - 1), so more than eight chunks gain
little.

On policy the loss is linear in the advantages. So one forward pass of a chunk serves
all estimators, but each needs its own backward pass. If the advantages of e are split
into parts, so is its gradient. The share of a part is <E G_part, E G_e> / |E G_e|^2.
The shares add up to 1; a part that pulls against the sum has a negative share.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jaxtyping import Array, Float

from passk_jax.errors import InputError
from passk_jax.learning.batch_loss import Batch, BatchLoss
from passk_jax.learning.packing import interleave
from passk_jax.learning.rollout_parts import split
from passk_jax.models.frozen import Weights
from passk_jax.models.policy import Params
from passk_jax.types import Rollouts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Products:
    """Inner products of gradients under E estimators.

    Attributes:
        total: ``[E, E]`` float32, products of the batch's gradients.
        chunks: ``[E, E]`` float32, products of each chunk's shares, summed over chunks.
    """

    total: jax.Array
    chunks: jax.Array


def gradient_products(
    loss: BatchLoss,
    params: Params,
    rollouts: Rollouts,
    advantages: Float[Array, 'E P N'],
    *,
    num_chunks: int,
    rollout_parts: int = 1,
    frozen: Params | None = None,
) -> Products:
    """Computes the policy gradient of every chunk and estimator; to be jitted.

    It takes a forward pass and E backward passes of all rollouts, and memory for about
    3 E gradients in float32, besides the memory of one chunk's passes.

    Args:
        loss: the learner's loss. Its KL penalty, its entropy bonus and the balance of
            experts do not depend on the advantages and are left out.
        params: the trained parameters of the policy that sampled the rollouts.
        rollouts: P prompts with N responses each.
        advantages: the advantages under each estimator.
        num_chunks: M; divides P as ``train.micro_batch_prompts`` must.
        rollout_parts: parts of a prompt's rollouts, one for each pass.
        frozen: the policy's other parameters; ``None``: none.
    """
    config = dataclasses.replace(loss.config, kl_coef=0.0, entropy_coef=0.0)
    loss = dataclasses.replace(loss, config=config)
    normalizer, weights = loss.normalizer(rollouts), Weights(frozen or {}, params)
    E = len(advantages)
    zeros = jax.tree.map(lambda x: jnp.zeros((E, *x.shape), jnp.float32), params)

    def add_part(total: Params, part: Batch) -> tuple[Params, None]:
        grads = _gradients(loss, weights, part, normalizer)
        return jax.tree.map(jnp.add, total, grads), None

    def add_chunk(
        total: tuple[Params, jax.Array], chunk: Batch
    ) -> tuple[tuple[Params, jax.Array], None]:
        if rollout_parts == 1:
            grads = _gradients(loss, weights, chunk, normalizer)
        else:
            parts = interleave(split(chunk, parts=rollout_parts), rollout_parts)
            grads, _ = jax.lax.scan(add_part, zeros, parts)
        sums, products = total
        return (jax.tree.map(jnp.add, sums, grads), products + _products(grads)), None

    batch = Batch(rollouts, jnp.moveaxis(advantages, 0, 2))
    start = zeros, jnp.zeros((E, E), jnp.float32)
    (sums, products), _ = jax.lax.scan(add_chunk, start, interleave(batch, num_chunks))
    return Products(total=_products(sums), chunks=products)


def _gradients(
    loss: BatchLoss, weights: Weights, part: Batch, normalizer: Float[Array, '']
) -> Params:
    """Computes the gradients ``[E, ...]`` under advantages ``[P, N, E]``."""

    def compute_losses(params: Params) -> Float[Array, 'E']:
        merged = dataclasses.replace(weights, trained=params).merged

        def compute_loss(advantages: jax.Array) -> jax.Array:
            batch = dataclasses.replace(part, advantages=advantages)
            return loss(merged, batch, jnp.bool_(True), normalizer, None)[0]

        # Only the advantages have this axis, so the policy runs once.
        return jax.vmap(compute_loss, in_axes=2)(part.advantages)

    losses, pull_back = jax.vjp(compute_losses, weights.trained)
    # One after another, which needs the memory of only one backward pass.
    grads = jax.lax.map(lambda one: pull_back(one)[0], jnp.eye(len(losses)))
    return jax.tree.map(lambda x: x.astype(jnp.float32), grads)


def _products(gradients: Any) -> Float[Array, 'E E']:
    def contract(x: jax.Array) -> jax.Array:
        axes = tuple(range(1, x.ndim))
        return jnp.tensordot(x, x, (axes, axes), precision=jax.lax.Precision.HIGHEST)

    products = map(contract, jax.tree.leaves(gradients))
    return sum(products, start=jnp.zeros((), jnp.float32))


@dataclasses.dataclass(frozen=True)
class Signal:
    """Signal and noise of the gradients of a step under E estimators.

    Attributes:
        products: ``[E, E]`` float64, estimated inner products of expected gradients,
            with the signals on the diagonal. A weak signal may come out negative.
        noise: ``[E]`` float64, the variance of each gradient, summed over parameters.
        cosines: ``[E, E]`` float64, between expected gradients; NaN where one of the
            two signals is not positive. As ratios of estimates, they may exceed 1.
    """

    products: np.ndarray
    noise: np.ndarray
    cosines: np.ndarray


def signal_and_noise(
    total: Float[Array | np.ndarray, 'E E'],
    chunks: Float[Array | np.ndarray, 'E E'],
    *,
    num_chunks: int,
) -> Signal:
    """Splits the :class:`Products` of M chunks into signal and noise.

    Raises:
        ValueError: fewer than two chunks.

    >>> import numpy as np
    >>> # Shares (3, 1) and (3, -1) of one estimator: G = (6, 0).
    >>> of = signal_and_noise(np.array([[36.0]]), np.array([[20.0]]), num_chunks=2)
    >>> of.products.tolist(), of.noise.tolist()
    ([[32.0]], [4.0])
    """
    if num_chunks < 2:
        raise InputError(f'{num_chunks=} must be at least 2, to tell noise from signal')
    total, chunks = np.asarray(total, np.float64), np.asarray(chunks, np.float64)
    products = (total - chunks) * num_chunks / (num_chunks - 1)
    return Signal(products, np.diag(total - products), cosines(products))


def cosines(products: Float[np.ndarray, '*S E E']) -> Float[np.ndarray, '*S E E']:
    """Computes cosines of vectors from their products; NaN if a square is not positive.

    Products of several steps may be summed first, which weights steps by their signal.
    """
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    lengths = np.sqrt(np.where(squares > 0, squares, np.nan))
    return products / lengths[..., :, None] / lengths[..., None, :]
