"""The state that training changes: its shapes, its first value, a new optimizer."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import optax
from jax import numpy as jnp
from jax.sharding import Mesh

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.policy import Params, Policy
from passk_jax.models.weights import Weights


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything that training changes.

    Attributes:
        params: the master parameters, without those that the policy has frozen.
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
    params = Weights.split(policy, policies.param_shapes(policy, mesh)).trained
    opt_state = jax.eval_shape(optimizer.init, params)
    # Paths in optax's trees end with the parameters' names.
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
    policy: Policy, optimizer: optax.GradientTransformation, mesh: Mesh
) -> TrainState:
    """The sharding of each array of the state."""
    shapes = state_shapes(policy, optimizer, mesh)
    return jax.tree.map(lambda x: x.sharding, shapes)


def init_state(
    policy: Policy, optimizer: optax.GradientTransformation, params: Params, mesh: Mesh
) -> TrainState:
    """Makes the state before step 0 on the mesh; takes ownership of ``params``.

    These are ``Weights.trained``.
    """
    return _init_program(policy, optimizer, mesh)(params)


def reset_optimizer(
    policy: Policy,
    optimizer: optax.GradientTransformation,
    state: TrainState,
    mesh: Mesh,
) -> TrainState:
    """The state with a new state of the optimizer."""
    begun = init_state(policy, optimizer, state.params, mesh)
    return dataclasses.replace(state, opt_state=begun.opt_state)


# The runs of a process share one program if their settings are equal.
@functools.lru_cache(maxsize=16)
def _init_program(
    policy: Policy, optimizer: optax.GradientTransformation, mesh: Mesh
) -> Callable[[Params], TrainState]:
    def init(params: Params) -> TrainState:
        return TrainState(params, optimizer.init(params), jnp.int32(0))

    return jax.jit(init, out_shardings=state_shardings(policy, optimizer, mesh))
