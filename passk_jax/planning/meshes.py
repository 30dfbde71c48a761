"""Finds meshes for a number of devices, those nearest to the present mesh first."""

import itertools
import math
from collections.abc import Iterable, Sequence

from jax.sharding import AbstractMesh

from passk_jax.config import MeshConfig
from passk_jax.errors import InputError
from passk_jax.models import decode_mesh
from passk_jax.planning import fits
from passk_jax.planning.builder import Builder, abstract_mesh
from passk_jax.planning.remedies import Overrides
from passk_jax.planning.topologies import Topology


def other_meshes(
    builder: Builder,
    *,
    num_devices: int | None = None,
    data: int | None = None,
    decode_tensor: int | None = None,
) -> list[Overrides]:
    """Lists the changes to every other mesh that repeats no work, the nearest first.

    Such a mesh divides the prompts of an update, the rollouts of a pass and the
    key/value heads. If it does not divide the prompts of a pass, a pass becomes one
    prompt per device. If ``decode_tensor`` does not fit it, sampling uses the same
    mesh. By default, devices, replicas (``data``) and ``decode_tensor`` are as now.
    """
    now = builder.mesh.shape
    data = data or now['data']
    preferred = builder.decode_tensor if decode_tensor is None else decode_tensor
    count = num_devices or math.prod(now.values())
    train, heads = builder.train, _divisors(builder.policy.arch.num_kv_heads)
    meshes = []
    for rollout, tensor in itertools.product(_divisors(builder.pass_rollouts), heads):
        fsdp, remainder = divmod(count, data * rollout * tensor)
        sizes = {'data': data, 'fsdp': fsdp, 'rollout': rollout, 'tensor': tensor}
        overrides = {f'mesh.{x}': n for x, n in sizes.items() if n != now[x]}
        if remainder or not overrides or train.mini_batch_prompts % (data * fsdp):
            continue
        fitting = preferred if preferred in _decode_sizes(builder, sizes) else 0
        if fitting != builder.decode_tensor:
            overrides['mesh.decode_tensor'] = fitting
        if train.micro_batch_prompts % (data * fsdp):
            overrides['train.micro_batch_prompts'] = data * fsdp
        # A larger 'tensor' comes last: its traffic in every layer costs most.
        more = max(1, tensor / now['tensor'])
        steps = sum(abs(math.log2(sizes[x] / now[x])) for x in sizes)
        meshes.append((more, steps, fsdp, overrides))
    return [overrides for *_, overrides in sorted(meshes, key=lambda mesh: mesh[:3])]


def _decode_sizes(builder: Builder, sizes: dict[str, int]) -> Iterable[int]:
    heads = builder.policy.arch.num_kv_heads
    return decode_mesh.sizes(abstract_mesh(sizes), num_kv_heads=heads)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def completed(config: MeshConfig, num_devices: int) -> AbstractMesh:
    """Makes the configuration's mesh, whose size may differ from ``num_devices``.

    An axis of -1 takes the remaining devices, at least one.
    """
    sizes = config.sizes
    used_devices = math.prod(size for size in sizes.values() if size != -1)
    free_devices = max(1, num_devices // used_devices)
    return abstract_mesh({x: free_devices if n == -1 else n for x, n in sizes.items()})


def first_mesh(builder: Builder, names: Sequence[str], topology: Topology) -> Overrides:
    """Returns the changes that adapt a configuration's mesh to a topology's devices.

    These lead to the nearest mesh on which the programs fit, by shapes; else to the
    nearest on which their arguments fit; else to the nearest of all.

    Raises:
        InputError: no mesh of the devices divides the batches.
    """
    count, slices = topology.num_devices, topology.slices
    data = builder.mesh.shape['data']
    if builder.mesh.size == count and data % slices == 0:
        return {}
    if data % slices or count % data:
        data = slices
    meshes = other_meshes(builder, num_devices=count, data=data)
    if not meshes:
        raise InputError(
            f'no mesh of {count} devices divides the prompts of an update '
            f'({builder.train.mini_batch_prompts}), the rollouts of a pass and the '
            f'key/value heads ({builder.policy.arch.num_kv_heads}): change these or '
            'take another topology'
        )
    for count_bytes in (fits.count_bytes, fits.count_initial_bytes):
        for overrides in meshes:
            other = builder.changed(overrides)
            if all(count_bytes(other, x) <= topology.chip.memory for x in names):
                return overrides
    return meshes[0]
