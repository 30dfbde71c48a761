"""The device mesh, and the logical axes that hide it from other modules.

Arrays name their axes by meaning (``'embed'``, ``'heads'``, ``'batch'``), and
:data:`RULES` maps these to mesh axes. Model code calls :func:`shard` on activations and
names the axes of parameters; only this module knows the mesh. The mesh has Auto axes,
so XLA propagates the remaining shardings. (Explicit axes reject embedding gathers and
``[P * N] -> [P, N]``.)
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from passk_jax.errors import InputError

AnyMesh = Mesh | AbstractMesh
"""An abstract mesh has no devices; it is enough for shapes and shardings."""

MESH_AXES = ('data', 'fsdp', 'rollout', 'tensor')

# Logical axis -> mesh axes. An array axis that these do not divide is replicated.
RULES: Mapping[str, tuple[str, ...]] = {
    # The P problems, and the N rollouts of each.
    'batch': ('data', 'fsdp'),
    'rollouts': ('rollout',),
    # Prompts have no rollouts, so their tokens use the mesh axis of the rollouts.
    'prompt_tokens': ('rollout',),
    # Tokens between two layers, where nothing mixes tokens and 'tensor' is free.
    'prompt_residual': ('rollout', 'tensor'),
    'response_residual': ('tensor',),
    # Master parameters are split over 'fsdp' and 'tensor'; a step's working copy (see
    # :func:`gathered`) over 'tensor' alone.
    'embed': ('fsdp',),
    'vocab': ('tensor',),
    'heads': ('tensor',),
    'kv_heads': ('tensor',),
    'mlp': ('tensor',),
    'experts': ('tensor',),
}


def make_mesh(
    *, data: int, fsdp: int, rollout: int, tensor: int, devices: list[Any] | None = None
) -> Mesh:
    """Makes the mesh ``(data, fsdp, rollout, tensor)``.

    One size may be -1: it uses all remaining devices. Several TPU slices share only
    'data', which needs the network least.

    Args:
        data: replicas that each take a share of the prompts.
        fsdp: shards of the parameters, which also share the prompts.
        rollout: replicas that share the rollouts of each prompt.
        tensor: shards of the heads, the MLP and the vocabulary.
        devices: the devices; ``None`` uses all.

    Raises:
        InputError: a size is invalid, their product is not the number of devices, or
            'data' is not a multiple of the slices.
    """
    devices = jax.devices() if devices is None else devices
    sizes = {'data': data, 'fsdp': fsdp, 'rollout': rollout, 'tensor': tensor}
    requested = dict(sizes)
    free = [axis for axis, size in sizes.items() if size == -1]
    fixed = math.prod(size for size in sizes.values() if size != -1)
    if len(free) > 1 or fixed < 1 or any(size < -1 for size in sizes.values()):
        raise InputError(f'mesh {sizes} must be positive sizes and at most one -1')
    if free:
        sizes[free[0]] = len(devices) // fixed
    if math.prod(sizes.values()) != len(devices):
        raise InputError(f'mesh {requested} does not fit {len(devices)} devices')
    grid = _grid(tuple(sizes.values()), devices)
    return Mesh(grid, MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES))


def _grid(sizes: tuple[int, ...], devices: list[Any]) -> np.ndarray:
    """Places neighbours of the physical torus next to each other, slice by slice."""
    # On GPUs, slice_index may count hosts.
    tpus = [x for x in devices if x.platform == 'tpu']
    slices = len({getattr(x, 'slice_index', 0) for x in tpus}) or 1
    split = {'allow_split_physical_axes': True}
    if slices == 1:
        return mesh_utils.create_device_mesh(sizes, devices, **split)
    data, *inner = sizes
    if data % slices:
        raise InputError(f'mesh data={data} must be a multiple of the {slices} slices')
    return mesh_utils.create_hybrid_device_mesh(
        (data // slices, *inner), (slices, 1, 1, 1), devices, **split
    )


def warn_of_repeated_work(
    mesh: Mesh, *, place: str = 'mesh.{}', **batches: Mapping[str, int]
) -> None:
    """Warns of batches that the mesh does not divide: every device computes them fully.

    Args:
        mesh: the device mesh.
        place: how the message names a mesh axis; ``{}`` stands for the axis.
        **batches: logical axis -> name of each batch and its size along that axis.
    """
    for axis, sizes in batches.items():
        mesh_axes = RULES[axis]
        shares = math.prod(mesh.shape[mesh_axis] for mesh_axis in mesh_axes)
        unsplit = [f'{key}={size}' for key, size in sizes.items() if size % shares]
        if unsplit:
            logging.warning(
                '%s = %d divides none of these batches, so each of these devices '
                'computes all of them (correct, but %d times the work): %s. '
                'Multiples of %d are shared',
                ' x '.join(map(place.format, mesh_axes)),
                shares,
                shares,
                ', '.join(unsplit),
                shares,
            )


@functools.cache
def one_device_mesh(device: jax.Device) -> Mesh:
    """Makes a mesh for work of a single process, beside any shared mesh."""
    return make_mesh(data=1, fsdp=1, rollout=1, tensor=1, devices=[device])


def partition_spec(
    axes: tuple[str | None, ...], shape: tuple[int, ...], mesh_shape: Mapping[str, int]
) -> PartitionSpec:
    """Converts logical axes to a PartitionSpec for an array of this shape.

    Args:
        axes: the logical name of each dimension; ``None`` is never split.
        shape: the global shape.
        mesh_shape: mesh axis -> number of devices along it.

    Returns:
        The spec; a dimension that its mesh axes do not divide is replicated.

    Raises:
        InputError: an axis is unknown, or the number of names is not the rank.
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
    """Returns the axes of a parameter's working copy, which matrix products read."""
    return tuple(None if axis == 'embed' else axis for axis in axes)


