"""The learner: optimizer, training state, and the step that makes updates of rollouts.

One call of the train step is one rollout batch:

1. *score*: the learner's own log-probabilities of the responses, before any update:
   ``old_log_probs`` (the sampler's are another thing and never used in the ratio).
   With one update a step they are the ones being differentiated, and nothing is run;
2. *update* for each mini-batch of prompts: gradients summed over its micro-batches,
   then one optimizer step.

The loss divides by the tokens (or sequences) of the whole mini-batch, counted before
it is cut up, so micro-batches, padding and mesh cannot change it. Mini-batch u takes
the prompts ``u, u + U, u + 2U ...``: each device keeps its own prompts.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import optax
from jax import numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float

from passk_jax import losses, sharding
from passk_jax.config import LossConfig, OptimizerConfig
from passk_jax.masked import masked_max, masked_mean
from passk_jax.models import policy as policies
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

    ``old_log_probs`` is ``None`` if the current ones are the old ones: two programs
    differ in the last bit, and the ratio of the only update must be exactly 1.
    """

    rollouts: Rollouts
    advantages: Float[Array, 'P N']
    old_log_probs: Float[Array, 'P N T'] | None
    ref_log_probs: Float[Array, 'P N T'] | None


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

    def train_step(
        self,
        state: TrainState,
        rollouts: Rollouts,
        advantages: Float[Array, 'P N'],
        ref_params: Params | None,
    ) -> tuple[TrainState, Metrics]:
        """Scores the responses, then makes every update of the step."""
        with jax.named_scope('score'):
            once = self.num_updates == 1
            old = None if once else self.score(state.params, rollouts)
            ref = None if ref_params is None else self.score(ref_params, rollouts)
        batch = _Batch(rollouts, advantages, old, ref)
        (params, opt_state), (metrics, by_prompt) = jax.lax.scan(
            self.update,
            (state.params, state.opt_state),
            interleave(batch, self.num_updates),
        )
        finite = jnp.isfinite(metrics['loss']) & jnp.isfinite(metrics['grad_norm'])
        metrics = jax.tree.map(lambda x: x.mean(axis=0), metrics)
        problem_loss, log_probs = deinterleave(by_prompt)
        metrics |= mismatch(rollouts, log_probs if once else old)
        metrics |= {'problem_loss': problem_loss, 'finite_updates': finite}
        return TrainState(params, opt_state, state.step + 1), metrics

    def score(self, params: Params, rollouts: Rollouts) -> Float[Array, 'P N T']:
        """Log-probabilities of the responses, a micro-batch at a time."""
        parts = interleave(rollouts, self.num_updates * self.num_micro_batches)
        return deinterleave(
            jax.lax.map(lambda part: self.log_probs(params, part)[0], parts)
        )

    def log_probs(
        self, params: Params, rollouts: Rollouts
    ) -> tuple[Float[Array, 'P N T'], Float[Array, 'P N T']]:
        """Log-probabilities and entropies of the responses."""
        return policies.token_log_probs(
            self.policy,
            params,
            rollouts.prompts,
            rollouts.tokens,
            temperature=self.temperature,
        )

    def update(
        self, carry: tuple[Params, optax.OptState], batch: _Batch
    ) -> tuple[tuple[Params, optax.OptState], tuple[Metrics, tuple[jax.Array, ...]]]:
        """One optimizer step on a mini-batch; its metrics, and what is by prompt."""
        params, opt_state = carry
        mask = response_mask(batch.rollouts)
        normalizer = losses.normalizer(mask, aggregation=self.loss.aggregation)

        def accumulate(total: Params, part: _Batch) -> tuple[Params, Any]:
            grad = jax.grad(self.micro_loss, has_aux=True)
            grads, seen = grad(params, part, normalizer)
            return jax.tree.map(jnp.add, total, grads), seen

        with jax.named_scope('gradients'):
            zeros = jax.tree.map(jnp.zeros_like, params)
            parts = interleave(batch, self.num_micro_batches)
            grads, (metrics, log_probs) = jax.lax.scan(accumulate, zeros, parts)
        with jax.named_scope('optimizer'):
            steps, opt_state = self.optimizer.update(grads, opt_state, params)
            params = optax.apply_updates(params, steps)
        by_prompt = deinterleave((metrics.pop('problem_loss'), log_probs))
        metrics = losses.finish_metrics(metrics, mask)
        metrics['grad_norm'] = optax.tree.norm(grads)
        return (params, opt_state), (metrics, by_prompt)

    def micro_loss(
        self, params: Params, batch: _Batch, normalizer: jax.Array
    ) -> tuple[jax.Array, tuple[Metrics, jax.Array]]:
        """A micro-batch's share of the loss of its mini-batch."""
        log_probs, entropies = self.log_probs(params, batch.rollouts)
        current = jax.lax.stop_gradient(log_probs)
        loss, metrics = losses.total_loss(
            log_probs,
            entropies,
            current if batch.old_log_probs is None else batch.old_log_probs,
            batch.ref_log_probs,
            batch.advantages,
            response_mask(batch.rollouts),
            normalizer=normalizer,
            config=self.loss,
        )
        return loss, (metrics, current)


def make_train_step(
    policy: Policy,
    optimizer: optax.GradientTransformation,
    mesh: Mesh,
    *,
    loss: LossConfig,
    temperature: float,
    num_updates: int,
    num_micro_batches: int,
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

    Returns:
        A function of the state (donated), the rollouts, the advantages ``[P, N]``
        and the reference parameters (``None`` when ``loss.kl_coef == 0``), which
        returns the next state and metrics: means over the step's updates, and two
        that name the culprit of a loss that is not finite: ``problem_loss [P]`` and
        ``finite_updates``, a bool an update (mini-batch u has the problems u::U).
    """
    learner = _Learner(
        policy, optimizer, loss, temperature, num_updates, num_micro_batches
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
    """How far the sampler's log-probabilities are from the learner's own."""
    mask = response_mask(rollouts)
    gap = jnp.abs(rollouts.untruncated_log_probs - old_log_probs)
    return {
        'sampler_gap_mean': masked_mean(gap, mask),
        'sampler_gap_max': masked_max(gap, mask),
    }


def interleave(tree: Any, parts: int) -> Any:
    """``[P, ...] -> [parts, P / parts, ...]``; part i takes rows i, i + parts, ..."""
    return jax.tree.map(
        lambda x: x.reshape(-1, parts, *x.shape[1:]).swapaxes(0, 1), tree
    )


def deinterleave(tree: Any) -> Any:
    """The inverse of :func:`interleave`."""
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), tree)
