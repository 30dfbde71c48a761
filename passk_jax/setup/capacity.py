"""Checks that memory can hold a batch's responses and the model's parameters.

The checks use lower bounds: a run that passes may still run out of memory on the
device. ``python -m passk_jax.plan`` computes what fits.
"""

import math
import os
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from passk_jax.errors import InputError
from passk_jax.runtime import hosts

# Bytes of a token id, and of the Python objects for a response's text and answer.
_TOKEN_BYTES, _RESPONSE_BYTES = 4, 2 * 49


def check_responses(sizes: Mapping[str, int], *, max_response_tokens: int) -> None:
    """Checks that the host's memory can hold a batch's responses; uses no device.

    Args:
        sizes: config keys and values; their product is the number of responses.
        max_response_tokens: tokens of each response.

    Raises:
        InputError: they do not fit; the message names the keys.
    """
    response_bytes = max_response_tokens * _TOKEN_BYTES + _RESPONSE_BYTES
    needed = math.prod(sizes.values()) * response_bytes
    keys = {**sizes, 'sampling.max_response_tokens': max_response_tokens}
    stated = ', '.join(f'{name}={size}' for name, size in keys.items())
    _check(f'the responses of {stated}', needed, host_bytes(), 'this host')


def check_params(shapes: Mapping[str, Any], mesh: Mesh, *, sizes: Any) -> None:
    """Checks that the devices of a mesh together can hold the parameters.

    Args:
        shapes: objects with ``shape`` and ``dtype``, by parameter name.
        mesh: the device mesh.
        sizes: the model's source or sizes, for the message.

    Raises:
        InputError: they do not fit.
    """
    needed = sum(math.prod(x.shape) * x.dtype.itemsize for x in shapes.values())
    stats = mesh.local_devices[0].memory_stats() or {}
    if limit := stats.get('bytes_limit'):
        available = limit * mesh.size
    else:
        # The CPU devices of a host share its memory.
        processes = {device.process_index for device in mesh.devices.flat}
        available = host_bytes() * len(processes)
    _check(f'the parameters of {sizes}', needed, available, 'the mesh')


def device_bytes(device: jax.Device) -> int:
    """Returns the memory of a device in bytes, in steps of 256 MiB.

    This is the smallest value of all processes, because their programs depend on it.
    Every process must call it. CPU devices share the memory of their host.
    """
    limit = (device.memory_stats() or {}).get('bytes_limit')
    limit = limit or host_bytes() // len(jax.local_devices())
    return min(hosts.gather(lambda: limit)) // 2**28 * 2**28


def host_bytes() -> int:
    """Returns the memory of this host in bytes."""
    return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')


def _check(description: str, needed: int, available: int, place: str) -> None:
    if needed > available:
        raise InputError(
            f'{description} take at least {needed / 2**30:,.1f} GiB, more than the '
            f'{available / 2**30:,.1f} GiB of {place}'
        )
