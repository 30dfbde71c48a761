"""The learner: optimizer, training state, and the step that makes updates of rollouts.

One call of the train step is one rollout batch:

1. *score*: the learner's own log-probabilities of the responses, before any update:
   ``old_log_probs`` (the sampler's are another thing and never used in the ratio).
   The first mini-batch is not scored: what its update differentiates are the old ones;
2. *update* for each mini-batch of prompts: gradients summed over its micro-batches,
   then one optimizer step.

The loss divides by the tokens (or sequences) of the whole mini-batch, counted before
it is cut up, so micro-batches, padding, packing (packing.py) and mesh cannot change it.
Mini-batch u takes the prompts ``u, u + U, u + 2U ...``: each device keeps its own.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import optax
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from passk_jax import sharding
from passk_jax.config import LossConfig, OptimizerConfig
from passk_jax.errors import InputError
from passk_jax.learning import losses, packing
from passk_jax.learning.packing import Packing, deinterleave, interleave
from passk_jax.masked import masked_max, masked_mean
from passk_jax.models import policy as policies
from passk_jax.models.attention_kernels import PACKING
from passk_jax.models.policy import Params, Policy
from passk_jax.types import Rollouts

Metrics = dict[str, jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything that training changes.

    Attributes:
        params: master parameters.
        opt_state: optax's state.
        step: int32, rollout batches done; the state is the one before this step.
    """

    params: Params
    opt_state: optax.OptState
    step: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Batch:
    """What an update learns from; every leaf has the prompts in front.

    ``old_log_probs`` is ``None`` if there is one update, whose current ones are the
    old ones; ``packing`` if each response has a row.
    """

    rollouts: Rollouts
    advantages: Float[Array, 'P N']
    packing: Packing | None
    old_log_probs: Float[Array, 'P N T'] | None = None
    ref_log_probs: Float[Array, 'P N T'] | None = None


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """AdamW after a linear warm-up, with the global gradient norm clipped.

    Update number u (from 1) has rate ``learning_rate * min(1, u / warmup_updates)``:
    the first is not wasted on a rate of zero.
    """

    def rate(count: jax.Array) -> jax.Array:
        ramp = (count + 1) / max(1, config.warmup_updates)
        return config.learning_rate * jnp.minimum(1.0, ramp)

    adamw = optax.adamw(
        rate,
        b1=config.b1,
        b2=config.b2,
        eps=config.eps,
        weight_decay=config.weight_decay,
        mask=_decayed,
    )
    if not config.max_grad_norm:
        return adamw
    return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), adamw)


def _decayed(params: Params) -> dict[str, bool]:
    """Weight decay is for matrices: neither norms nor biases shrink."""
    return {name: name.endswith(('kernel', 'embedding')) for name in params}


def state_shapes(
    policy: Policy, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """Shapes and shardings of the whole state: the optimizer's follow the params'."""
    params = policies.param_shapes(policy, mesh)

    opt_state = jax.eval_shape(optimizer.init, params)
    # optax keeps the parameters' names at the end of its own trees' paths.
    shardings = sharding.tree_sharding(mesh, opt_state, policies.param_axes)
    opt_state = jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
        opt_state,
        shardings,
    )
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=sharding.replicated(mesh))
    return TrainState(params, opt_state, step)


def init_state(
    policy: Policy,
    optimizer: optax.GradientTransformation,
    params: Params,
    mesh: Mesh,
) -> TrainState:
    """The state before step 0, placed on the mesh; takes ownership of ``params``."""
    shardings = jax.tree.map(
        lambda x: x.sharding, state_shapes(policy, optimizer, mesh)
    )

    def init(params: Params) -> TrainState:
        return TrainState(params, optimizer.init(params), jnp.int32(0))

    return jax.jit(init, out_shardings=shardings)(params)


