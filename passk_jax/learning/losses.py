"""The policy-gradient loss: the parts of DAPO that the paper uses.

    loss = aggregate(policy_loss) + kl_coef * aggregate(kl_penalty)
                                  - entropy_coef * aggregate(entropies)

Each term has a value per token, ``[P, N, T]``. :func:`aggregate` sums them and divides
by a :func:`normalizer`, counted once over the whole mini-batch. So the losses of
micro-batches add up to that of their mini-batch, and neither padding nor the mesh
changes it. Positions outside the mask are replaced before any arithmetic: not even a
NaN reaches a value or a gradient. Everything is float32.

Functions share these arguments: ``log_probs`` of the response tokens under the policy
being trained, ``old_log_probs`` under the policy before the step's first update (a
constant), and ``mask``, which marks the trained tokens.

Of DAPO, this has clip-higher and the token-level mean, like the paper (section
``sec:formulation_pass1``), and no overlong penalty. Two parts are off by default and
elsewhere: dynamic sampling (dynamic_sampling.py) and overlong filtering
(batch_loss.py).
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.config import KL_ESTIMATORS, LossConfig
from passk_jax.errors import InputError
from passk_jax.masked import masked_max

Metrics = dict[str, jax.Array]
Tokens = Float[Array, 'P N T']
Mask = Bool[Array, 'P N T']

# Sums over tokens, which finish_metrics divides by the number of trained tokens.
_TOKEN_SUMS = (
    'entropy',
    'old_kl',
    *(f'ref_kl_{estimator}' for estimator in KL_ESTIMATORS),
    'sampler_weight',
    'sampler_weight_capped',
)
LAYERS = 'layers_'
"""The prefix of the statistics of layers, which are sums over tokens."""
# Sums without the first update of a step, whose ratios are all 1.
_CLIP_FRACTIONS = ('clip_fraction_low', 'clip_fraction_high')
# A sum of exponentials of larger numbers, one for each token, may overflow float32.
_LARGEST_EXPONENT = 60.0


class PolicyLoss(NamedTuple):
    """The clipped surrogate of each token, and its parts.

    Attributes:
        values: the loss, exactly 0 outside the mask and where the advantage is 0.
        log_ratio: log of the policy's ratio to the old policy, 0 outside the mask.
        low, high: where the lower and the upper clip bind; False outside the mask.
    """

    values: Tokens
    log_ratio: Tokens
    low: Mask
    high: Mask


def policy_loss(
    log_probs: Tokens,
    old_log_probs: Tokens,
    advantages: Float[Array, 'P N'],
    mask: Mask,
    *,
    clip_low: float,
    clip_high: float,
) -> PolicyLoss:
    """Computes the negated clipped surrogate of each token, with clip-higher.

    ``-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)`` with ``r = exp(log_probs -
    old_log_probs)``: the objective after ``eq:grpo_adv`` with DAPO's two epsilons
    (arXiv:2503.14476). Where A > 0, ``r`` is capped at ``1 + clip_high``. Where A < 0,
    its floor is ``1 - clip_low``. The code clips ``r`` this way because ``min`` would
    send ``0 * inf`` into the gradient of a capped ``exp``.

    Args:
        advantages: of each response, the same at all of its tokens; a constant.
        clip_low, clip_high: epsilon_low and epsilon_high.
    """
    log_ratio = _log_ratio(log_probs, old_log_probs, mask)
    advantages = jax.lax.stop_gradient(advantages.astype(jnp.float32))[..., None]
    low = (advantages < 0) & (log_ratio < jnp.log1p(-clip_low))
    high = (advantages > 0) & (log_ratio > jnp.log1p(clip_high))
    inside = mask & (advantages != 0) & ~low & ~high
    ratio = jnp.exp(jnp.where(inside, log_ratio, 0.0))
    ratio = jnp.where(low, 1 - clip_low, jnp.where(high, 1 + clip_high, ratio))
    values = jnp.where(mask, -ratio * advantages, 0.0)
    return PolicyLoss(values, log_ratio, low, high)


def sampler_weights(
    old_log_probs: Tokens, sampler_log_probs: Tokens, mask: Mask, *, cap: float
) -> tuple[Tokens, Mask]:
    """Computes truncated importance weights for tokens that another program drew.

    ``min(exp(old_log_probs - sampler_log_probs), cap)``, a constant factor of each
    token's loss. The sampler rounds differently from the learner, so its draws are not
    exactly from the old policy (F. Yao et al., "Your Efficient RL Framework Secretly
    Brings You Off-Policy RL Training", 2025; verl's token-level ``rollout_is``). Under
    top-k or top-p the weight also has the retained probability mass as a factor.

    Args:
        sampler_log_probs: under the distribution that the tokens were drawn from.
        cap: the largest weight, at least 1.

    Returns:
        The weights, 1 outside the mask, and a mask of the capped ones.
    """
    old = jax.lax.stop_gradient(old_log_probs)
    log_weights = _log_ratio(old, sampler_log_probs, mask)
    capped = log_weights > jnp.log(cap)
    # The exponential of a capped weight might overflow, so it is never computed.
    weights = jnp.exp(jnp.where(capped, 0.0, log_weights))
    return jnp.where(capped, cap, weights), capped


def kl_penalty(
    log_probs: Tokens, ref_log_probs: Tokens, mask: Mask, *, estimator: str
) -> Tokens:
    """Estimates ``KL(policy || reference)`` at each sampled token.

    With ``d = log_probs - ref_log_probs`` (J. Schulman, "Approximating KL divergence",
    2020): ``k1 = d``, ``k2 = d^2 / 2``, ``k3 = exp(-d) - 1 + d``. The values of k1 and
    k3 are unbiased; k3 is never negative, and GRPO uses it. In a loss only the gradient
    matters. Its expectation over draws from the policy is zero for k1 (which only adds
    noise), the gradient of ``KL(policy || reference)`` for k2, and that of
    ``KL(reference || policy)`` for k3.

    Args:
        ref_log_probs: log-probabilities of the same tokens under the reference; a
            constant.
        estimator: one of :data:`KL_ESTIMATORS`.

    Returns:
        The estimate at each token, 0 outside the mask.
    """
    d = _log_ratio(log_probs, ref_log_probs, mask)
    if estimator == 'k1':
        return d
    if estimator == 'k2':
        return 0.5 * jnp.square(d)
    # exp(-d) - 1 would lose the digits of a small d.
    return jnp.expm1(-d) + d  # k3


def measure_k3(d: Tokens) -> Tokens:
    """Computes k3 of :func:`kl_penalty` for a metric; very large values are capped."""
    return jnp.expm1(jnp.minimum(-d, _LARGEST_EXPONENT)) + d


def normalizer(mask: Mask, *, aggregation: str) -> Float[Array, '']:
    """Returns the divisor of :func:`aggregate`, at least 1.

    Args:
        mask: the mask of the whole mini-batch.
        aggregation: ``'token'`` counts the tokens, ``'sequence'`` the responses with
            any.
    """
    counted = mask if aggregation == 'token' else mask.any(axis=-1)
    return jnp.maximum(counted.sum(), 1).astype(jnp.float32)


def aggregate(
    values: Tokens, mask: Mask, *, aggregation: str, normalizer: Float[Array, '']
) -> Float[Array, 'P']:
    """Computes each prompt's share of the mini-batch mean; the shares sum to the mean.

    ``'token'``: ``sum_t values / tokens`` (DAPO, where long responses weigh more);
    ``'sequence'``: ``sum_i mean_t values / responses`` (GRPO, the objective after
    ``eq:grpo_adv``).

    Args:
        values: one per token; those outside the mask are ignored.
        aggregation: ``'token'`` or ``'sequence'``.
        normalizer: :func:`normalizer` of the whole mini-batch, of which ``values`` may
            be a part.
    """
    sums = jnp.where(mask, values, 0.0).sum(axis=-1)
    if aggregation == 'sequence':
        sums = sums / jnp.maximum(mask.sum(axis=-1), 1)
    return sums.sum(axis=-1) / normalizer


def total_loss(
    log_probs: Tokens,
    entropies: Tokens,
    old_log_probs: Tokens,
    ref_log_probs: Tokens | None,
    sampler_log_probs: Tokens,
    advantages: Float[Array, 'P N'],
    mask: Mask,
    *,
    normalizer: Float[Array, ''],
    config: LossConfig,
) -> tuple[Float[Array, ''], Metrics]:
    """Computes a micro-batch's share of its mini-batch's loss, and its metrics.

    ``ref_log_probs`` may be ``None`` if ``config.kl_coef`` is 0. The metrics, for
    :func:`join_metrics`, are the shares ``loss`` and ``policy_loss``,
    ``problem_loss [P]``, sums over tokens, and the largest ratio, ``ratio_max``.
    """
    share = functools.partial(
        aggregate, mask=mask, aggregation=config.aggregation, normalizer=normalizer
    )
    clips = {'clip_low': config.clip_low, 'clip_high': config.clip_high}
    surrogate = policy_loss(log_probs, old_log_probs, advantages, mask, **clips)
    entropies = entropies.astype(jnp.float32)
    log_ratio = surrogate.log_ratio
    largest = jnp.minimum(masked_max(log_ratio, mask), _LARGEST_EXPONENT)
    metrics = {
        # The old policy drew the tokens.
        'old_kl': measure_k3(-log_ratio).sum(),
        'clip_fraction_low': surrogate.low.sum().astype(jnp.float32),
        'clip_fraction_high': surrogate.high.sum().astype(jnp.float32),
        'ratio_max': jnp.exp(largest),
        'entropy': jnp.where(mask, entropies, 0.0).sum(),
    }
    values = surrogate.values
    if cap := config.sampler_weight_cap:
        weights, capped = sampler_weights(
            old_log_probs, sampler_log_probs, mask, cap=cap
        )
        values = weights * values
        metrics['sampler_weight'] = jnp.where(mask, weights, 0.0).sum()
        metrics['sampler_weight_capped'] = capped.sum().astype(jnp.float32)
    problem_loss = share(values)
    metrics['policy_loss'] = problem_loss.sum()
    if config.kl_coef:
        if ref_log_probs is None:
            raise InputError(f'{config.kl_coef=} needs ref_log_probs, which are None')
        kl = kl_penalty(log_probs, ref_log_probs, mask, estimator=config.kl_estimator)
        problem_loss = problem_loss + config.kl_coef * share(kl)
        metrics[f'ref_kl_{config.kl_estimator}'] = kl.sum()
    if config.entropy_coef:
        problem_loss = problem_loss - config.entropy_coef * share(entropies)
    metrics |= {'loss': problem_loss.sum(), 'problem_loss': problem_loss}
    return metrics['loss'], metrics


def join_metrics(metrics: Mapping[str, Float[Array, 'parts']]) -> Metrics:
    """Reduces metrics of micro-batches, except ``problem_loss``, to an update's."""
    return {
        name: x.max(axis=0) if name == 'ratio_max' else x.sum(axis=0)
        for name, x in metrics.items()
    }


def finish_metrics(
    metrics: Mapping[str, Float[Array, 'updates']], tokens: Int[Array, 'updates']
) -> Metrics:
    """Reduces the metrics of a step's updates to metrics of the step.

    Args:
        metrics: from :func:`join_metrics`, and any other metrics of the updates.
        tokens: trained tokens in each update's mini-batch.

    Returns:
        Scalars. Sums over tokens become means over the trained tokens of the step, or 0
        if there are none; ``ratio_max`` stays the largest; others become means over the
        updates. Clip fractions skip the first update, which clips nothing. The fraction
        of update u alone, counted from 1, is ``<name>_update_<u>``.
    """
    finished = {}
    # In int32, the tokens of a step may overflow.
    tokens = tokens.astype(jnp.float32)
    for name, x in metrics.items():
        if name in _CLIP_FRACTIONS:
            finished[name] = x[1:].sum() / jnp.maximum(tokens[1:].sum(), 1)
            for u in range(1, len(x)):
                share = x[u] / jnp.maximum(tokens[u], 1)
                finished[f'{name}_update_{u + 1}'] = share
        elif name in _TOKEN_SUMS or name.startswith(LAYERS):
            finished[name] = x.sum() / jnp.maximum(tokens.sum(), 1)
        else:
            finished[name] = x.max() if name == 'ratio_max' else x.mean()
    return finished


def _log_ratio(log_probs: Tokens, other_log_probs: Tokens, mask: Mask) -> Tokens:
    """Subtracts the constant ``other_log_probs``; 0 outside the mask."""
    other = jax.lax.stop_gradient(other_log_probs.astype(jnp.float32))
    return jnp.where(mask, log_probs.astype(jnp.float32) - other, 0.0)
