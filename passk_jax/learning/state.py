"""The state of training: parameters, optimizer and step counter."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Generic

import jax
import optax
from jax import numpy as jnp
from jax.sharding import NamedSharding

from passk_jax import sharding
from passk_jax.learning.optimizer import Optimizer
from passk_jax.models import policy as policies
from passk_jax.models.frozen import split_weights
from passk_jax.models.policy import Params, Policy
from passk_jax.sharding import AnyMesh
from passk_jax.types import Leaf


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState(Generic[Leaf]):
    """The state that training changes; in a checkpoint, the state before step ``step``.

    Attributes:
        params: the trained parameters in their master dtype; ``Weights.trained``.
        opt_state: optax's state.
        step: int32, the number of steps done.
    """

    params: dict[str, Leaf]
    opt_state: optax.OptState
    step: Leaf


def state_shapes(
    policy: Policy, optimizer: Optimizer, mesh: AnyMesh
) -> TrainState[jax.ShapeDtypeStruct]:
    """Computes shapes and shardings; moments have the layout of their parameters."""
    params = split_weights(policy, policies.param_shapes(policy, mesh)).trained
    opt_state = jax.eval_shape(optimizer.init, params)
    # Paths in optax's trees end with the names of parameters.
    axes_of = functools.partial(policies.param_axes, policy)
    shardings = sharding.tree_sharding(mesh, opt_state, axes_of)
    opt_state = jax.tree.map(
        lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
        opt_state,
        shardings,
    )
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=sharding.replicated(mesh))
    return TrainState(params, opt_state, step)


def state_shardings(
    policy: Policy, optimizer: Optimizer, mesh: AnyMesh
) -> TrainState[NamedSharding]:
    """Returns the sharding of each array of the state."""
    shapes = state_shapes(policy, optimizer, mesh)
    return jax.tree.map(lambda x: x.sharding, shapes)


def init_state(
    policy: Policy, optimizer: Optimizer, params: Params, mesh: AnyMesh
) -> TrainState:
    """Makes the state before step 0; ``params``, on the mesh, are donated."""
    return _init_program(policy, optimizer, mesh)(params)


def reset_optimizer(
    policy: Policy,
    optimizer: Optimizer,
    state: TrainState,
    mesh: AnyMesh,
) -> TrainState:
    """Restarts the optimizer and retains the rest; ``state`` is donated."""
    begun = init_state(policy, optimizer, state.params, mesh)
    return dataclasses.replace(begun, step=state.step)


# Runs of a process share a program if their settings are equal.
@functools.lru_cache(maxsize=16)
def _init_program(
    policy: Policy, optimizer: Optimizer, mesh: AnyMesh
) -> Callable[[Params], TrainState]:
    def init(params: Params) -> TrainState:
        return TrainState(params, optimizer.init(params), jnp.int32(0))

    shardings = state_shardings(policy, optimizer, mesh)
    return jax.jit(init, donate_argnums=0, out_shardings=shardings)