@dataclasses.dataclass(frozen=True)
class _Learner:
    """What a train step is made of; see :func:`make_train_step`."""

    policy: Policy
    optimizer: optax.GradientTransformation
    loss: LossConfig
    temperature: float
    num_updates: int
    num_micro_batches: int
    pack_sizes: int

    def train_step(
        self,
        state: TrainState,
        rollouts: Rollouts,
        advantages: Float[Array, 'P N'],
        ref_params: Params | None,
    ) -> tuple[TrainState, Metrics]:
        """Scores the responses, then makes every update of the step."""
        width = rollouts.tokens.shape[-1]
        packed = (
            packing.pack(rollouts.lengths, width=width) if self.pack_sizes else None
        )
        batches = interleave(_Batch(rollouts, advantages, packed), self.num_updates)
        is_first = jnp.arange(self.num_updates) == 0
        with jax.named_scope('score'):
            old = ref = None
            if self.num_updates > 1:
                later = jax.tree.map(lambda x: x[1:], batches)
                later = self.score(state.params, later)
                # The first one's are never looked at: see micro_loss.
                old = jnp.concatenate([jnp.zeros_like(later[:1]), later])
            if ref_params is not None:
                ref = self.score(ref_params, batches)
        batches = dataclasses.replace(batches, old_log_probs=old, ref_log_probs=ref)
        (params, opt_state), (metrics, by_prompt) = jax.lax.scan(
            self.update, (state.params, state.opt_state), (is_first, batches)
        )
        finite = jnp.isfinite(metrics['loss']) & jnp.isfinite(metrics['grad_norm'])
        tokens, positions = metrics.pop('tokens'), metrics.pop('positions')
        metrics = losses.finish_metrics(metrics, tokens)
        metrics['padding'] = 1 - rollouts.lengths.sum() / positions.sum()
        problem_loss, log_probs = by_prompt
        if old is not None:
            log_probs = jnp.where(is_first[:, None, None, None], log_probs, old)
        problem_loss, old = deinterleave((problem_loss, log_probs))
        metrics |= mismatch(rollouts, old)
        metrics |= {'problem_loss': problem_loss, 'finite_updates': finite}
        return TrainState(params, opt_state, state.step + 1), metrics

    def score(self, params: Params, batches: _Batch) -> Float[Array, 'updates P N T']:
        """Log-probabilities of mini-batches, a micro-batch at a time."""
        count = self.num_micro_batches

        def score_part(part: _Batch) -> Float[Array, 'P N T']:
            return packing.for_rows(
                lambda rows: self.log_probs(params, part, rows)[0],
                part.packing,
                sizes=self.pack_sizes,
            )

        def score_batch(batch: _Batch) -> Float[Array, 'P N T']:
            parts, join = packing.cut(batch, batch.packing, parts=count)
            return join(jax.lax.map(score_part, parts))

        return jax.lax.map(score_batch, batches)

    def log_probs(
        self, params: Params, batch: _Batch, rows: int | None
    ) -> tuple[Float[Array, 'P N T'], Float[Array, 'P N T']]:
        """Log-probabilities and entropies of the responses, packed into rows or not."""
        rollouts = batch.rollouts

        def of_tokens(tokens: jax.Array, starts: jax.Array | None) -> Any:
            return policies.token_log_probs(
                self.policy,
                params,
                rollouts.prompts,
                tokens,
                starts,
                temperature=self.temperature,
            )

        return packing.in_rows(
            of_tokens, rollouts.tokens, rollouts.lengths, batch.packing, rows=rows
        )

    def update(
        self,
        carry: tuple[Params, optax.OptState],
        of_update: tuple[Bool[Array, ''], _Batch],
    ) -> tuple[tuple[Params, optax.OptState], tuple[Metrics, tuple[jax.Array, ...]]]:
        """One optimizer step on a mini-batch; its figures, and what is by prompt."""
        (params, opt_state), (is_first, batch) = carry, of_update
        mask = self.loss_mask(batch.rollouts)
        normalizer = losses.normalizer(mask, aggregation=self.loss.aggregation)

        def accumulate(total: Params, part: _Batch) -> tuple[Params, Any]:
            def gradient(rows: int | None) -> tuple[Params, Any]:
                grad = jax.grad(self.micro_loss, has_aux=True)
                return grad(params, part, is_first, normalizer, rows)

            grads, seen = packing.for_rows(
                gradient, part.packing, sizes=self.pack_sizes
            )
            return jax.tree.map(jnp.add, total, grads), seen

        with jax.named_scope('gradients'):
            zeros = jax.tree.map(jnp.zeros_like, params)
            count = self.num_micro_batches
            parts, join = packing.cut(batch, batch.packing, parts=count)
            grads, (metrics, log_probs) = jax.lax.scan(accumulate, zeros, parts)
        with jax.named_scope('optimizer'):
            steps, opt_state = self.optimizer.update(grads, opt_state, params)
            params = optax.apply_updates(params, steps)
        by_prompt = join((metrics.pop('problem_loss'), log_probs))
        metrics = {name: x.sum(axis=0) for name, x in metrics.items()}
        metrics |= {'tokens': mask.sum(), 'grad_norm': optax.tree.norm(grads)}
        return (params, opt_state), (metrics, by_prompt)

    def micro_loss(
        self,
        params: Params,
        batch: _Batch,
        is_first: Bool[Array, ''],
        normalizer: jax.Array,
        rows: int | None,
    ) -> tuple[jax.Array, tuple[Metrics, jax.Array]]:
        """A micro-batch's share of the loss of its mini-batch."""
        rollouts = batch.rollouts
        log_probs, entropies = self.log_probs(params, batch, rows)
        current = old = jax.lax.stop_gradient(log_probs)
        if batch.old_log_probs is not None:
            # Two programs differ in the last bit, and the ratio of the first update
            # must be exactly 1.
            old = jnp.where(is_first, current, batch.old_log_probs)
        loss, metrics = losses.total_loss(
            log_probs,
            entropies,
            old,
            batch.ref_log_probs,
            batch.advantages,
            self.loss_mask(rollouts),
            rollouts.sampler_log_probs if self.loss.sampler_weight_cap else None,
            normalizer=normalizer,
            config=self.loss,
        )
        positions = packing.num_positions(rollouts.tokens, rows)
        metrics['positions'] = jnp.float32(positions)
        return loss, (metrics, current)

    def loss_mask(self, rollouts: Rollouts) -> Bool[Array, 'P N T']:
        """Which tokens are trained; DAPO's overlong filtering leaves some out.

        The verdict on a response that the limit cut off says little of its tokens. It
        still counts in its group's advantages, but in no sum and no normalizer.
        """
        mask = response_mask(rollouts)
        if self.loss.mask_truncated:
            mask &= rollouts.stopped[..., None]
        return mask


