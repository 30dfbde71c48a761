"""Describes GPUs to XLA's compiler, which then compiles for them without a GPU.

:func:`describe` writes the properties that the compiler otherwise asks of a GPU: XLA's
``GpuTargetConfigProto`` (xla/stream_executor/device_description.proto) as text.
"""

import dataclasses
import importlib.util
from collections.abc import Mapping

from passk_jax.planning.chips import Chip

_KIB, _MIB = 2**10, 2**20


@dataclasses.dataclass(frozen=True)
class _Gpu:
    """Figures of a GPU.

    Attributes:
        cores: streaming multiprocessors.
        capability: compute capability, major and minor.
        clock: GHz, boosted.
        cache: bytes of the second-level cache.
    """

    cores: int
    capability: tuple[int, int]
    clock: float
    cache: int


# NVIDIA's data sheets and architecture whitepapers (Ada, Ampere, Hopper, Blackwell).
_GPUS: Mapping[str, _Gpu] = {
    'l4': _Gpu(58, (8, 9), 2.04, 48 * _MIB),
    'a100': _Gpu(108, (8, 0), 1.41, 40 * _MIB),
    'h100': _Gpu(132, (9, 0), 1.98, 50 * _MIB),
    'h200': _Gpu(132, (9, 0), 1.98, 50 * _MIB),
    'b200': _Gpu(148, (10, 0), 1.965, 126 * _MIB),
    'rtx4090': _Gpu(128, (8, 9), 2.52, 72 * _MIB),
}
# Compute capability -> threads and bytes of shared memory of a multiprocessor, bytes
# that a block may ask for, and float32 units. CUDA C++ Programming Guide 13, "Compute
# Capabilities".
_CAPABILITIES: Mapping[tuple[int, int], tuple[int, int, int, int]] = {
    (8, 0): (2048, 164 * _KIB, 163 * _KIB, 64),
    (8, 9): (1536, 100 * _KIB, 99 * _KIB, 128),
    (9, 0): (2048, 228 * _KIB, 227 * _KIB, 128),
    (10, 0): (2048, 228 * _KIB, 227 * _KIB, 128),
}
_TEXT = """
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {block}
  shared_memory_per_core: {shared}
  threads_per_core_limit: {threads}
  core_count: {cores}
  fpus_per_core: {units}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth:.0f}
  l2_cache_size: {cache}
  clock_rate_ghz: {clock}
  device_memory_size: {memory:.0f}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  device_address_bits: 64
  device_vendor: "NVIDIA Corporation"
  device_interconnect_info {{ active_links: 18 }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
device_description_str: "{name}"
"""


def has_compiler() -> bool:
    """Returns whether XLA's compiler for GPUs is installed (the extra ``gpu``)."""
    if importlib.util.find_spec('jax_plugins') is None:
        return False
    names = ('jax_plugins.xla_cuda13', 'jax_plugins.xla_cuda12')
    return any(importlib.util.find_spec(name) is not None for name in names)


def describe(chip: Chip) -> str:
    """Returns the description of one of ``chips.GPUS``."""
    gpu = _GPUS[chip.name]
    threads, shared, block, units = _CAPABILITIES[gpu.capability]
    major, minor = gpu.capability
    return _TEXT.format(
        block=block,
        shared=shared,
        threads=threads,
        units=units,
        cores=gpu.cores,
        cache=gpu.cache,
        clock=gpu.clock,
        bandwidth=chip.memory_bandwidth,
        memory=chip.memory,
        major=major,
        minor=minor,
        name=chip.name,
    )
