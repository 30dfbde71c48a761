"""The weights that sampling reads, from master weights on another mesh.

Sampling may split the devices of training otherwise (``decode_mesh.py``). Each call of
the sampler runs one program that moves the master weights, which are split over most
devices, and then prepares them for decoding. So a device receives only the part that it
reads.
"""

import functools
from collections.abc import Callable

import jax
from jax.sharding import NamedSharding

from passk_jax import sharding
from passk_jax.models import policy as policies
from passk_jax.models.frozen import reads_once
from passk_jax.models.policy import Params, Policy
from passk_jax.models.vision import is_of_tower
from passk_jax.sharding import AnyMesh, shard
from passk_jax.types import Leaf


def weights_of_sampling(policy: Policy, params: Params) -> Params:
    """Returns :func:`policy.decoding_weights` on the mesh of ``jax.set_mesh``.

    Weights on another mesh of the same devices move there, except a frozen tower, which
    has already read the pictures.
    """
    mesh = jax.sharding.get_abstract_mesh()
    shardings = (getattr(x, 'sharding', None) for x in params.values())
    meshes = [x.mesh for x in shardings if isinstance(x, NamedSharding)]
    if mesh.empty or all(x.shape == mesh.shape for x in meshes):
        return policies.decoding_weights(policy, params)
    moving, staying = split(policy, params)
    return move_program(policy, jax.sharding.get_mesh())(moving) | staying


def split(policy: Policy, params: dict[str, Leaf]) -> tuple[dict[str, Leaf], ...]:
    """Splits weights into those that sampling reads, and a frozen tower, if any.

    A frozen tower has read the pictures before sampling.
    """
    staying = {k: x for k, x in params.items() if reads_once(policy) and is_of_tower(k)}
    return {k: x for k, x in params.items() if k not in staying}, staying


@functools.lru_cache(maxsize=64)
def move_program(policy: Policy, mesh: AnyMesh) -> Callable[[Params], Params]:
    """Makes the program that moves weights, from :func:`split`, and prepares them."""

    def move(params: Params) -> Params:
        here = {
            name: shard(x, *policies.param_axes(policy, name))
            for name, x in params.items()
        }
        return policies.prepare_decoding(policy, here)

    def axes_of(name: str) -> tuple[str | None, ...]:
        axes = policies.param_axes(policy, name)
        return axes if is_of_tower(name) else sharding.gathered(axes)

    shapes, _ = split(policy, policies.param_shapes(policy, mesh))
    weights = jax.eval_shape(move, shapes)
    # Without out_shardings, XLA may leave the weights split as on the other mesh.
    return jax.jit(move, out_shardings=sharding.tree_sharding(mesh, weights, axes_of))
