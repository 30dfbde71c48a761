"""Lists the CPU cores that this process may use."""

import os

Cores = tuple[int, ...]
"""Core numbers, as the operating system counts them."""


def usable_cores() -> Cores:
    """Returns the cores that this process may use, at least one."""
    if hasattr(os, 'sched_getaffinity'):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))
