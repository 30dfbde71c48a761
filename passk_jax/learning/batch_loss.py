"""The loss of rollouts under the parameters that are trained.

The train step differentiates it, and so do the diagnostics of its gradient.
"""

import dataclasses
import functools
from typing import Protocol

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float

from passk_jax.config import LossConfig
from passk_jax.learning import losses, packing
from passk_jax.learning.expert_load import EXPERT_TOKENS, count_tokens
from passk_jax.learning.losses import Mask, Metrics, Tokens
from passk_jax.learning.packing import Packing
from passk_jax.masked import masked_max, masked_mean
from passk_jax.models import policy as policies
from passk_jax.models.experts import ROUTING
from passk_jax.models.policy import Params, Policy
from passk_jax.types import Rollouts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Batch:
    """What an update learns from; prompts are the first axis of every leaf.

    ``old_log_probs`` is ``None`` if the step makes one update, which computes them.
    ``packing`` is ``None`` if each response has a row of its own.
    """

    rollouts: Rollouts
    advantages: Float[Array, 'P N']
    packing: Packing | None = None
    old_log_probs: Tokens | None = None
    ref_log_probs: Tokens | None = None


class Loss(Protocol):
    """What an update minimizes: a hashable function of parameters and a batch.

    ``policy`` is the policy whose parameters these are, and ``mask`` marks the tokens
    that are trained. ``vanishes_without_advantages`` says whether the gradient is 0
    where all advantages are.
    """

    @property
    def policy(self) -> Policy: ...

    @property
    def vanishes_without_advantages(self) -> bool: ...

    def log_probs(
        self, params: Params, batch: Batch, rows: int | None
    ) -> tuple[Tokens, Tokens, dict[str, Tokens]]:
        """Computes what :func:`response_log_probs` does."""

    def __call__(
        self,
        params: Params,
        batch: Batch,
        is_first: Bool[Array, ''],
        normalizer: jax.Array,
        rows: int | None,
    ) -> tuple[jax.Array, tuple[Metrics, Tokens]]:
        """Computes a micro-batch's share of its mini-batch's loss.

        Args:
            params: the parameters.
            batch: the micro-batch.
            is_first: whether these are still the parameters before the step.
            normalizer: :meth:`normalizer` of the mini-batch.
            rows: rows per device, from :func:`packing.switch_on_rows`.

        Returns:
            The loss; metrics for :func:`losses.join_metrics`, with ``loss``,
            ``problem_loss [P]`` and ``positions``, the number of them computed; the
            log-probabilities ``[P, N, T]``.
        """

    def mask(self, rollouts: Rollouts) -> Mask: ...

    def normalizer(self, rollouts: Rollouts) -> Float[Array, '']:
        """Counts what the loss of a mini-batch is divided by."""

    def compare(self, rollouts: Rollouts, log_probs: Tokens) -> Metrics:
        """Compares the rollouts with their log-probabilities before the step."""