def count_shards(mesh: AnyMesh, axis: str) -> int:
    """Counts the parts into which a mesh splits a logical axis."""
    return math.prod(mesh.shape[a] for a in RULES[axis])


def mesh_shards(axis: str) -> int:
    """Counts the parts into which the mesh of ``jax.set_mesh`` splits a logical axis.

    1 without a mesh.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if mesh.empty else count_shards(mesh, axis)


def num_shards(axis: str, size: int) -> int:
    """Counts the parts of a logical axis of this size; 1 if they would be unequal."""
    return mesh_shards(axis) if divides(axis, size) else 1


def divides(axis: str, size: int) -> bool:
    """Returns whether the mesh divides a logical axis of this size."""
    return size % mesh_shards(axis) == 0


def num_cores() -> int:
    """Counts the TensorCores of a TPU under ``jax.set_mesh``; 1 for other devices."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    if device is None or 'TPU' not in device.device_kind:
        return 1
    return device.num_cores or 1


def local_size(axis: str, size: int) -> int:
    """Returns a device's share of a logical axis of this size."""
    return size // num_shards(axis, size)


def on_each_device(
    fn: Callable[..., jax.Array],
    arrays: tuple[jax.Array, ...],
    axes: tuple[tuple[str | None, ...], ...],
    out_axes: tuple[str | None, ...],
) -> jax.Array:
    """Runs ``fn``, such as a kernel, on each device's part of the arrays.

    Args:
        fn: takes the parts, and does not communicate with other devices.
        arrays: the global arrays.
        axes: the logical axes of each array.
        out_axes: logical axes of the result, which has the first array's shape.
    """
    pairs = zip(axes, arrays, strict=True)
    specs = tuple(spec_of(names, x.shape) for names, x in pairs)
    out = spec_of(out_axes, arrays[0].shape)
    return on_devices(fn, specs, out)(*arrays)


