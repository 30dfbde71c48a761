"""Measures the responses of a step: entropy, partings, mass of the advantages.

These are pure functions of arrays that a step already has, and cheap compared with
sampling.
"""

import dataclasses

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.masked import masked_mean


def entropy_by_position(
    entropies: Float[Array, 'P N T'], lengths: Int[Array, 'P N']
) -> tuple[Float[Array, 'T'], Int[Array, 'T']]:
    """Averages the entropy at each position over the responses that reach it.

    The lengths include the stop token.

    Returns:
        The means, 0 where no response reaches, and the number of responses.

    >>> entropies = jnp.array([[[1.0, 9.0], [3.0, 2.0]]])
    >>> means, count = entropy_by_position(entropies, jnp.array([[1, 2]]))
    >>> means.tolist(), count.tolist()
    ([2.0, 2.0], [2, 1])
    """
    mask = jnp.arange(entropies.shape[-1]) < lengths[..., None]
    return masked_mean(entropies, mask, axis=(0, 1)), mask.sum(axis=(0, 1))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Partings:
    """Where pairs of wrong responses to a problem first differ.

    Attributes:
        by_position: ``[T]`` float32, the share of different pairs that differ first at
            a position, averaged over problems. The shares add up to 1, or are all 0 if
            there is no such pair.
        identical: the share of pairs with the same tokens, averaged over problems; 0 if
            there is no pair.
        num_parting: the number of problems with two different wrong responses.
        num_pairs: the number of problems with two wrong responses.
    """

    by_position: jax.Array
    identical: jax.Array
    num_parting: jax.Array
    num_pairs: jax.Array


def wrong_partings(
    tokens: Int[Array, 'P N T'], lengths: Int[Array, 'P N'], wrong: Bool[Array, 'P N']
) -> Partings:
    """Finds the first difference of every pair of wrong responses to a problem.

    Its position is also the length of the common prefix. Every problem weighs the same,
    however many of its responses are wrong. Tokens past a length are ignored.
    """
    P, N, T = tokens.shape
    positions = jnp.arange(T)

    def add_pairs(
        counts: tuple[jax.Array, jax.Array], shift: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        """Adds the pairs of each response with the one ``shift`` rows on."""
        parting, identical = counts
        shifted, ends, both = (
            jnp.roll(x, shift, axis=1) for x in (tokens, lengths, wrong)
        )
        both = both & wrong
        shorter = jnp.minimum(lengths, ends)
        differs = (tokens != shifted) | (positions >= shorter[..., None])
        first = jnp.where(differs.any(axis=-1), differs.argmax(axis=-1), T)
        same = (lengths == ends) & (first == shorter)
        part = (both & ~same)[..., None] & (positions == first[..., None])
        counts = parting + part.sum(axis=1), identical + (both & same).sum(axis=1)
        return counts, None

    # This counts every pair twice, once from each side.
    nothing = jnp.zeros((P, T), jnp.int32), jnp.zeros(P, jnp.int32)
    counts, _ = jax.lax.scan(add_pairs, nothing, jnp.arange(1, N))
    parting, identical = counts
    differing = parting.sum(axis=-1)
    pairs = differing + identical
    shares = parting / jnp.maximum(differing, 1)[:, None]
    return Partings(
        by_position=masked_mean(shares, differing[:, None] > 0, axis=0),
        identical=masked_mean(identical / jnp.maximum(pairs, 1), pairs > 0),
        num_parting=(differing > 0).sum(),
        num_pairs=(pairs > 0).sum(),
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mass:
    """Sums of absolute advantages; entry c has the problems with c right responses.

    Attributes:
        right, wrong: ``[N + 1]`` float32, sums over right and over wrong responses.
        num_problems: ``[N + 1]`` int32.
    """

    right: jax.Array
    wrong: jax.Array
    num_problems: jax.Array


def advantage_mass(
    advantages: Float[Array, 'P N'], correct: Bool[Array, 'P N']
) -> Mass:
    """Sums absolute advantages by the difficulty of the problem.

    The sum is the total weight of the gradients of a problem's log-probabilities. It is
    not the size of the policy gradient, because gradients may cancel; for that see
    :func:`split_by_difficulty`. The paper's eta is this sum for one problem. The
    advantage of a response that the learner ignores must be 0. ``correct`` marks the
    responses that the estimator counted as correct.

    >>> mass = advantage_mass(jnp.array([[3.0, -1.0]]), jnp.array([[True, False]]))
    >>> mass.right.tolist(), mass.wrong.tolist(), mass.num_problems.tolist()
    ([0.0, 3.0, 0.0], [0.0, 1.0, 0.0], [0, 1, 0])
    """
    num_correct = correct.sum(axis=-1)
    bins = num_correct[:, None] == jnp.arange(correct.shape[-1] + 1)
    sizes = jnp.abs(advantages.astype(jnp.float32))

    def binned(chosen: jax.Array) -> jax.Array:
        of_problem = jnp.where(chosen, sizes, 0.0).sum(axis=-1)
        return jnp.where(bins, of_problem[:, None], 0.0).sum(axis=0)

    return Mass(binned(correct), binned(~correct), bins.sum(axis=0))


def split_by_difficulty(
    advantages: Float[Array, 'P N'], correct: Bool[Array, 'P N'], *, bins: int
) -> Float[Array, 'E P N']:
    """Cuts advantages into E = 2 ``bins`` parts that add up to them.

    The first ``bins`` parts are for right responses: part b has the problems whose
    share of right responses is in [b / bins, (b + 1) / bins). The last part also has
    those with right responses only. The parts for wrong responses follow.

    >>> correct = jnp.array([[True, False], [False, False]])
    >>> advantages = jnp.array([[3.0, -1.0], [0.0, -2.0]])
    >>> parts = split_by_difficulty(advantages, correct, bins=2)
    >>> parts.sum(axis=-1).tolist()
    [[0.0, 0.0], [3.0, 0.0], [0.0, -2.0], [-1.0, 0.0]]
    """
    P, N = correct.shape
    of_problem = jnp.minimum(correct.sum(axis=-1) * bins // N, bins - 1)
    in_bin = of_problem[:, None] == jnp.arange(bins)[:, None, None]
    chosen = jnp.stack([correct, ~correct])[:, None] & in_bin
    return jnp.where(chosen, advantages, 0.0).reshape(2 * bins, P, N)
