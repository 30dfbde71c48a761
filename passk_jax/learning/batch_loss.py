"""The loss of rollouts; the update and the diagnostics differentiate it."""

import abc
import dataclasses
import functools

import jax
from jax import numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from passk_jax.config import LossConfig, SamplingConfig
from passk_jax.errors import InputError
from passk_jax.learning import losses, packing
from passk_jax.learning.expert_load import EXPERT_TOKENS, balance_loss, count_tokens
from passk_jax.learning.losses import Mask, Metrics, Tokens
from passk_jax.learning.packing import Packing
from passk_jax.masked import masked_max, masked_mean
from passk_jax.models import policy as policies
from passk_jax.models.experts import ROUTER_PROBS, ROUTING
from passk_jax.models.policy import Params, Policy, TokenScores
from passk_jax.types import Rollouts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Batch:
    """The data of an update; the first axis of every leaf is prompts.

    ``old_log_probs`` is ``None`` if a step makes a single update, which computes them
    itself. ``packing`` is ``None`` if each response has its own row.
    """

    rollouts: Rollouts
    advantages: Float[Array, 'P N']
    packing: Packing | None = None
    old_log_probs: Tokens | None = None
    ref_log_probs: Tokens | None = None


@dataclasses.dataclass(frozen=True)
class Loss(abc.ABC):
    """A loss: a hashable function of parameters and a batch.

    Attributes:
        policy: the policy of the parameters.
        temperature: temperature of the log-probabilities.
    """

    policy: Policy
    temperature: float

    def __call__(
        self,
        params: Params,
        batch: Batch,
        is_first: Bool[Array, ''],
        normalizer: Float[Array, ''],
        rows: int | None,
        factors: Float[Array, 'E'] | None = None,
    ) -> tuple[Float[Array, ''], tuple[Metrics, Tokens]]:
        """Computes a micro-batch's share of its mini-batch's loss.

        Args:
            params: the parameters.
            batch: the micro-batch.
            is_first: whether the parameters are those before the step.
            normalizer: :meth:`normalizer` of the mini-batch.
            rows: rows per device, from :func:`packing.switch_on_rows`, or per block.
            factors: ``expert_load.balance_factors`` of the mini-batch, if the loss
                :attr:`balances`.

        Returns:
            The loss; metrics for :func:`losses.join_metrics`, with ``loss``,
            ``problem_loss [P]`` and the number of computed ``positions``; the
            log-probabilities.
        """
        scores = self.score(params, batch, rows)
        loss, metrics = self.share(scores, batch, is_first, normalizer, factors)
        tokens = batch.rollouts.tokens
        positions = packing.num_positions(tokens, batch.packing, rows)
        metrics['positions'] = jnp.float32(positions)
        return loss, jax.lax.stop_gradient((metrics, scores.log_probs))

    def score(self, params: Params, batch: Batch, rows: int | None) -> TokenScores:
        """Computes ``policies.token_log_probs`` of the responses, packed or not."""
        rollouts = batch.rollouts
        of_tokens = functools.partial(
            policies.token_log_probs,
            *(self.policy, params, rollouts.prompts),
            temperature=self.temperature,
        )
        arrays = rollouts.tokens, rollouts.routing
        return packing.apply_in_rows(
            of_tokens, arrays, rollouts.lengths, batch.packing, rows=rows
        )

    @abc.abstractmethod
    def share(
        self,
        scores: TokenScores,
        batch: Batch,
        is_first: Bool[Array, ''],
        normalizer: Float[Array, ''],
        factors: Float[Array, 'E'] | None,
    ) -> tuple[Float[Array, ''], Metrics]:
        """Computes loss and metrics from the scores of a micro-batch's tokens."""

    @property
    def balances(self) -> bool:
        """Returns whether the loss balances the load of experts."""
        return False

    def count_tokens(
        self, routing: Int[Array, 'P N T L k'], batch: Batch
    ) -> Float[Array, 'L E']:
        """Counts the trained tokens that run each expert of each layer."""
        num_experts, mask = self.policy.arch.num_experts, self.mask(batch.rollouts)
        return count_tokens(routing, mask, num_experts=num_experts)

    @property
    def vanishes_without_advantages(self) -> bool:
        """Returns whether responses whose advantages are all 0 have no gradient."""
        return False

    def mask(self, rollouts: Rollouts) -> Mask:
        """Marks the tokens to train."""
        return response_mask(rollouts)

    def normalizer(self, rollouts: Rollouts) -> Float[Array, '']:
        """Returns the divisor of a mini-batch's loss."""
        return losses.normalizer(self.mask(rollouts), aggregation='token')

    def compare(self, rollouts: Rollouts, log_probs: Tokens) -> Metrics:
        """Compares log-probabilities of sampler and learner before the step."""
        del rollouts, log_probs
        return {}


