"""Compiler options for a single program, by the kind of its devices.

Flags in the environment affect all programs of a process. These options affect only the
train step, whose products use vector memory into which decoding prefetches weights.
"""

from collections.abc import Mapping
from typing import Any

BY_CHIP = -1
"""Stands for the chip's row of :data:`TRAIN_VMEM_KIB`."""

# KiB of vector memory for the products of a train step. By XLA's estimates, Qwen2.5-7B
# on v5p:4x4x4 then reaches 98 instead of 78 % of the peak in products; compiling takes
# 3.6 times as long. A chip without a row keeps the compiler's default.
TRAIN_VMEM_KIB: Mapping[str, int] = {'TPU v5': 98304, 'TPU v5p': 98304}


def choose_for_train_step(device: Any, vmem_kib: int) -> dict[str, str]:
    """Returns the options of the train step.

    Args:
        device: one of its devices; ``None``: only shapes, so there are no options.
        vmem_kib: KiB of a TPU's vector memory for products; 0: the compiler's default;
            :data:`BY_CHIP`: the number for this chip.
    """
    if device is None or device.platform != 'tpu':
        return {}
    if vmem_kib == BY_CHIP:
        vmem_kib = TRAIN_VMEM_KIB.get(device.device_kind, 0)
    return {'xla_tpu_scoped_vmem_limit_kib': str(vmem_kib)} if vmem_kib else {}
