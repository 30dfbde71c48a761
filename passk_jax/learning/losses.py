"""The policy-gradient loss: DAPO as the paper keeps it, and what it leaves out.

    loss = aggregate(policy_loss) + kl_coef * aggregate(kl_penalty)
                                  - entropy_coef * aggregate(entropies)

Per-token values ``[P, N, T]`` come first and :func:`aggregate` adds them up. It divides
by a :func:`normalizer` that is counted once, over the whole mini-batch: the losses of
its micro-batches add up to the loss of the whole, and neither padding nor the mesh can
change it. Positions outside the mask are replaced before any arithmetic, so what is
there (nan included) reaches neither a value nor a gradient. Everything is float32.

This module makes no advantage and no log-probability. Of DAPO only clip-higher and the
token-level mean are here, as in the paper (section ``sec:formulation_pass1``): no
overlong penalty, and no dual clip, which DAPO does not have. Its dynamic sampling and
overlong filtering, off by default, are in dynamic_sampling.py and in the mask.
"""

from collections.abc import Mapping

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.config import LossConfig
from passk_jax.errors import InputError

Metrics = dict[str, jax.Array]

AGGREGATIONS = ('token', 'sequence')
KL_ESTIMATORS = ('k1', 'k2', 'k3')

# Metrics that are sums over trained tokens until finish_metrics divides them.
_TOKEN_SUMS = (
    'entropy',
    'old_kl',
    'ref_kl',
    'clip_fraction_low',
    'clip_fraction_high',
    'sampler_weight',
    'sampler_weight_capped',
)


def policy_loss(
    log_probs: Float[Array, 'P N T'],
    old_log_probs: Float[Array, 'P N T'],
    advantages: Float[Array, 'P N'],
    mask: Bool[Array, 'P N T'],
    *,
    clip_low: float,
    clip_high: float,
) -> Float[Array, 'P N T']:
    """The clipped surrogate of each token, negated, with clip-higher.

    ``-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)``, ``r = exp(log_probs -
    old_log_probs)``. The objective after ``eq:grpo_adv`` with DAPO's two epsilons
    (arXiv:2503.14476). Which side binds depends on the sign of A alone: ``r``
    is capped at ``1 + clip_high`` where A > 0 and floored at ``1 - clip_low`` where
    A < 0; it is written so here because ``min`` would send ``0 * inf`` into the
    gradient of a capped ``exp``.

    Args:
        log_probs: of the response tokens under the policy being trained.
        old_log_probs: under the policy before the step's first update; a constant.
        advantages: of each response, the same at all of its tokens; a constant.
        mask: where response tokens are.
        clip_low: epsilon_low.
        clip_high: epsilon_high.

    Returns:
        The loss of each token, exactly 0 outside the mask and where the advantage
        is 0.
    """
    log_ratio = _log_ratio(log_probs, old_log_probs, mask)
    advantages = jax.lax.stop_gradient(advantages.astype(jnp.float32))[..., None]
    low, high = _clipped(log_ratio, advantages, clip_low=clip_low, clip_high=clip_high)
    inside = mask & (advantages != 0) & ~low & ~high
    ratio = jnp.exp(jnp.where(inside, log_ratio, 0.0))
    ratio = jnp.where(low, 1 - clip_low, jnp.where(high, 1 + clip_high, ratio))
    return jnp.where(mask, -ratio * advantages, 0.0)


def sampler_weights(
    old_log_probs: Float[Array, 'P N T'],
    sampler_log_probs: Float[Array, 'P N T'],
    mask: Bool[Array, 'P N T'],
    *,
    cap: float,
) -> tuple[Float[Array, 'P N T'], Bool[Array, 'P N T']]:
    """Truncated importance weights of the tokens that another program drew.

    ``min(exp(old_log_probs - sampler_log_probs), cap)``: the sampler's arithmetic is
    not the learner's, so its draws are not quite from the old policy (F. Yao et al.,
    "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training", 2025;
    verl's token-level ``rollout_is``). A constant factor of each token's loss.

    With top-k or top-p the tokens are drawn from what these keep, divided by its mass:
    the weight has that mass as a factor, and of an exact sampler it is that mass.

    Args:
        old_log_probs: the learner's, before the step's first update.
        sampler_log_probs: of the distribution that the tokens were drawn from.
        mask: where response tokens are.
        cap: largest weight, at least 1.

    Returns:
        The weights, 1 outside the mask, and which of them are capped.
    """
    old = jax.lax.stop_gradient(old_log_probs)
    log_weights = _log_ratio(old, sampler_log_probs, mask)
    capped = log_weights > jnp.log(cap)
    # The weight that is not taken may be infinite, the one that is may not.
    weights = jnp.exp(jnp.where(capped, 0.0, log_weights))
    return jnp.where(capped, cap, weights), capped