@dataclasses.dataclass(frozen=True)
class BatchLoss:
    """The loss of rollouts under their advantages.

    Attributes:
        policy: the policy.
        config: the loss settings.
        temperature: the sampling temperature of the rollouts.
    """

    policy: Policy
    config: LossConfig
    temperature: float

    def log_probs(
        self, params: Params, batch: Batch, rows: int | None
    ) -> tuple[Tokens, Tokens, dict[str, Tokens]]:
        """Computes ``policies.token_log_probs`` of the responses, packed or not."""
        return response_log_probs(
            self.policy, params, batch, rows, temperature=self.temperature
        )

    def __call__(
        self,
        params: Params,
        batch: Batch,
        is_first: Bool[Array, ''],
        normalizer: jax.Array,
        rows: int | None,
    ) -> tuple[jax.Array, tuple[Metrics, jax.Array]]:
        """Computes a micro-batch's share; see :class:`Loss`.

        The metrics are those of :func:`losses.total_loss`, ``positions``, and the sums
        over tokens of the layers' statistics, of experts their tokens.
        """
        rollouts = batch.rollouts
        log_probs, entropies, statistics = self.log_probs(params, batch, rows)
        current = old = jax.lax.stop_gradient(log_probs)
        if batch.old_log_probs is not None:
            # The first update's ratio must be exactly 1, but log-probabilities from
            # the score program would differ from these in the last bit.
            old = jnp.where(is_first, current, batch.old_log_probs)
        loss, metrics = losses.total_loss(
            log_probs,
            entropies,
            old,
            batch.ref_log_probs,
            batch.advantages,
            self.mask(rollouts),
            rollouts.sampler_log_probs if self.config.sampler_weight_cap else None,
            normalizer=normalizer,
            config=self.config,
        )
        positions = packing.num_positions(rollouts.tokens, rows)
        metrics['positions'] = jnp.float32(positions)
        mask = self.mask(rollouts)
        statistics = jax.lax.stop_gradient(statistics)
        if (routing := statistics.pop(ROUTING, None)) is not None:
            count = {'num_experts': self.policy.arch.num_experts}
            metrics[EXPERT_TOKENS] = count_tokens(routing, mask, **count)
        for name, x in statistics.items():
            metrics[losses.LAYERS + name] = jnp.where(mask, x, 0.0).sum()
        return loss, (metrics, current)

    @property
    def vanishes_without_advantages(self) -> bool:
        """Whether responses whose advantages are all 0 have no gradient."""
        return not (self.config.kl_coef or self.config.entropy_coef)

    def mask(self, rollouts: Rollouts) -> Mask:
        """Marks the tokens to train; DAPO's overlong filtering drops some.

        It drops responses that the limit cut off, as their verdicts say little about
        their tokens. They still count in advantages, but in no sum or normalizer.
        """
        mask = response_mask(rollouts)
        if self.config.mask_truncated:
            mask &= rollouts.stopped[..., None]
        return mask

    def normalizer(self, rollouts: Rollouts) -> Float[Array, '']:
        """Counts what the loss of a mini-batch is divided by."""
        mask = self.mask(rollouts)
        return losses.normalizer(mask, aggregation=self.config.aggregation)

    def compare(self, rollouts: Rollouts, log_probs: Tokens) -> Metrics:
        """Measures how far the sampler's log-probabilities are from the learner's.

        Covers all response tokens, including those that are not trained.
        """
        mask = response_mask(rollouts)
        gap = jnp.where(mask, rollouts.untruncated_log_probs - log_probs, 0.0)
        # The sampler drew the tokens, so k3 is unbiased for KL(sampler || learner).
        return {
            'sampler_gap_mean': masked_mean(jnp.abs(gap), mask),
            'sampler_gap_max': masked_max(jnp.abs(gap), mask),
            'sampler_k3': masked_mean(jnp.expm1(-gap) + gap, mask),
        }


def response_log_probs(
    policy: Policy,
    params: Params,
    batch: Batch,
    rows: int | None,
    *,
    temperature: float,
) -> tuple[Tokens, Tokens, dict[str, Tokens]]:
    """Computes ``policies.token_log_probs`` of the responses, packed or not."""
    rollouts = batch.rollouts
    of_tokens = functools.partial(
        policies.token_log_probs,
        *(policy, params, rollouts.prompts),
        temperature=temperature,
    )
    arrays = rollouts.tokens, rollouts.routing
    return packing.apply_in_rows(
        of_tokens, arrays, rollouts.lengths, batch.packing, rows=rows
    )


def without_routing(batch: Batch) -> Batch:
    """The batch for a policy that did not sample it, and chooses its own experts."""
    rollouts = dataclasses.replace(batch.rollouts, routing=None)
    return dataclasses.replace(batch, rollouts=rollouts)


def response_mask(rollouts: Rollouts) -> Mask:
    """Marks the positions of response tokens, by lengths and never by token ids."""
    return jnp.arange(rollouts.tokens.shape[-1]) < rollouts.lengths[..., None]
