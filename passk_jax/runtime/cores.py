"""Names the processor, and lists the cores that this process may use."""

import contextlib
import os
import pathlib
import platform

Cores = tuple[int, ...]
"""Core numbers, as the operating system counts them."""


def usable_cores() -> Cores:
    """Returns the cores that this process may use, at least one."""
    if hasattr(os, 'sched_getaffinity'):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def processor() -> str:
    """Returns the model of the processor, for example ``AMD EPYC 7B13``.

    XLA compiles for the model it runs on, so models round differently.
    """
    with contextlib.suppress(OSError):
        for line in pathlib.Path('/proc/cpuinfo').read_text('utf-8').splitlines():
            name, _, value = line.partition(':')
            if name.strip() == 'model name':
                return value.strip()
    return platform.processor() or platform.machine()
