"""Several processes as one: how they find each other, wait, and agree.

A command that may run on several hosts calls :func:`join_hosts` before anything asks
JAX for devices.
"""

import re
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from passk_jax.errors import InputError


def join_hosts(hosts: str) -> None:
    """Makes this process one of several.

    Args:
        hosts: ``''``, this process is alone; ``'auto'``, one of several that JAX finds
            by itself; ``'address:port,count,index'``, one of several.

    Raises:
        ValueError: ``hosts`` is none of these.
    """
    if hosts == 'auto':
        jax.distributed.initialize()
    elif hosts:
        match = re.fullmatch(r'([^,]+:\d+),(\d+),(\d+)', hosts)
        if not match or not int(match[3]) < int(match[2]):
            raise InputError(f"{hosts=} must be 'auto' or 'address:port,count,index'")
        jax.distributed.initialize(match[1], int(match[2]), int(match[3]))


def barrier(name: str) -> None:
    """Returns when every process has called it with this name."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def fetch(tree: Any) -> Any:
    """Brings the arrays of a tree to every host, whole."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def agreed(number: int) -> int:
    """Process 0's number, on every process; every process must call this."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))