def on_devices(fn: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
    """Wraps ``fn``, which may communicate, to run on each device's parts of trees.

    Args:
        fn: takes the parts; on a single device, the whole arrays.
        in_specs, out_specs: trees of PartitionSpecs, from :func:`spec_of`.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return fn
    specs = {'in_specs': in_specs, 'out_specs': out_specs}
    return jax.shard_map(fn, **specs, check_vma=False)


def spec_of(axes: tuple[str | None, ...], shape: tuple[int, ...]) -> PartitionSpec:
    """Returns :func:`partition_spec` for the current mesh; no splits without a mesh."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return PartitionSpec(*(None for _ in shape))
    return partition_spec(axes, shape, mesh.shape)


def mesh_axes(axis: str, size: int) -> tuple[str, ...]:
    """Returns the mesh axes that split a logical axis of this size."""
    return RULES[axis] if num_shards(axis, size) > 1 else ()


def num_devices(mesh_axes: tuple[str, ...]) -> int:
    """Counts the devices along these axes under ``jax.set_mesh``."""
    shape = jax.sharding.get_abstract_mesh().shape
    return math.prod(shape[axis] for axis in mesh_axes)


def sum_over_shards(parts: jax.Array, axes: tuple[str | None, ...]) -> jax.Array:
    """Sums the arrays of all shards; splits the result like a master parameter.

    This is an explicit reduce-scatter. XLA would sum the global arrays on every device
    and then keep a part, which doubles the traffic.

    Args:
        parts: ``[G, K, ...]``, one array per shard of the batch and of the rollouts.
        axes: the logical axes of the sum. Only ``'embed'`` is scattered.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return parts.sum((0, 1))
    names = ('batch', 'rollouts', *gathered(axes))
    spec = partition_spec(names, parts.shape, mesh.shape)
    out = partition_spec(axes, parts.shape[2:], mesh.shape)
    summed = axes_of(spec[0]) + axes_of(spec[1])
    embed = axes.index('embed') if 'embed' in axes else -1
    scattered = axes_of(out[embed]) if embed >= 0 else ()
    if not set(scattered) <= set(summed):
        # All these devices hold the same sum: the batch is not split over them.
        scattered, out = (), partition_spec(gathered(axes), parts.shape[2:], mesh.shape)

    def local(part: jax.Array) -> jax.Array:
        part = part.sum((0, 1))
        if scattered:
            part = jax.lax.psum_scatter(
                part, scattered, scatter_dimension=embed, tiled=True
            )
        unscattered = tuple(axis for axis in summed if axis not in scattered)
        return jax.lax.psum(part, unscattered) if unscattered else part

    run = jax.shard_map(local, in_specs=spec, out_specs=out, check_vma=False)
    return shard(run(parts), *axes)


def axes_of(part: Any) -> tuple[str, ...]:
    """Returns the mesh axes in one entry of a PartitionSpec."""
    return () if part is None else (part,) if isinstance(part, str) else tuple(part)


def replicated(mesh: AnyMesh) -> NamedSharding:
    """Returns the sharding of an array that every device holds in full."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: AnyMesh, tree: Any, *axes: str) -> Any:
    """Returns shardings that split every leaf's first axes, by default ``'batch'``."""
    first = axes or ('batch',)

    def shard_leaf(x: Any) -> NamedSharding:
        axes = (*first, *(None,) * x.ndim)[: x.ndim]
        return NamedSharding(mesh, partition_spec(axes, x.shape, mesh.shape))

    return jax.tree.map(shard_leaf, tree)


def place(mesh: Mesh, tree: Any) -> Any:
    """Puts host arrays on a mesh of one or several hosts, by :func:`batch_sharding`."""
    return jax.tree.map(
        lambda x, s: jax.make_array_from_callback(x.shape, s, lambda i: x[i]),
        tree,
        batch_sharding(mesh, tree),
    )


def tree_sharding(
    mesh: AnyMesh, tree: Any, axes_of: Callable[[str], tuple[str | None, ...]]
) -> Any:
    """Returns shardings for a tree, by the path of each leaf.

    Args:
        mesh: the mesh.
        tree: arrays or ``ShapeDtypeStruct``; scalars are replicated.
        axes_of: maps a path (``'layers.0.attention.query.kernel'``) to logical axes;
            not called for scalars.
    """

    def leaf_sharding(path: Any, leaf: Any) -> NamedSharding:
        if not leaf.ndim:
            return replicated(mesh)
        axes = axes_of(jax.tree_util.keystr(path, simple=True, separator='.'))
        return NamedSharding(mesh, partition_spec(axes, leaf.shape, mesh.shape))

    return jax.tree_util.tree_map_with_path(leaf_sharding, tree)
