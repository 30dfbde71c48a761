"""Published figures of chips: peaks that no program can exceed.

Rates are for one chip and dense bfloat16. ``link_bandwidth`` is what all links to a
chip's neighbours deliver together, in one direction: half of the "bidirectional"
figure. The slower networks between GPU hosts and between TPU slices are not counted.
"""

import dataclasses
from collections.abc import Mapping

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """One chip.

    Attributes:
        name: as topologies spell it.
        flops: FLOP/s, bfloat16. In this and the next three, 0: no figure.
        memory: bytes that a program may use.
        memory_bandwidth: bytes/s.
        link_bandwidth: bytes/s into a chip from its neighbours.
        dimensions: of the torus in the names of its topologies; 0: no torus.
    """

    name: str
    flops: float
    memory: float
    memory_bandwidth: float
    link_bandwidth: float
    dimensions: int


# Google Cloud's pages "TPU v4", "TPU v5p", "TPU v5e" and "TPU v6e": peak compute per
# chip (bf16), HBM bandwidth, and inter-chip interconnect per chip (2400, 4800, 1600 and
# 3200 Gbit/s; newer versions of the pages say 1200 GB/s both ways for v5p, 400 for v5e
# and 800 for v6e). The TPU compiler of libtpu 0.0.42 states the memory when a program
# asks for more.
_TPUS = (
    Chip('v4', 275e12, 30.75 * GIB, 1228e9, 300e9, 3),
    Chip('v5p', 459e12, 95.74 * GIB, 2765e9, 600e9, 3),
    Chip('v5e', 197e12, 15.75 * GIB, 819e9, 200e9, 2),
    Chip('v6e', 918e12, 31.25 * GIB, 1640e9, 400e9, 2),
)

# NVIDIA's data sheets of the SXM modules: dense bf16 (half of the figure "with
# sparsity"), memory bandwidth, NVLink (half of the total). Memory: the share that
# XLA_PYTHON_CLIENT_MEM_FRACTION=.9 takes of what the driver shows.
_TAKEN = 0.9
_GPUS = (
    Chip('a100', 312e12, _TAKEN * 79 * GIB, 2039e9, 300e9, 0),
    Chip('h100', 989.4e12, _TAKEN * 79 * GIB, 3350e9, 450e9, 0),
    Chip('h200', 989.4e12, _TAKEN * 140 * GIB, 4800e9, 450e9, 0),
    Chip('b200', 2250e12, _TAKEN * 178 * GIB, 8000e9, 900e9, 0),
)

CPU = Chip('cpu', 0, 0, 0, 0, 0)
"""The host's processor: a plan for it has counts and no bounds."""

TPUS: Mapping[str, Chip] = {chip.name: chip for chip in _TPUS}
GPUS: Mapping[str, Chip] = {chip.name: chip for chip in _GPUS}
