"""Devices to compile for, by name; they need not be present.

:func:`parse` reads a name (``'v5p:4x4x4'``, two slices ``'2xv5p:4x4x4'``, ``'cpu:8'``,
``'gpu:h100x8'``) and starts no backend. :func:`connect` returns the devices and must be
the first use of a device in the process. TPUs come from the TPU compiler, which needs
no TPU. ``cpu`` devices are virtual devices of this host. A single GPU comes from the
GPU compiler, if installed, which needs no GPU. Other ``gpu`` devices are stand-ins,
enough for shapes and shardings.
"""

import contextlib
import dataclasses
import importlib.util
import math
import os
import re
from typing import Any

import jax
from jax.experimental import topologies

from passk_jax.errors import InputError
from passk_jax.planning import gpu_targets
from passk_jax.planning.chips import CPU, GPUS, TPUS, Chip

# Otherwise libtpu asks a metadata server who the host is; only TPU hosts have one.
_NO_TPU_HOST = {
    'TPU_SKIP_MDS_QUERY': '1',
    'TPU_WORKER_ID': '0',
    'TPU_ACCELERATOR_TYPE': 'v5p-8',
    'TPU_WORKER_HOSTNAMES': 'localhost',
    # Only one process may use a TPU, but any number may compile.
    'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
}


@dataclasses.dataclass(frozen=True)
class Topology:
    """The devices that a name stands for.

    Attributes:
        name, platform: the name, and ``'tpu'``, ``'gpu'`` or ``'cpu'``.
        chip: the kind of its chips.
        shape: the sizes of the torus, in chips; for ``cpu`` and ``gpu`` the number of
            devices.
        slices: the number of tori, which the data centre network connects.
    """

    name: str
    platform: str
    chip: Chip
    shape: tuple[int, ...]
    slices: int = 1

    @property
    def num_chips(self) -> int:
        """Number of chips."""
        return math.prod(self.shape) * self.slices

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return self.num_chips * self.chip.devices

    @property
    def wraps(self) -> tuple[bool, ...]:
        """Whether the ends of each dimension of the torus are neighbours.

        Wraparound links exist if a slice consists of cubes of 4 x 4 x 4 chips or, on a
        pod of 16 x 16, along a dimension of 16 (Austin et al., How to Scale Your Model,
        "How to Think About TPUs", jax-ml.github.io/scaling-book/tpus, 2025).
        """
        if len(self.shape) == 3:
            cubes = all(size % 4 == 0 for size in self.shape)
            return (cubes,) * 3
        return tuple(size == 16 for size in self.shape)

    @property
    def has_compiler(self) -> bool:
        """Whether programs can be compiled for the devices."""
        if self.platform != 'gpu':
            return True
        # For several GPUs, the compiler crashes on cuDNN's attention (jax 0.11.2).
        return self.num_devices == 1 and gpu_targets.has_compiler()


def parse(name: str) -> Topology:
    """Reads the name of a topology.

    Raises:
        InputError: it is not the name of a topology.
    """
    kind, _, topology = name.partition(':')
    slices = re.match(r'([1-9]\d*)x(?=\D)', kind)
    tpu = kind[slices.end() :] if slices else kind
    if tpu in TPUS and re.fullmatch(r'[1-9]\d*(x[1-9]\d*)*', topology):
        shape = tuple(map(int, topology.split('x')))
        if len(shape) == TPUS[tpu].dimensions:
            count = int(slices[1]) if slices else 1
            return Topology(name, 'tpu', TPUS[tpu], shape, count)
    if kind == 'cpu' and re.fullmatch(r'[1-9]\d*', topology):
        return Topology(name, 'cpu', CPU, (int(topology),))
    match = re.fullmatch(r'(\w+?)x([1-9]\d*)', topology)
    if kind == 'gpu' and match and match[1] in GPUS:
        return Topology(name, 'gpu', GPUS[match[1]], (int(match[2]),))
    raise InputError(
        f'topology {name!r} must be one of v4:XxYxZ, v5p:XxYxZ, tpu7x:XxYxZ, v5e:XxY, '
        f'v6e:XxY, each of several slices as 2xv5p:XxYxZ; cpu:COUNT; gpu:KINDxCOUNT '
        f'with KIND of {list(GPUS)}: v5p:4x4x4, gpu:h100x8'
    )


def connect(topology: Topology) -> list[Any]:
    """Returns the devices of a topology.

    Raises:
        InputError: the TPU compiler is not installed, a compiler refuses the topology,
            or the process started with fewer devices.
    """
    # No program runs on the topology's devices.
    jax.config.update('jax_platforms', 'cpu')
    if topology.platform == 'tpu':
        return _tpu_devices(topology)
    if topology.platform == 'gpu' and topology.has_compiler:
        return _gpu_devices(topology)
    count = topology.num_devices
    # A backend that has started keeps its number of devices.
    with contextlib.suppress(RuntimeError):
        jax.config.update('jax_num_cpu_devices', count)
    devices = jax.devices('cpu')
    if len(devices) < count:
        raise InputError(
            f'{topology.name} asks for {count} devices, but this process started '
            f'with {len(devices)}: plan in a new process'
        )
    return devices[:count]


def _gpu_devices(topology: Topology) -> list[Any]:
    try:
        described = topologies.get_topology_desc(
            platform='cuda',
            # One slice with one host with one device.
            topology='1x1x1',
            target_config=gpu_targets.describe(topology.chip),
        )
    except jax.errors.JaxRuntimeError as error:
        message = f'the GPU compiler refuses {topology.name}: {error}'
        raise InputError(message) from error
    return list(described.devices)


def _tpu_devices(topology: Topology) -> list[Any]:
    if importlib.util.find_spec('libtpu') is None:
        raise InputError(
            f'{topology.name}: the TPU compiler is not installed here. It needs no '
            "TPU; install it with: pip install -e '.[tpu]'"
        )
    for variable, value in _NO_TPU_HOST.items():
        os.environ.setdefault(variable, value)
    options: dict[str, Any] = {}
    if topology.chip.name == 'v4':
        # A device has two cores, the default on a v4 host.
        options['chip_config_name'] = 'megacore'
    if math.prod(topology.shape) < 4:
        options['chips_per_host_bounds'] = [1, 1, 1]
    if topology.slices > 1:
        options['num_slices'] = topology.slices
    shape = 'x'.join(map(str, topology.shape))
    try:
        described = topologies.get_topology_desc(
            platform='tpu', topology_name=f'{topology.chip.name}:{shape}', **options
        )
    except jax.errors.JaxRuntimeError as error:
        message = f'the TPU compiler refuses {topology.name}: {error}'
        raise InputError(message) from error
    return list(described.devices)