def make_train_step(
    policy: Policy,
    optimizer: optax.GradientTransformation,
    mesh: Mesh,
    *,
    loss: LossConfig,
    temperature: float,
    num_updates: int,
    num_micro_batches: int,
    pack_sizes: int = 0,
) -> Callable[..., tuple[TrainState, Metrics]]:
    """Makes the jitted ``train_step(state, rollouts, advantages, ref_params)``.

    Args:
        policy: the policy.
        optimizer: from :func:`make_optimizer`.
        mesh: the mesh; the state's shardings are pinned, so nothing compiles twice.
        loss: the loss's settings.
        temperature: that of the rollouts.
        num_updates: mini-batches a step.
        num_micro_batches: forward and backward passes a mini-batch.
        pack_sizes: sizes of a packed micro-batch that are compiled (see packing.py);
            0: a response has a row of its own.

    Returns:
        A function of the state (donated), the rollouts, the advantages ``[P, N]``
        and the reference parameters (``None`` when ``loss.kl_coef == 0``), which
        returns the next state and metrics. ``loss``, ``policy_loss`` and ``grad_norm``
        are means over the step's updates; ``padding`` and the sampler's gaps
        (:func:`mismatch`) are of all responses; the others, such as ``entropy``, are
        means over the tokens that were trained, of all updates together: 0 if there
        were none. Two name the culprit of a loss that is not finite:
        ``problem_loss [P]`` and ``finite_updates``, a bool an update (mini-batch u has
        the problems u::U).

    Raises:
        ValueError: the policy's attention cannot read packed rows.
    """
    if pack_sizes and policy.arch.attention not in PACKING:
        raise InputError(
            f'train.{pack_sizes=} packs responses, which attention '
            f'{policy.arch.attention!r} cannot read; those that can are {PACKING}'
        )
    learner = _Learner(
        policy=policy,
        optimizer=optimizer,
        loss=loss,
        temperature=temperature,
        num_updates=num_updates,
        num_micro_batches=num_micro_batches,
        pack_sizes=pack_sizes,
    )
    shardings = jax.tree.map(
        lambda x: x.sharding, state_shapes(policy, optimizer, mesh)
    )
    return jax.jit(
        learner.train_step, donate_argnums=0, out_shardings=(shardings, None)
    )


def response_mask(rollouts: Rollouts) -> Bool[Array, 'P N T']:
    """Which positions hold response tokens: from lengths, never from ids."""
    return jnp.arange(rollouts.tokens.shape[-1]) < rollouts.lengths[..., None]


def mismatch(rollouts: Rollouts, old_log_probs: Float[Array, 'P N T']) -> Metrics:
    """How far the sampler's log-probabilities are from the learner's own.

    Of all response tokens, those that :meth:`_Learner.loss_mask` leaves out too.
    """
    mask = response_mask(rollouts)
    gap = jnp.where(mask, rollouts.untruncated_log_probs - old_log_probs, 0.0)
    # The sampler drew the tokens: k3 is unbiased for KL(sampler || learner).
    return {
        'sampler_gap_mean': masked_mean(jnp.abs(gap), mask),
        'sampler_gap_max': masked_max(jnp.abs(gap), mask),
        'sampler_k3': masked_mean(jnp.expm1(-gap) + gap, mask),
    }
