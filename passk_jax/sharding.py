"""The device mesh, and logical axis names in place of device axes.

Arrays name their axes by what they mean (``'embed'``, ``'heads'``, ``'batch'``);
:data:`RULES` says over which mesh axes each is split. Model code calls
:func:`shard` on activations and declares names for parameters; only this module
knows the mesh. The mesh has Auto axes: XLA propagates what the constraints leave
open (Explicit axes reject embedding gathers and ``[P * N] -> [P, N]``).
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from passk_jax.errors import InputError

MESH_AXES = ('data', 'fsdp', 'rollout', 'tensor')

# Logical axis -> mesh axes. An axis that does not divide is replicated.
RULES: Mapping[str, tuple[str, ...]] = {
    # The P problems, and the N rollouts of each.
    'batch': ('data', 'fsdp'),
    'rollouts': ('rollout',),
    # A prompt has no rollouts to split: its tokens are split in their place.
    'prompt_tokens': ('rollout',),
    # Tokens between two layers, where nothing looks across them and 'tensor' is free:
    # of a prompt, and of a response.
    'prompt_residual': ('rollout', 'tensor'),
    'response_residual': ('tensor',),
    # Parameters: masters are split over 'fsdp' and 'tensor', a step's working copy (see
    # :func:`gathered`) over 'tensor' alone.
    'embed': ('fsdp',),
    'vocab': ('tensor',),
    'heads': ('tensor',),
    'kv_heads': ('tensor',),
    'mlp': ('tensor',),
}


def make_mesh(
    *,
    data: int,
    fsdp: int,
    rollout: int,
    tensor: int,
    devices: list[Any] | None = None,
) -> Mesh:
    """Makes the mesh ``(data, fsdp, rollout, tensor)``.

    Args:
        data: replicas that each see a share of the prompts; -1: what is left.
        fsdp: shards of the parameters, which also share the prompts; or -1.
        rollout: replicas that share the rollouts of a prompt; or -1.
        tensor: shards of heads, MLP and vocabulary; or -1.
        devices: the devices; all of them when ``None``.

    Raises:
        ValueError: the sizes do not multiply to the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    sizes = {'data': data, 'fsdp': fsdp, 'rollout': rollout, 'tensor': tensor}
    asked = dict(sizes)
    free = [axis for axis, size in sizes.items() if size == -1]
    taken = math.prod(size for size in sizes.values() if size != -1)
    if len(free) > 1 or taken < 1 or any(size < -1 for size in sizes.values()):
        raise InputError(f'mesh {sizes} must be positive sizes and at most one -1')
    if free:
        sizes[free[0]] = len(devices) // taken
    if math.prod(sizes.values()) != len(devices):
        raise InputError(f'mesh {asked} does not fit {len(devices)} devices')
    # Neighbours of the physical torus become neighbours in the mesh.
    grid = mesh_utils.create_device_mesh(
        tuple(sizes.values()), devices, allow_split_physical_axes=True
    )
    return Mesh(grid, MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES))


@functools.cache
def one_device_mesh(device: jax.Device) -> Mesh:
    """A mesh for what one process computes by itself, whatever mesh others share."""
    return make_mesh(data=1, fsdp=1, rollout=1, tensor=1, devices=[device])


def partition_spec(
    axes: tuple[str | None, ...], shape: tuple[int, ...], mesh_shape: Mapping[str, int]
) -> PartitionSpec:
    """Turns logical axes into a PartitionSpec for an array of this shape.

    Args:
        axes: the logical name of each dimension; ``None``: never split.
        shape: the global shape.
        mesh_shape: mesh axis -> devices along it.

    Returns:
        The spec; a dimension that its mesh axes do not divide is replicated.

    Raises:
        ValueError: an unknown axis, or not one name a dimension.
    """
    if len(axes) != len(shape):
        raise InputError(f'{axes=} must name each dimension of {shape=}')
    unknown = {axis for axis in axes if axis is not None} - set(RULES)
    if unknown:
        raise InputError(f'unknown logical axes {sorted(unknown)}; have {list(RULES)}')
    parts = []
    for axis, size in zip(axes, shape, strict=True):
        mesh_axes = () if axis is None else RULES[axis]
        splits = math.prod(mesh_shape[name] for name in mesh_axes)
        parts.append(mesh_axes if splits > 1 and size % splits == 0 else None)
    return PartitionSpec(*parts)


def shard(x: jax.Array, *axes: str | None) -> jax.Array:
    """Constrains an activation's layout; does nothing outside ``jax.set_mesh``."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return x
    spec = partition_spec(axes, x.shape, mesh.shape)
    return jax.lax.with_sharding_constraint(x, spec)


def gathered(axes: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Axes of the copy of a parameter that a matrix product reads."""
    return tuple(None if axis == 'embed' else axis for axis in axes)


