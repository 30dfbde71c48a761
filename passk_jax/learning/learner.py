"""The learner: the training state and the train step.

One call of the train step trains on one rollout batch:

1. *score* computes ``old_log_probs``, the learner's own log-probabilities of the
   responses before any update. (The sampler's are never used in the ratio.) The first
   update computes those of its mini-batch itself, so one epoch does not score them.
2. *update* sums the gradients of each mini-batch of prompts over its micro-batches, and
   takes one optimizer step. Every epoch has the same mini-batches in the same order. A
   micro-batch without any advantage is only measured: its gradient is exactly 0.

The loss divides by the tokens (or responses) of the whole mini-batch, counted before it
is cut, so micro-batches, padding, packing (packing.py) and the mesh cannot change it.
Mini-batch u of U has the prompts ``u, u + U, u + 2U ...``: each device keeps its own.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import optax
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from passk_jax import sharding
from passk_jax.config import LossConfig
from passk_jax.errors import InputError
from passk_jax.learning import losses, packing, rollout_parts
from passk_jax.learning.batch_loss import Batch, BatchLoss, response_mask
from passk_jax.learning.losses import Metrics, Tokens
from passk_jax.learning.optimizer import Optimizer, updates_made
from passk_jax.learning.packing import deinterleave, interleave
from passk_jax.masked import masked_max, masked_mean
from passk_jax.models import policy as policies
from passk_jax.models.attention_kernels import PACKING
from passk_jax.models.policy import Params, Policy
from passk_jax.types import Rollouts


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything that training changes.

    Attributes:
        params: the master parameters.
        opt_state: optax's state.
        step: int32, steps done; this is the state before step number ``step``.
    """

    params: Params
    opt_state: optax.OptState
    step: jax.Array


def state_shapes(
    policy: Policy, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """Shapes and shardings of the state; the optimizer's follow the parameters'."""
    params = policies.param_shapes(policy, mesh)
    opt_state = jax.eval_shape(optimizer.init, params)
    # Paths in optax's trees end with the parameters' names.
    shardings = sharding.tree_sharding(mesh, opt_state, policies.param_axes)
    opt_state = jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
        opt_state,
        shardings,
    )
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=sharding.replicated(mesh))
    return TrainState(params, opt_state, step)


def _state_shardings(*args: Any) -> TrainState:
    return jax.tree.map(lambda x: x.sharding, state_shapes(*args))


def init_state(
    policy: Policy, optimizer: optax.GradientTransformation, params: Params, mesh: Mesh
) -> TrainState:
    """Makes the state before step 0 on the mesh; takes ownership of ``params``."""
    return _init_program(policy, optimizer, mesh)(params)


def reset_optimizer(
    policy: Policy,
    optimizer: optax.GradientTransformation,
    state: TrainState,
    mesh: Mesh,
) -> TrainState:
    """The state with a new state of the optimizer; takes ownership of ``state``."""
    begun = init_state(policy, optimizer, state.params, mesh)
    return dataclasses.replace(begun, step=state.step)


# The runs of a process share one program if their settings are equal.
@functools.lru_cache(maxsize=16)
def _init_program(
    policy: Policy, optimizer: optax.GradientTransformation, mesh: Mesh
) -> Callable[[Params], TrainState]:
    def init(params: Params) -> TrainState:
        return TrainState(params, optimizer.init(params), jnp.int32(0))

    return jax.jit(init, out_shardings=_state_shardings(policy, optimizer, mesh))


