"""Published figures of chips: peaks that no program can exceed.

Rates are for one device and dense bfloat16. A device is a chip, or one of the two
halves of a TPU7x. Link bandwidths are in one direction: half of the "bidirectional"
figure.
"""

import dataclasses
from collections.abc import Mapping

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """One device of a kind of chip.

    Attributes:
        name: its name in topologies.
        flops: FLOP/s, bfloat16. Here and in the next four, 0 means no figure.
        memory: bytes that a program may use.
        memory_bandwidth: bytes/s.
        link_bandwidth: bytes/s into a device from its neighbours, over all links.
        slice_bandwidth: bytes/s into a device from other slices.
        dimensions: dimensions of the torus; 0: no torus.
        devices: number of devices of a chip.
    """

    name: str
    flops: float
    memory: float
    memory_bandwidth: float
    link_bandwidth: float
    slice_bandwidth: float
    dimensions: int
    devices: int = 1


# Google Cloud's pages "TPU v4", "TPU v5p", "TPU v5e", "TPU v6e" and "TPU7x (Ironwood)",
# read in November 2026 (docs.cloud.google.com/tpu/docs/v5p and so on): peak compute per
# chip (bf16); HBM bandwidth per chip; bidirectional inter-chip interconnect (ICI)
# bandwidth per chip, 600, 1200, 400, 800 and 1200 GB/s (older versions say 2400, 4800,
# 1600 and 3200 Gbit/s); data centre network (DCN) bandwidth per chip, 50 Gbit/s for
# v5p, 100 for v6e and TPU7x, and for v5e 6.4 Tbit/s a pod of 256 chips; none for v4.
# Memory: the TPU compiler of libtpu 0.0.42 states it when a program asks for more.
_TPUS = (
    Chip('v4', 275e12, 30.75 * GIB, 1228e9, 300e9, 0, 3),
    Chip('v5p', 459e12, 95.74 * GIB, 2765e9, 600e9, 6.25e9, 3),
    Chip('v5e', 197e12, 15.75 * GIB, 819e9, 200e9, 3.125e9, 2),
    Chip('v6e', 918e12, 31.25 * GIB, 1638e9, 400e9, 12.5e9, 2),
    # A device is one of two TensorCores, with half of the chip.
    Chip('tpu7x', 1153.5e12, 94.75 * GIB, 3690e9, 300e9, 6.25e9, 3, devices=2),
)

# NVIDIA's data sheets of the SXM modules: dense bf16 (half of the figure "with
# sparsity"), memory bandwidth, NVLink (half of the total). Memory: the share that
# XLA_PYTHON_CLIENT_MEM_FRACTION=.9 takes of what the driver shows.
_USABLE_SHARE = 0.9
_GPUS = (
    # No SXM module, but a card on PCIe 4.0 x16, with 22.5 of its 24 GB for programs.
    Chip('l4', 121e12, _USABLE_SHARE * 22.5 * GIB, 300e9, 32e9, 0, 0),
    Chip('a100', 312e12, _USABLE_SHARE * 79 * GIB, 2039e9, 300e9, 0, 0),
    Chip('h100', 989.4e12, _USABLE_SHARE * 79 * GIB, 3350e9, 450e9, 0, 0),
    Chip('h200', 989.4e12, _USABLE_SHARE * 140 * GIB, 4800e9, 450e9, 0, 0),
    Chip('b200', 2250e12, _USABLE_SHARE * 178 * GIB, 8000e9, 900e9, 0, 0),
    # NVIDIA's whitepaper of Ada, float32 sums; PCIe 4.0 x16 instead of NVLink.
    Chip('rtx4090', 165.2e12, _USABLE_SHARE * 23.99 * GIB, 1008e9, 32e9, 0, 0),
)

CPU = Chip('cpu', 0, 0, 0, 0, 0, 0)
"""The host's processor: a plan for it has counts but no bounds."""

TPUS: Mapping[str, Chip] = {chip.name: chip for chip in _TPUS}
GPUS: Mapping[str, Chip] = {chip.name: chip for chip in _GPUS}

# JAX's name of a device -> its chip. TPUs: chip_version_from_device_kind of JAX 0.10
# (jax/_src/pallas/mosaic/tpu_info.py). GPUs: the name that NVIDIA's driver gives;
# modules for PCIe and those named NVL have other peaks and are not listed.
_KINDS = {
    'TPU v4': 'v4',
    'TPU v5': 'v5p',
    'TPU v5p': 'v5p',
    'TPU v5 lite': 'v5e',
    'TPU v5e': 'v5e',
    'TPU v6 lite': 'v6e',
    'TPU v6e': 'v6e',
    'TPU7x': 'tpu7x',
    'NVIDIA L4': 'l4',
    'NVIDIA A100-SXM4-80GB': 'a100',
    'NVIDIA H100 80GB HBM3': 'h100',
    'NVIDIA H200': 'h200',
    'NVIDIA B200': 'b200',
    'NVIDIA GeForce RTX 4090': 'rtx4090',
}


def chip_of(device_kind: str) -> Chip | None:
    """Returns the chip of a ``device_kind`` of JAX; ``None``: no figures are known.

    >>> chip_of('TPU v5 lite').name, chip_of('cpu')
    ('v5e', None)
    """
    name = _KINDS.get(device_kind)
    return {**TPUS, **GPUS}[name] if name else None
