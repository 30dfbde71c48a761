"""Meshes for a number of devices, the nearest to the present one first."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from jax.sharding import AbstractMesh

from passk_jax.config import MeshConfig
from passk_jax.errors import InputError
from passk_jax.planning import fits
from passk_jax.planning.builder import Builder, abstract_mesh
from passk_jax.planning.remedies import Overrides
from passk_jax.planning.topologies import Topology


def other_meshes(
    builder: Builder, *, num_devices: int | None = None, data: int | None = None
) -> list[Overrides]:
    """Every other mesh that repeats no work, the nearest first.

    It divides the prompts and the rollouts of a step and the heads of keys. If it does
    not divide the prompts of a pass, a pass becomes one prompt a device.

    Args:
        builder: with the present mesh.
        num_devices: of the mesh; as many as now by default.
        data: replicas, ``mesh.data``; as many as now by default.
    """
    now = builder.mesh.shape
    data = data or now['data']
    count = num_devices or math.prod(now.values())
    meshes_found = []
    for fsdp, rollout, tensor in _products(count // data):
        sizes = {'data': data, 'fsdp': fsdp, 'rollout': rollout, 'tensor': tensor}
        overrides = {f'mesh.{x}': n for x, n in sizes.items() if n != now[x]}
        batch = _pass(builder, data * fsdp)
        heads = builder.policy.arch.num_kv_heads
        rollouts = builder.train.micro_batch_rollouts or builder.sampling.num_rollouts
        if not overrides or not batch or rollouts % rollout or heads % tensor:
            continue
        if batch != builder.train.micro_batch_prompts:
            overrides['train.micro_batch_prompts'] = batch
        # Traffic in every layer is what costs most.
        more = max(1, tensor / now['tensor'])
        steps = sum(abs(math.log2(sizes[x] / now[x])) for x in sizes)
        meshes_found.append((more, steps, fsdp, overrides))
    return [
        overrides
        for *_, overrides in sorted(meshes_found, key=lambda candidate: candidate[:3])
    ]


def _products(count: int) -> Iterator[tuple[int, int, int]]:
    """All ways to write a number as a product of three."""
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    for a in divisors:
        for b in divisors:
            if count % (a * b) == 0:
                yield a, b, count // (a * b)


def _pass(builder: Builder, shares: int) -> int:
    """Prompts of a pass on so many shares of the batch; 0: they divide no batch."""
    train = builder.train
    if train.micro_batch_prompts % shares == 0:
        return train.micro_batch_prompts
    return 0 if train.mini_batch_prompts % shares else shares


def completed(config: MeshConfig, num_devices: int) -> AbstractMesh:
    """The configuration's mesh, whose size may differ from the number of devices.

    Args:
        config: the mesh; an axis of -1 takes the devices that are left, or one.
        num_devices: devices of the topology.
    """
    sizes = dataclasses.asdict(config)
    used_devices = math.prod(size for size in sizes.values() if size != -1)
    free_devices = max(1, num_devices // used_devices)
    return abstract_mesh({x: free_devices if n == -1 else n for x, n in sizes.items()})


def first_mesh(builder: Builder, names: Sequence[str], topology: Topology) -> Overrides:
    """The changes that make a configuration's mesh one of a topology's devices.

    They make the nearest mesh on which the programs fit by shapes; else the nearest on
    which what a device holds before they run fits; else the nearest of all.

    Args:
        builder: of the configuration.
        names: of the programs.
        topology: the devices.

    Raises:
        InputError: no mesh of them divides the batches.
    """
    count, slices = topology.num_devices, topology.slices
    data = builder.mesh.shape['data']
    if builder.mesh.size == count and data % slices == 0:
        return {}
    if data % slices or count % data:
        data = slices
    meshes_found = other_meshes(builder, num_devices=count, data=data)
    if not meshes_found:
        raise InputError(
            f'no mesh of {count} devices divides the prompts of an update '
            f'({builder.train.mini_batch_prompts}), the rollouts of a pass and the '
            f'heads of keys ({builder.policy.arch.num_kv_heads})'
        )

    def fit(overrides: Overrides, needed: Callable[[Builder, str], float]) -> bool:
        other = builder.changed(overrides)
        return all(needed(other, name) <= topology.chip.memory for name in names)

    before = (overrides for overrides in meshes_found if fit(overrides, fits.held_by))
    by_shapes = (
        overrides for overrides in meshes_found if fit(overrides, fits.by_shapes)
    )
    return next(itertools.chain(by_shapes, before, meshes_found))
