"""The CPU cores that this process may use."""

import os

Cores = tuple[int, ...]
"""Numbers of cores."""


def usable_cores() -> Cores:
    """The cores that this process may use, at least one."""
    if hasattr(os, 'sched_getaffinity'):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))