@dataclasses.dataclass(frozen=True)
class _Learner:
    """The settings of a train step; see :func:`make_train_step`."""

    loss: BatchLoss
    optimizer: Optimizer
    num_updates: int
    num_micro_batches: int
    rollout_parts: int
    pack_sizes: int
    epochs: int

    def train_step(
        self,
        state: TrainState,
        rollouts: Rollouts,
        advantages: Float[Array, 'P N'],
        ref_params: Params | None,
    ) -> tuple[TrainState, Metrics]:
        """Scores the responses, then makes every update of the step."""
        rows = {'parts': self.rollout_parts, 'num_updates': self.num_updates}
        batch = rollout_parts.split(Batch(rollouts, advantages), **rows)
        if self.pack_sizes:
            lengths, width = batch.rollouts.lengths, rollouts.tokens.shape[-1]
            packed = packing.pack(lengths, width=width)
            batch = dataclasses.replace(batch, packing=packed)
        batches = interleave(batch, self.num_updates)
        updates = jnp.arange(self.epochs * self.num_updates)
        is_first = updates.reshape(self.epochs, self.num_updates) == 0
        with jax.named_scope('score'):
            old = ref = None
            # Only later epochs read the scores of the first mini-batch.
            skipped = 1 if self.epochs == 1 else 0
            if self.num_updates > skipped:
                later = jax.tree.map(lambda x: x[skipped:], batches)
                later = self.score(state.params, later)
                old = jnp.concatenate([jnp.zeros_like(later[:skipped]), later])
            if ref_params is not None:
                ref = self.score(ref_params, batches)
        batches = dataclasses.replace(batches, old_log_probs=old, ref_log_probs=ref)

        def epoch(carry: Any, is_first: jax.Array) -> tuple[Any, Any]:
            return jax.lax.scan(self.update, carry, (is_first, batches))

        # A single epoch needs no loop.
        (params, opt_state), (metrics, by_prompt) = jax.lax.scan(
            epoch,
            (state.params, state.opt_state),
            is_first,
            unroll=self.epochs == 1,
        )
        finite = jnp.isfinite(metrics['loss']) & jnp.isfinite(metrics['grad_norm'])
        metrics = {name: x.reshape(-1) for name, x in metrics.items()}
        tokens, positions = metrics.pop('tokens'), metrics.pop('positions')
        metrics = losses.finish_metrics(metrics, tokens)
        needed = self.epochs * rollouts.lengths.sum()
        metrics['padding'] = 1 - needed / positions.sum()
        problem_loss, log_probs = by_prompt
        log_probs = log_probs[0]
        if old is not None:
            log_probs = jnp.where(is_first[0, :, None, None, None], log_probs, old)
        add = functools.partial(rollout_parts.add, **rows)
        problem_loss = jax.vmap(add)(jax.vmap(deinterleave)(problem_loss))
        old = rollout_parts.join(deinterleave(log_probs), **rows)
        metrics |= mismatch(rollouts, old)
        last = updates_made(opt_state) - 1
        metrics['learning_rate'] = self.optimizer.learning_rate(last)
        metrics |= {'problem_loss': problem_loss, 'finite_updates': finite}
        return TrainState(params, opt_state, state.step + 1), metrics

    def score(self, params: Params, batches: Batch) -> Float[Array, 'updates P N T']:
        """Computes log-probabilities of mini-batches, one micro-batch at a time."""

        def score_part(part: Batch) -> Tokens:
            return packing.for_rows(
                lambda rows: self.loss.log_probs(params, part, rows)[0],
                part.packing,
                sizes=self.pack_sizes,
            )

        def score_batch(batch: Batch) -> Tokens:
            parts, join = self.cut(batch)
            return join(jax.lax.map(score_part, parts))

        return jax.lax.map(score_batch, batches)

    def cut(self, batch: Batch) -> tuple[Batch, Callable[[Any], Any]]:
        """Cuts a mini-batch into micro-batches; also returns what joins results."""
        parts = self.num_micro_batches * self.rollout_parts
        return packing.cut(batch, batch.packing, parts=parts)

    def update(
        self,
        carry: tuple[Params, optax.OptState],
        of_update: tuple[Bool[Array, ''], Batch],
    ) -> tuple[tuple[Params, optax.OptState], tuple[Metrics, tuple[jax.Array, ...]]]:
        """Takes one optimizer step; also returns metrics, and arrays by prompt."""
        (params, opt_state), (is_first, batch) = carry, of_update
        normalizer = self.loss.normalizer(batch.rollouts)

        def accumulate(total: Params, part: Batch) -> tuple[Params, Any]:
            arguments = (params, part, is_first, normalizer)
            rows = {'packing': part.packing, 'sizes': self.pack_sizes}

            def learn() -> tuple[Params, Any]:
                gradient = jax.grad(self.loss, has_aux=True)
                of_rows = functools.partial(gradient, *arguments)
                return packing.for_rows(of_rows, **rows)

            def measure() -> tuple[Params, Any]:
                of_rows = functools.partial(self.loss, *arguments)
                nothing = jax.tree.map(jnp.zeros_like, params)
                return nothing, packing.for_rows(of_rows, **rows)[1]

            if self.loss.vanishes_without_advantages:
                signal = (part.advantages != 0).any()
                grads, aux = jax.lax.cond(signal, learn, measure)
            else:
                grads, aux = learn()
            return jax.tree.map(jnp.add, total, grads), aux

        with jax.named_scope('gradients'):
            zeros = jax.tree.map(jnp.zeros_like, params)
            parts, join = self.cut(batch)
            grads, (metrics, log_probs) = jax.lax.scan(accumulate, zeros, parts)
        with jax.named_scope('optimizer'):
            steps, opt_state = self.optimizer.update(grads, opt_state, params)
            params = optax.apply_updates(params, steps)
        by_prompt = join((metrics.pop('problem_loss'), log_probs))
        metrics = losses.join_metrics(metrics)
        tokens = self.loss.mask(batch.rollouts).sum()
        metrics |= {'tokens': tokens, 'grad_norm': optax.tree.norm(grads)}
        return (params, opt_state), (metrics, by_prompt)