def num_shards(axis: str, size: int) -> int:
    """How many parts a logical axis of this size has under ``jax.set_mesh``."""
    mesh = jax.sharding.get_abstract_mesh()
    splits = 1 if mesh.empty else math.prod(mesh.shape[a] for a in RULES[axis])
    return 1 if size % splits else splits


def divides(axis: str, size: int) -> bool:
    """Whether a logical axis of this size is split as the rules say."""
    return size % num_shards(axis, 0) == 0


def local_size(axis: str, size: int) -> int:
    """A device's share of a logical axis of this size under ``jax.set_mesh``."""
    return size // num_shards(axis, size)


def on_each_device(
    fn: Callable[..., jax.Array],
    arrays: tuple[jax.Array, ...],
    axes: tuple[tuple[str | None, ...], ...],
    out_axes: tuple[str | None, ...],
) -> jax.Array:
    """Runs ``fn`` on each device's part of the arrays, as a kernel has to be.

    Args:
        fn: of the parts; nothing it does crosses devices.
        arrays: what it takes, whole.
        axes: logical axes of each.
        out_axes: of its result, which is as long as the first array in each of them.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return fn(*arrays)
    specs = tuple(
        partition_spec(names, x.shape, mesh.shape)
        for names, x in zip(axes, arrays, strict=True)
    )
    out = partition_spec(out_axes, arrays[0].shape, mesh.shape)
    return jax.shard_map(fn, in_specs=specs, out_specs=out, check_vma=False)(*arrays)


def sum_over_shards(parts: jax.Array, axes: tuple[str | None, ...]) -> jax.Array:
    """The sum of every shard's own array, split up as a master with these axes is.

    A reduce-scatter, said outright: left to itself XLA sums whole arrays everywhere and
    then cuts its part out, which is twice the traffic.

    Args:
        parts: ``[G, K, ...]``, an array a shard of the batch and of the rollouts.
        axes: logical axes of their sum, ``'embed'`` among them.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return parts.sum((0, 1))
    names = ('batch', 'rollouts', *gathered(axes))
    spec = partition_spec(names, parts.shape, mesh.shape)
    out = partition_spec(axes, parts.shape[2:], mesh.shape)
    summed = _mesh_axes(spec[0]) + _mesh_axes(spec[1])
    embed = axes.index('embed')
    scattered = _mesh_axes(out[embed])
    if not set(scattered) <= set(summed):
        # Devices that share no batch have the same sum, of which each keeps its part.
        scattered, out = (), partition_spec(gathered(axes), parts.shape[2:], mesh.shape)

    def local(part: jax.Array) -> jax.Array:
        part = part.sum((0, 1))
        if scattered:
            part = jax.lax.psum_scatter(
                part, scattered, scatter_dimension=embed, tiled=True
            )
        rest = tuple(axis for axis in summed if axis not in scattered)
        return jax.lax.psum(part, rest) if rest else part

    run = jax.shard_map(local, in_specs=spec, out_specs=out, check_vma=False)
    return shard(run(parts), *axes)


def _mesh_axes(part: Any) -> tuple[str, ...]:
    """The mesh axes in one entry of a PartitionSpec."""
    return () if part is None else (part,) if isinstance(part, str) else tuple(part)


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of an array that every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: Mesh, tree: Any) -> Any:
    """Shardings that split the leading axis of every leaf over the data axes."""
    return jax.tree.map(
        lambda x: NamedSharding(
            mesh,
            partition_spec(('batch', *(None,) * (x.ndim - 1)), x.shape, mesh.shape),
        ),
        tree,
    )


def place(mesh: Mesh, tree: Any) -> Any:
    """Puts host arrays on the mesh, split over the data axes; any number of hosts."""
    return jax.tree.map(
        lambda x, s: jax.make_array_from_callback(x.shape, s, lambda i: x[i]),
        tree,
        batch_sharding(mesh, tree),
    )


def tree_sharding(
    mesh: Mesh, tree: Any, axes_of: Callable[[str], tuple[str | None, ...]]
) -> Any:
    """Shardings for a tree of arrays or shapes, by the path of each leaf.

    Args:
        mesh: the mesh.
        tree: arrays or ``ShapeDtypeStruct``; scalars are replicated.
        axes_of: path (``'layers.0.attention.query.kernel'``) -> logical axes. Only
            called for leaves of rank 1 and more.
    """

    def leaf_sharding(path: Any, leaf: Any) -> NamedSharding:
        if not leaf.ndim:
            return replicated(mesh)
        axes = axes_of(jax.tree_util.keystr(path, simple=True, separator='.'))
        return NamedSharding(mesh, partition_spec(axes, leaf.shape, mesh.shape))

    return jax.tree_util.tree_map_with_path(leaf_sharding, tree)
