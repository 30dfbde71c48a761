"""The mesh of sampling: the devices of training, perhaps split otherwise.

In sampling, ``mesh.decode_tensor`` devices share the weights, so each reads only a part
for every token. :func:`sizes` lists the possible meshes, and :func:`make` makes one.
"""

from absl import logging
from jax.sharding import AbstractMesh, Mesh

from passk_jax.config import MeshConfig
from passk_jax.errors import InputError
from passk_jax.sharding import AnyMesh


def make(mesh: AnyMesh, tensor: int, *, num_kv_heads: int) -> AnyMesh:
    """Returns the mesh of sampling: the same devices in the same order, other sizes.

    Args:
        mesh: the mesh of training.
        tensor: devices that share the weights; 0: keep the mesh of training.
        num_kv_heads: C; the devices share the keys and values too.

    Raises:
        InputError: no possible mesh has this ``tensor``.
    """
    choices = sizes(mesh, num_kv_heads=num_kv_heads)
    if tensor and tensor not in choices:
        raise InputError(
            f'mesh.decode_tensor={tensor} must be 0 (the mesh of training) or one of '
            f'{[*choices]}: it must divide the {num_kv_heads} key/value heads, and '
            f'rollout x tensor of the mesh {dict(mesh.shape)} or be a multiple of '
            'them, by a factor that divides fsdp'
        )
    axis_sizes = choices[tensor] if tensor else mesh.axis_sizes
    if axis_sizes == mesh.axis_sizes:
        return mesh
    about = {'axis_names': mesh.axis_names, 'axis_types': mesh.axis_types}
    if isinstance(mesh, AbstractMesh):
        return AbstractMesh(axis_sizes, **about)
    return Mesh(mesh.devices.reshape(axis_sizes), **about)


def sizes(mesh: AnyMesh, *, num_kv_heads: int) -> dict[int, tuple[int, ...]]:
    """Lists the sizes of the meshes that :func:`make` may return, by 'tensor'.

    'rollout' gives devices to 'tensor' before 'fsdp' does, because its replicas hold
    the weights that 'tensor' splits. 'data' keeps its devices: it may span slices.
    """
    data, fsdp, rollout, tensor = mesh.axis_sizes
    inner, by_tensor = rollout * tensor, {}
    for size in range(1, num_kv_heads + 1):
        if num_kv_heads % size:
            continue
        if inner % size == 0:
            by_tensor[size] = data, fsdp, inner // size, size
        elif size % inner == 0 and fsdp % (size // inner) == 0:
            by_tensor[size] = data, fsdp * inner // size, 1, size
    return by_tensor


def tensor_on(mesh: AnyMesh, config: MeshConfig, *, num_kv_heads: int) -> int:
    """Returns ``mesh.decode_tensor``, or 0 if an open mesh cannot have it here.

    A mesh is open if an axis other than 'data' is -1. So its runs can be read,
    evaluated and planned on other devices.
    """
    size = config.decode_tensor
    is_open = -1 in (config.fsdp, config.rollout, config.tensor)
    may_be = is_open and size and num_kv_heads % size == 0
    if may_be and size not in sizes(mesh, num_kv_heads=num_kv_heads):
        logging.warning(
            'mesh.decode_tensor=%d has no mesh on these devices: sampling has that of '
            'training, %s',
            *(size, dict(mesh.shape)),
        )
        return 0
    return size
