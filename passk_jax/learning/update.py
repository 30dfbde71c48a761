"""The verb *update*: trains the policy on one rollout batch.

1. *score* computes ``old_log_probs``, the learner's log-probabilities of the responses
   before any update. (The ratio never uses the sampler's.) With one epoch, it skips the
   first mini-batch, because the first update computes its log-probabilities anyway.
2. *update* sums the gradients of each mini-batch over its micro-batches, and makes one
   optimizer step. Every epoch has the same mini-batches in the same order. If the loss
   has no other term, a micro-batch without advantages needs no gradient.

The loss divides by the tokens (or responses) of the whole mini-batch, counted before it
is cut, and gradients add up in float32. So micro-batches, padding, packing (packing.py)
and the mesh cannot change it.
Mini-batch u of U has the prompts ``u, u + U, u + 2U ...``, which stay on their devices.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, cast

import jax
import optax
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from passk_jax.config import LossConfig, SamplingConfig, TrainConfig
from passk_jax.learning import losses, rollout_parts
from passk_jax.learning.batch_loss import Batch, BatchLoss, without_routing
from passk_jax.learning.expert_load import EXPERT_TOKENS, load_metrics
from passk_jax.learning.losses import Metrics
from passk_jax.learning.micro_batches import MicroBatches
from passk_jax.learning.optimizer import Optimizer, updates_made
from passk_jax.learning.packing import deinterleave, interleave
from passk_jax.learning.state import TrainState, state_shardings
from passk_jax.models.frozen import Weights
from passk_jax.models.policy import Params, Policy
from passk_jax.runtime import compiler_options
from passk_jax.sharding import AnyMesh
from passk_jax.types import Rollouts

StepProgram = Callable[
    [TrainState, Rollouts, Float[Array, 'P N'], Params | None, Params | None],
    tuple[TrainState, Metrics],
]


@dataclasses.dataclass(frozen=True)
class Update(MicroBatches):
    """The verb ``update(state, rollouts, advantages, ref_params, frozen)``.

    Equal updates share one compiled program.

    Attributes:
        optimizer: from :func:`~passk_jax.learning.optimizer.make_optimizer`.
        num_updates: mini-batches per step, and updates per epoch.
        epochs: how often a step repeats its mini-batches.
        vmem_kib: as in :func:`compiler_options.choose_for_train_step`.
    """

    optimizer: Optimizer
    num_updates: int
    epochs: int = 1
    vmem_kib: int = 0

    @classmethod
    def configured(
        cls,
        policy: Policy,
        optimizer: Optimizer,
        mesh: AnyMesh,
        *,
        train: TrainConfig,
        loss: LossConfig,
        sampling: SamplingConfig,
    ) -> 'Update':
        """Makes the update of a run from sections of its config."""
        return cls(
            loss=BatchLoss.configured(policy, loss, sampling),
            optimizer=optimizer,
            mesh=mesh,
            num_updates=train.num_prompts // train.mini_batch_prompts,
            num_micro_batches=train.mini_batch_prompts // train.micro_batch_prompts,
            rollout_parts=train.rollout_parts(sampling.num_rollouts),
            pack_sizes=train.pack_sizes,
            epochs=train.epochs,
            deals=train.packing == 'rows',
            vmem_kib=train.scoped_vmem_kib,
        )

    def __call__(
        self,
        state: TrainState,
        rollouts: Rollouts,
        advantages: Float[Array, 'P N'],
        ref_params: Params | None = None,
        frozen: Params | None = None,
    ) -> tuple[TrainState, Metrics]:
        """Trains on a rollout batch.

        Args:
            state: the state before the step; it is donated.
            rollouts: P prompts with N responses each.
            advantages: one per response.
            ref_params: the reference policy's ``state.params``; ``None`` if
                ``loss.kl_coef`` is 0.
            frozen: ``Weights.frozen`` of both policies; ``None``: nothing.

        Returns:
            The next state and the metrics. ``loss``, ``policy_loss`` and ``grad_norm``
            are means over the step's updates, ``learning_rate`` is that of the last,
            ``ratio_max`` the largest. Clip fractions skip the first update
            (:func:`losses.finish_metrics`). ``padding`` and the sampler's gaps
            (``BatchLoss.compare``) cover all responses. Other metrics, such as
            ``entropy``, are means over the trained tokens, or 0 without any.
            ``problem_loss [epochs, P]`` and ``finite_updates [epochs, U]`` locate a
            loss that is not finite (mini-batch u has the problems u::U).
        """
        return self.program(state, rollouts, advantages, ref_params, frozen)

    @property
    def program(self) -> StepProgram:
        """Returns the jitted :meth:`train_step`; callers may lower it on shapes."""
        return _program(self)

    @property
    def compiler_options(self) -> dict[str, str]:
        """Returns the options that the program is compiled with."""
        devices = self.mesh.devices.flat if isinstance(self.mesh, Mesh) else [None]
        return compiler_options.choose_for_train_step(devices[0], self.vmem_kib)

    def train_step(
        self,
        state: TrainState,
        rollouts: Rollouts,
        advantages: Float[Array, 'P N'],
        ref_params: Params | None,
        frozen: Params | None = None,
    ) -> tuple[TrainState, Metrics]:
        """Scores the responses, then makes every update of the step."""
        frozen = frozen or {}
        parts = 1 if self.deals else self.rollout_parts
        rows = {'parts': parts, 'num_updates': self.num_updates}
        batch = rollout_parts.split(Batch(rollouts, advantages), **rows)
        if self.deals or self.pack_sizes:
            batch = dataclasses.replace(batch, packing=self.pack(batch))
        batches = interleave(batch, self.num_updates)
        updates = jnp.arange(self.epochs * self.num_updates)
        is_first = updates.reshape(self.epochs, self.num_updates) == 0
        with jax.named_scope('score'):
            batches = self.add_scores(batches, state.params, ref_params, frozen)

        def epoch(carry: Any, is_first: jax.Array) -> tuple[Any, Any]:
            take_step = functools.partial(self.take_step, frozen)
            return jax.lax.scan(take_step, carry, (is_first, batches))

        # Unrolled, a single epoch needs no loop.
        (params, opt_state), (metrics, by_prompt) = jax.lax.scan(
            epoch,
            (state.params, state.opt_state),
            is_first,
            unroll=self.epochs == 1,
        )
        finite = jnp.isfinite(metrics['loss']) & jnp.isfinite(metrics['grad_norm'])
        expert_load = load_metrics(metrics.pop(EXPERT_TOKENS, None))
        metrics = {name: x.reshape(-1) for name, x in metrics.items()}
        tokens, positions = metrics.pop('tokens'), metrics.pop('positions')
        metrics = losses.finish_metrics(metrics, tokens)
        # In int32, the tokens of a step may overflow.
        needed = self.epochs * rollouts.lengths.astype(jnp.float32).sum()
        metrics['padding'] = 1 - needed / positions.sum()
        problem_loss, log_probs = by_prompt
        before = log_probs[0]
        if (old := batches.old_log_probs) is not None:
            before = jnp.where(is_first[0, :, None, None, None], before, old)
        add = functools.partial(rollout_parts.add, **rows)
        problem_loss = jax.vmap(add)(jax.vmap(deinterleave)(problem_loss))
        before = rollout_parts.join(deinterleave(before), **rows)
        metrics |= self.loss.compare(rollouts, before) | expert_load
        last = updates_made(opt_state) - 1
        metrics['learning_rate'] = self.optimizer.learning_rate(last)
        metrics |= {'problem_loss': problem_loss, 'finite_updates': finite}
        return TrainState(params, opt_state, state.step + 1), metrics

    def add_scores(
        self, batches: Batch, params: Params, ref_params: Params | None, frozen: Params
    ) -> Batch:
        """Adds the log-probabilities of the old policy and of the reference."""
        old = ref = None
        # Only later epochs need the first mini-batch's scores.
        skipped = 1 if self.epochs == 1 else 0
        if self.num_updates > skipped:
            later = jax.tree.map(lambda x: x[skipped:], batches)
            later = self.score(Weights(frozen, params), later)
            old = jnp.concatenate([jnp.zeros_like(later[:skipped]), later])
        if ref_params is not None:
            ref = self.score(Weights(frozen, ref_params), without_routing(batches))
        return dataclasses.replace(batches, old_log_probs=old, ref_log_probs=ref)

    def take_step(
        self,
        frozen: Params,
        carry: tuple[Params, optax.OptState],
        of_update: tuple[Bool[Array, ''], Batch],
    ) -> tuple[tuple[Params, optax.OptState], tuple[Metrics, tuple[jax.Array, ...]]]:
        """Makes one optimizer step; also returns metrics, and arrays by prompt."""
        (params, opt_state), (is_first, batch) = carry, of_update
        normalizer = self.loss.normalizer(batch.rollouts)
        factors = None
        if self.loss.balances:
            factors = self.balance_factors(Weights(frozen, params), batch)

        def loss(params: Params, *args: Any) -> tuple[jax.Array, Any]:
            return self.loss(Weights(frozen, params).merged, *args, factors=factors)

        def learn(total: Params, part: Batch, rows: int | None) -> tuple[Params, Any]:
            args = part, is_first, normalizer, rows
            return add_gradient(total, lambda params: loss(params, *args), params)

        def measure(part: Batch, rows: int | None) -> Any:
            return loss(params, part, is_first, normalizer, rows)[1]

        with jax.named_scope('gradients'):
            total = optax.tree.zeros_like(params, dtype=jnp.float32)
            # A part is a block or a micro-batch: see micro_batches.py.
            add_up = self.deal_gradients if self.deals else self.cut_gradients
            grads, metrics, by_prompt = add_up(batch, total, learn, measure)
        with jax.named_scope('optimizer'):
            steps, opt_state = self.optimizer.update(grads, opt_state, params)
            # Optax returns the type of any tree.
            params = cast(Params, optax.apply_updates(params, steps))
        metrics = losses.join_metrics(metrics)
        tokens = self.loss.mask(batch.rollouts).sum()
        metrics |= {'tokens': tokens, 'grad_norm': optax.tree.norm(grads)}
        return (params, opt_state), (metrics, by_prompt)


# Runs of a process share a program if their settings are equal.
@functools.lru_cache(maxsize=16)
def _program(update: Update) -> StepProgram:
    policy, optimizer = update.loss.policy, update.optimizer
    shardings = state_shardings(policy, optimizer, update.mesh), None
    return jax.jit(
        update.train_step,
        donate_argnums=0,
        out_shardings=shardings,
        compiler_options=update.compiler_options or None,
    )


def add_gradient(
    total: Params, loss: Callable[[Params], tuple[jax.Array, Any]], params: Params
) -> tuple[Params, Any]:
    """Returns ``total`` plus a loss's gradient, and the loss's figures.

    The backward pass adds each layer's gradient to its part of the sum. So the
    gradients of all layers do not exist beside the sum, unless layers differ (a scan
    then takes several at a time) or parameters are in bfloat16.

    A model must not take slices of a parameter; see ``unstack`` of models/layers.py.

    Args:
        total: float32 arrays in the shapes of ``params``.
        loss: takes parameters; returns a scalar and figures.
        params: the parameters at which to differentiate.
    """
    # The published type has no ``with_refs``.
    value, pull_back, figures = cast(Any, jax.vjp(loss, params, has_aux=True))
    one = jnp.ones_like(value)
    if any(x.dtype != jnp.float32 for x in jax.tree.leaves(params)):
        # Only equal dtypes add up in place.
        (grads,) = pull_back(one)
        return jax.tree.map(jnp.add, total, grads), figures
    sums = jax.tree.map(jax.new_ref, total)
    pull_back.with_refs(sums)(one)
    return jax.tree.map(jax.ref.freeze, sums), figures