def kl_penalty(
    log_probs: Float[Array, 'P N T'],
    ref_log_probs: Float[Array, 'P N T'],
    mask: Bool[Array, 'P N T'],
    *,
    estimator: str,
) -> Float[Array, 'P N T']:
    """Estimates ``KL(policy || reference)`` at each sampled token.

    With ``d = log_probs - ref_log_probs`` (J. Schulman, "Approximating KL divergence",
    2020): ``k1 = d``, ``k2 = d^2 / 2``, ``k3 = exp(-d) - 1 + d``. k1 and k3 are
    unbiased as values; k3 is never negative and is GRPO's. As a term of the loss it is
    the gradient that counts, and on the policy's own draws the expected gradient is
    zero for k1 (it only adds noise), that of ``KL(policy || reference)`` for k2, and
    that of ``KL(reference || policy)`` for k3.

    Args:
        log_probs: of the response tokens under the policy being trained.
        ref_log_probs: under the reference; a constant.
        mask: where response tokens are.
        estimator: one of :data:`KL_ESTIMATORS`.

    Returns:
        The estimate at each token, 0 outside the mask.

    Raises:
        ValueError: an unknown estimator.
    """
    d = _log_ratio(log_probs, ref_log_probs, mask)
    if estimator == 'k1':
        return d
    if estimator == 'k2':
        return 0.5 * jnp.square(d)
    if estimator == 'k3':
        # expm1, because exp(-d) - 1 loses the digits of a small d.
        return jnp.expm1(-d) + d
    raise InputError(f'{estimator=} must be one of {KL_ESTIMATORS}')


def normalizer(mask: Bool[Array, 'P N T'], *, aggregation: str) -> Float[Array, '']:
    """What :func:`aggregate` divides by; call it on the whole mini-batch.

    Args:
        mask: where response tokens are.
        aggregation: ``'token'``: the tokens; ``'sequence'``: the responses that have
            any token.

    Returns:
        The count, at least 1.

    Raises:
        ValueError: an unknown aggregation.
    """
    if aggregation not in AGGREGATIONS:
        raise InputError(f'{aggregation=} must be one of {AGGREGATIONS}')
    counted = mask if aggregation == 'token' else mask.any(axis=-1)
    return jnp.maximum(counted.sum(), 1).astype(jnp.float32)


def aggregate(
    values: Float[Array, 'P N T'],
    mask: Bool[Array, 'P N T'],
    *,
    aggregation: str,
    normalizer: Float[Array, ''],
) -> Float[Array, 'P']:
    """Each prompt's share of the mini-batch mean; the shares add up to the mean.

    ``'token'``: ``sum_t values / tokens`` (DAPO: long responses weigh more);
    ``'sequence'``: ``sum_i mean_t values / responses`` (GRPO, the objective after
    ``eq:grpo_adv``).

    Args:
        values: of each token; anything outside the mask.
        mask: where response tokens are.
        aggregation: one of :data:`AGGREGATIONS`.
        normalizer: :func:`normalizer` of the whole mini-batch, of which ``values`` may
            be a part.

    Raises:
        ValueError: an unknown aggregation.
    """
    sums = jnp.where(mask, values, 0.0).sum(axis=-1)
    if aggregation == 'sequence':
        sums = sums / jnp.maximum(mask.sum(axis=-1), 1)
    elif aggregation != 'token':
        raise InputError(f'{aggregation=} must be one of {AGGREGATIONS}')
    return sums.sum(axis=-1) / normalizer