def make_train_step(
    policy: Policy,
    optimizer: Optimizer,
    mesh: Mesh,
    *,
    loss: LossConfig,
    temperature: float,
    num_updates: int,
    num_micro_batches: int,
    rollout_parts: int = 1,
    pack_sizes: int = 0,
    epochs: int = 1,
) -> Callable[..., tuple[TrainState, Metrics]]:
    """Makes the jitted ``train_step(state, rollouts, advantages, ref_params)``.

    Args:
        policy: the policy.
        optimizer: from :func:`optimizer.make_optimizer`.
        mesh: pins the state's shardings, so that nothing compiles twice.
        loss: the loss settings.
        temperature: the sampling temperature of the rollouts.
        num_updates: mini-batches per step, and updates in each epoch.
        num_micro_batches: parts of a mini-batch's prompts, one for each pass.
        rollout_parts: parts of a prompt's rollouts, one for each pass; divides N. The
            prompt runs again for each.
        pack_sizes: how many sizes of a packed micro-batch to compile (see packing.py);
            0: each response has a row of its own.
        epochs: how often a step goes over its mini-batches.

    Returns:
        A function of the state (donated), the rollouts, the advantages ``[P, N]`` and
        the reference parameters (``None`` if ``loss.kl_coef == 0``). It returns the
        next state and the metrics. ``loss``, ``policy_loss`` and ``grad_norm`` are
        means over the step's updates, ``learning_rate`` that of the last, and
        ``ratio_max`` the largest ratio of all. Clip fractions leave out the first
        update (:func:`losses.finish_metrics`). ``padding`` and the sampler's gaps
        (:func:`mismatch`) cover all responses. The others, such as ``entropy``, are
        means over all tokens trained in the step, or 0 if there were none. Two locate
        the cause of a loss that is not finite: ``problem_loss [epochs, P]``, and
        ``finite_updates [epochs, U]`` (mini-batch u has the problems u::U).

    Raises:
        ValueError: the policy's attention cannot read packed rows.
    """
    if pack_sizes and policy.arch.attention not in PACKING:
        raise InputError(
            f'train.{pack_sizes=} packs responses, which attention '
            f'{policy.arch.attention!r} cannot read; {PACKING} can'
        )
    sizes = num_updates, num_micro_batches, rollout_parts, pack_sizes, epochs
    learner = _Learner(BatchLoss(policy, loss, temperature), optimizer, *sizes)
    return _step_program(learner, mesh)


@functools.lru_cache(maxsize=16)
def _step_program(
    learner: _Learner, mesh: Mesh
) -> Callable[..., tuple[TrainState, Metrics]]:
    shardings = _state_shardings(learner.loss.policy, learner.optimizer, mesh), None
    return jax.jit(learner.train_step, donate_argnums=0, out_shardings=shardings)


def mismatch(rollouts: Rollouts, old_log_probs: Tokens) -> Metrics:
    """Measures how far the sampler's log-probabilities are from the learner's.

    Covers all response tokens, including those that are not trained.
    """
    mask = response_mask(rollouts)
    gap = jnp.where(mask, rollouts.untruncated_log_probs - old_log_probs, 0.0)
    # The sampler drew the tokens, so k3 is unbiased for KL(sampler || learner).
    return {
        'sampler_gap_mean': masked_mean(jnp.abs(gap), mask),
        'sampler_gap_max': masked_max(jnp.abs(gap), mask),
        'sampler_k3': masked_mean(jnp.expm1(-gap) + gap, mask),
    }
