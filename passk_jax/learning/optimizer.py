"""The optimizer: AdamW or SGD, gradient clipping and the learning-rate schedule."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import optax
from jax import numpy as jnp
from jax.typing import ArrayLike

from passk_jax.config import OptimizerConfig
from passk_jax.errors import InputError
from passk_jax.models.lora import A, B
from passk_jax.models.policy import Params


class Optimizer(NamedTuple):
    """An ``optax.GradientTransformation`` with its learning rate.

    Attributes:
        init, update: as in optax.
        learning_rate: maps the number of earlier updates to an update's rate.
    """

    init: optax.TransformInitFn
    update: optax.TransformUpdateFn
    learning_rate: Callable[[ArrayLike], jax.Array]


def make_optimizer(config: OptimizerConfig, *, num_updates: int = 0) -> Optimizer:
    """Makes the optimizer: it clips the gradient's global norm and warms up the rate.

    Update u, counted from 1, has the rate ``learning_rate * min(1, u / w)`` with ``w =
    max(1, warmup_updates)``. After the warm-up the schedule multiplies it by ``1 - x``
    (linear) or ``(1 + cos(pi x)) / 2`` (cosine), where ``x = (u - w) / (num_updates + 1
    - w)``. So neither the first nor the last update has a rate of zero.

    Moments are float32: in bfloat16, a second moment would not fall with ``b2=0.999``.

    Args:
        config: the settings.
        num_updates: updates of the whole run; a constant rate does not need it.

    Raises:
        ValueError: the rate falls, but ``num_updates`` is 0.
    """
    schedule = config.schedule
    if schedule == 'constant':
        num_updates = 0
    elif num_updates < 1:
        raise InputError(f"{schedule=} needs the run's updates, not {num_updates=}")
    return _optimizer(config, num_updates)


def updates_made(opt_state: optax.OptState) -> jax.Array:
    """Returns how many updates an optimizer's state has seen, int32."""
    # Adam and the schedule have equal counts.
    return optax.tree_utils.tree_get_all_with_path(opt_state, 'count')[0][1]


# Programs are cached by optimizer, so equal settings must return the same object.
@functools.lru_cache(maxsize=16)
def _optimizer(config: OptimizerConfig, num_updates: int) -> Optimizer:
    schedule, warmup = config.schedule, max(1, config.warmup_updates)

    def rate(count: ArrayLike) -> jax.Array:
        rate = config.learning_rate * jnp.minimum(1.0, (count + 1) / warmup)
        if schedule == 'constant':
            return rate
        x = (count + 1 - warmup) / max(1, num_updates + 1 - warmup)
        x = jnp.clip(x, 0.0, 1.0)
        return rate * (1 - x if schedule == 'linear' else (1 + jnp.cos(jnp.pi * x)) / 2)

    decay = {'weight_decay': config.weight_decay, 'mask': _decayed}
    if config.name == 'adamw':
        transform = optax.adamw(
            rate, b1=config.b1, b2=config.b2, eps=config.eps, **decay
        )
    else:
        transform = optax.chain(optax.add_decayed_weights(**decay), optax.sgd(rate))
    if config.max_grad_norm:
        clip = optax.clip_by_global_norm(config.max_grad_norm)
        transform = optax.chain(clip, transform)

    def init(params: optax.Params) -> optax.OptState:
        return transform.init(optax.tree.cast(params, jnp.float32))

    return Optimizer(init, transform.update, rate)


def _decayed(params: Params) -> dict[str, bool]:
    """Marks the matrices: norms and biases have no weight decay."""
    matrices = 'kernel', 'embedding', A, B
    return {name: name.endswith(matrices) for name in params}