def total_loss(
    log_probs: Float[Array, 'P N T'],
    entropies: Float[Array, 'P N T'],
    old_log_probs: Float[Array, 'P N T'],
    ref_log_probs: Float[Array, 'P N T'] | None,
    advantages: Float[Array, 'P N'],
    mask: Bool[Array, 'P N T'],
    sampler_log_probs: Float[Array, 'P N T'] | None = None,
    *,
    normalizer: Float[Array, ''],
    config: LossConfig,
) -> tuple[Float[Array, ''], Metrics]:
    """The loss of a micro-batch, as its share of the mini-batch's, and its metrics.

    Args:
        log_probs: of the response tokens under the policy being trained.
        entropies: of its distribution at each token, nats.
        old_log_probs: log-probabilities before the step's first update.
        ref_log_probs: under the reference; ``None`` when ``config.kl_coef == 0``.
        advantages: of each response.
        mask: which response tokens are trained.
        sampler_log_probs: of the distribution that the tokens were drawn from; ``None``
            when ``config.sampler_weight_cap == 0``.
        normalizer: :func:`normalizer` of the whole mini-batch.
        config: the loss's settings.

    Returns:
        The loss, and metrics that :func:`finish_metrics` finishes: ``loss`` and
        ``policy_loss`` as shares, sums over tokens, and ``problem_loss [P]``, each
        prompt's part of the loss.

    Raises:
        ValueError: a KL without a reference, a correction of the sampler without its
            log-probabilities, or an unknown name.
    """
    if config.kl_coef and ref_log_probs is None:
        raise InputError(f'{config.kl_coef=} needs ref_log_probs, which are None')
    if config.sampler_weight_cap and sampler_log_probs is None:
        raise InputError(
            f'{config.sampler_weight_cap=} needs sampler_log_probs, which are None'
        )

    def share(values: Float[Array, 'P N T']) -> Float[Array, 'P']:
        return aggregate(
            values, mask, aggregation=config.aggregation, normalizer=normalizer
        )

    clips = {'clip_low': config.clip_low, 'clip_high': config.clip_high}
    metrics = _diagnostics(
        log_probs, entropies, old_log_probs, advantages, mask, **clips
    )
    values = policy_loss(log_probs, old_log_probs, advantages, mask, **clips)
    if config.sampler_weight_cap:
        weights, capped = sampler_weights(
            old_log_probs, sampler_log_probs, mask, cap=config.sampler_weight_cap
        )
        values = weights * values
        metrics['sampler_weight'] = jnp.where(mask, weights, 0.0).sum()
        metrics['sampler_weight_capped'] = capped.sum().astype(jnp.float32)
    problem_loss = surrogate = share(values)
    if config.kl_coef:
        kl = kl_penalty(log_probs, ref_log_probs, mask, estimator=config.kl_estimator)
        problem_loss = problem_loss + config.kl_coef * share(kl)
        metrics['ref_kl'] = kl.sum()
    if config.entropy_coef:
        bonus = share(entropies.astype(jnp.float32))
        problem_loss = problem_loss - config.entropy_coef * bonus
    loss = problem_loss.sum()
    metrics |= {
        'loss': loss,
        'policy_loss': surrogate.sum(),
        'problem_loss': problem_loss,
    }
    return loss, jax.lax.stop_gradient(metrics)


def finish_metrics(
    metrics: Mapping[str, Float[Array, 'updates']], tokens: Int[Array, 'updates']
) -> Metrics:
    """Turns the figures of a step's updates into figures of the step.

    Args:
        metrics: those of :func:`total_loss` without ``problem_loss``, added up over the
            micro-batches of an update; and any others that are figures of an update.
        tokens: trained tokens of each update: the mask of its mini-batch, added up.

    Returns:
        Scalars. Sums over tokens become means over all trained tokens of the step,
        whichever update they are in; 0 if there are none. Others become means over
        updates.
    """
    count = jnp.maximum(tokens.sum(), 1)
    return {
        name: x.sum() / count if name in _TOKEN_SUMS else x.mean()
        for name, x in metrics.items()
    }


def _log_ratio(
    log_probs: Float[Array, 'P N T'],
    other_log_probs: Float[Array, 'P N T'],
    mask: Bool[Array, 'P N T'],
) -> Float[Array, 'P N T']:
    """``log_probs`` less the constant ``other_log_probs``; 0 outside the mask."""
    other = jax.lax.stop_gradient(other_log_probs.astype(jnp.float32))
    return jnp.where(mask, log_probs.astype(jnp.float32) - other, 0.0)


def _clipped(
    log_ratio: Float[Array, 'P N T'],
    advantages: Float[Array, 'P N 1'],
    *,
    clip_low: float,
    clip_high: float,
) -> tuple[Bool[Array, 'P N T'], Bool[Array, 'P N T']]:
    """Where the lower and where the upper clip binds, and the gradient is 0."""
    low = (advantages < 0) & (log_ratio < jnp.log1p(-clip_low))
    high = (advantages > 0) & (log_ratio > jnp.log1p(clip_high))
    return low, high


def _diagnostics(
    log_probs: Float[Array, 'P N T'],
    entropies: Float[Array, 'P N T'],
    old_log_probs: Float[Array, 'P N T'],
    advantages: Float[Array, 'P N'],
    mask: Bool[Array, 'P N T'],
    *,
    clip_low: float,
    clip_high: float,
) -> Metrics:
    """Sums over tokens: entropy, distance from the old policy, clipped tokens."""
    # The old policy drew the tokens, so -log_ratio plays the part of d in k3.
    log_ratio = _log_ratio(log_probs, old_log_probs, mask)
    low, high = _clipped(
        log_ratio, advantages[..., None], clip_low=clip_low, clip_high=clip_high
    )
    return {
        'entropy': jnp.where(mask, entropies.astype(jnp.float32), 0.0).sum(),
        'old_kl': (jnp.expm1(log_ratio) - log_ratio).sum(),
        'clip_fraction_low': low.sum().astype(jnp.float32),
        'clip_fraction_high': high.sum().astype(jnp.float32),
    }