@dataclasses.dataclass(frozen=True)
class BatchLoss(Loss):
    """The loss of rollouts under their advantages.

    Attributes:
        policy, temperature: the policy and temperature of the rollouts.
        config: the loss settings.
    """

    config: LossConfig

    @classmethod
    def configured(
        cls, policy: Policy, config: LossConfig, sampling: SamplingConfig
    ) -> 'BatchLoss':
        """Makes the loss of a run from sections of its config.

        Raises:
            InputError: it balances experts, and the policy has none.
        """
        if config.router_aux_coef:
            if not policy.arch.num_experts:
                raise InputError(
                    f'loss.router_aux_coef={config.router_aux_coef} balances experts, '
                    'and the policy has none: set it to 0'
                )
            arch = dataclasses.replace(policy.arch, keep_router_probs=True)
            policy = dataclasses.replace(policy, arch=arch)
        return cls(policy, sampling.temperature, config)

    def share(
        self,
        scores: TokenScores,
        batch: Batch,
        is_first: Bool[Array, ''],
        normalizer: Float[Array, ''],
        factors: Float[Array, 'E'] | None,
    ) -> tuple[Float[Array, ''], Metrics]:
        """Computes :func:`losses.total_loss`, and sums the layers' statistics.

        With ``factors``, adds the loss that balances the experts.
        """
        rollouts, mask = batch.rollouts, self.mask(batch.rollouts)
        old = jax.lax.stop_gradient(scores.log_probs)
        if batch.old_log_probs is not None:
            # The first ratio must be exactly 1, but another program's log-probabilities
            # may differ in the last bit.
            old = jnp.where(is_first, old, batch.old_log_probs)
        loss, metrics = losses.total_loss(
            scores.log_probs,
            scores.entropies,
            old,
            batch.ref_log_probs,
            rollouts.sampler_log_probs,
            batch.advantages,
            mask,
            normalizer=normalizer,
            config=self.config,
        )
        statistics = dict(scores.statistics)
        if (routing := statistics.pop(ROUTING, None)) is not None:
            metrics[EXPERT_TOKENS] = self.count_tokens(routing, batch)
        probs = statistics.pop(ROUTER_PROBS, None)
        if factors is not None and probs is not None:
            added = balance_loss(probs, mask, factors)
            metrics['router_aux_loss'] = added.sum()
            metrics['problem_loss'] += self.config.router_aux_coef * added
            loss = metrics['loss'] = metrics['problem_loss'].sum()
        for name, x in statistics.items():
            metrics[losses.LAYERS + name] = jnp.where(mask, x, 0.0).sum()
        return loss, metrics

    @property
    def vanishes_without_advantages(self) -> bool:
        """Returns whether the loss has no term besides that of the advantages."""
        return not (self.config.kl_coef or self.config.entropy_coef or self.balances)

    @property
    def balances(self) -> bool:
        """Returns whether the loss balances the load of experts."""
        return self.config.router_aux_coef > 0

    def mask(self, rollouts: Rollouts) -> Mask:
        """Marks the tokens to train; DAPO's overlong filtering drops some.

        It drops truncated responses, because their verdicts say little about their
        tokens. They count in advantages, but in no sum over tokens and no normalizer.
        """
        mask = response_mask(rollouts)
        if self.config.mask_truncated:
            mask &= rollouts.stopped[..., None]
        return mask

    def normalizer(self, rollouts: Rollouts) -> Float[Array, '']:
        """Counts the trained tokens, or the trained responses."""
        mask = self.mask(rollouts)
        return losses.normalizer(mask, aggregation=self.config.aggregation)

    def compare(self, rollouts: Rollouts, log_probs: Tokens) -> Metrics:
        """Measures the gap between the log-probabilities of sampler and learner.

        It covers all response tokens, including untrained ones.
        """
        mask = response_mask(rollouts)
        gap = jnp.where(mask, rollouts.untruncated_log_probs - log_probs, 0.0)
        # k3 is unbiased for KL(sampler || learner), as the sampler drew the tokens.
        return {
            'sampler_gap_mean': masked_mean(jnp.abs(gap), mask),
            'sampler_gap_max': masked_max(jnp.abs(gap), mask),
            'sampler_k3': masked_mean(losses.measure_k3(gap), mask),
        }


def without_routing(batch: Batch) -> Batch:
    """Removes the sampler's routing, so that another policy chooses its own experts."""
    rollouts = dataclasses.replace(batch.rollouts, routing=None)
    return dataclasses.replace(batch, rollouts=rollouts)


def response_mask(rollouts: Rollouts) -> Mask:
    """Marks response tokens by the lengths, never by token ids."""
    return jnp.arange(rollouts.tokens.shape[-1]) < rollouts.lengths[..., None]
