"""How several processes find one another, wait for one another, and agree.

A command that can run on several hosts passes its ``--hosts`` to :func:`join_hosts`
before anything asks JAX for devices.
"""

import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

import jax
import numpy as np
from absl import logging
from jax._src import distributed
from jax._src.clusters import GceTpuCluster, GkeTpuCluster
from jax.experimental import multihost_utils

from passk_jax.errors import ElsewhereError, InputError, prefixed, with_class
from passk_jax.runtime import peers

Value = TypeVar('Value')

# How long a process waits for the others, and after how long it says so.
_JOIN_SECONDS = 300
_SILENT_SECONDS = 15

# How long another process waits for the name of process 0 to be known.
_NAME_SECONDS = 10

# Where process 0 says at which port it listens to the others.
_PORT = 'passk_jax/port'
_PORT_MILLISECONDS = 300_000


def join_hosts(hosts: str) -> None:
    """Connects this process to the others of its run.

    Args:
        hosts: ``''`` to find the other workers if this is one of a TPU pod, and to stay
            alone elsewhere; ``'auto'`` if JAX can find the others by itself;
            ``'address:port,count,index'`` to name them. If some do not come within
            five minutes, the process says so and ends.

    Raises:
        ValueError: ``hosts`` has none of these forms, its address leads nowhere, its
            port is in use, or JAX finds no other process.
    """
    if hosts in ('', 'auto'):
        if hosts or _on_a_pod():
            _join()
        return
    address, number = r'(\[[^\]\s,]+\]|[^\[\]:\s,]+)', '([0-9]{1,6})'
    match = re.fullmatch(f'{address}:{number},{number},{number}', hosts)
    if not match or int(match[4]) >= int(match[3]):
        raise InputError(
            f"{hosts=} must be 'auto' or 'address:port,count,index', with an index "
            'below the count'
        )
    host, (port, count, index) = match[1], map(int, match.groups()[1:])
    _check_address(host, port, listens=index == 0)
    _join(f'{host}:{port}', count, index)


def _check_address(host: str, port: int, *, listens: bool) -> None:
    """Raises InputError where JAX would end by a signal, or wait for minutes.

    Args:
        host, port: of process 0.
        listens: whether this is process 0, which listens there.
    """
    if not 0 < port < 2**16:
        raise InputError(f'--hosts: {port=} must lie in [1, 65535]')
    until = time.monotonic() + (0 if listens else _NAME_SECONDS)
    while True:
        try:
            socket.getaddrinfo(host.strip('[]'), port, type=socket.SOCK_STREAM)
            break
        except (OSError, UnicodeError) as error:
            # The name of a process that starts may come to be known a little later.
            if time.monotonic() >= until:
                raise InputError(f'--hosts: there is no {host=} ({error})') from error
        time.sleep(1)
    if listens:
        with prefixed(f'--hosts: {port=} cannot be listened at', OSError):
            peers.listen(port).close()


def _on_a_pod() -> bool:
    """Whether this is one of several workers of a TPU, and runs on its chips."""
    platforms = jax.config.values['jax_platforms']
    if platforms and 'tpu' not in platforms.split(','):
        return False
    try:
        here = [
            cluster
            for cluster in (GkeTpuCluster, GceTpuCluster)
            if cluster.is_env_present()
        ]
        return any(cluster.get_process_count() > 1 for cluster in here)
    except OSError:
        # Nothing tells this machine about others.
        return False


def _join(
    address: str | None = None, count: int | None = None, index: int | None = None
) -> None:
    """Waits for the others; without arguments JAX finds them."""
    came = threading.Event()
    threading.Thread(target=_wait, args=(came,), daemon=True).start()
    try:
        # JAX would end with a trace of C++, so this process ends before it does.
        jax.distributed.initialize(
            coordinator_address=address,
            num_processes=count,
            process_id=index,
            initialization_timeout=2 * _JOIN_SECONDS,
        )
    # The environment variables that describe the other processes may be malformed.
    except (ValueError, RuntimeError, LookupError, OSError) as e:
        what = f'--hosts=auto: JAX finds no other process here ({e})'
        raise InputError(what if address is None else f'--hosts: {e}') from e
    finally:
        came.set()
    _watch_peers()


def _wait(came: threading.Event) -> None:
    """Says for whom this process waits, and ends it if they do not come."""
    if came.wait(_SILENT_SECONDS):
        return
    state = distributed.global_state
    whom = f'{state.num_processes} processes at {state.coordinator_address}'
    logging.warning('process %s waits for all %s', state.process_id, whom)
    if not came.wait(_JOIN_SECONDS - _SILENT_SECONDS):
        sys.stdout.flush()
        print(
            f'error: process {state.process_id} waited {_JOIN_SECONDS} seconds for all '
            f'{whom}: start the command on every worker',
            file=sys.stderr,
            flush=True,
        )
        os._exit(peers.EXIT_PEER_GONE)


def _watch_peers() -> None:
    """Lets no process of the run outlive another; see ``peers.py``."""
    state = distributed.global_state
    index, count = state.process_id, state.num_processes
    if count == 1:
        return
    client, address = state.client, state.coordinator_address
    # Several processes have both.
    assert client is not None
    assert address is not None
    server = peers.listen() if index == 0 else None
    if server is not None:
        client.key_value_set(_PORT, str(server.getsockname()[1]))
    port = int(client.blocking_key_value_get(_PORT, _PORT_MILLISECONDS))
    host = address.rpartition(':')[0].strip('[]')
    peers.watch(index, count, server=server, address=(host, port))


def expect_chips(expected: str) -> None:
    """Refuses to go on with fewer or more processes or chips than a run was given.

    Args:
        expected: ``'processes,chips'``, both over the whole run; ``''``: any. On older
            TPUs a chip is two devices.

    Raises:
        ValueError: ``expected`` has another form, or others are there.
    """
    if not expected:
        return
    match = re.fullmatch(r'([1-9]\d*),([1-9]\d*)', expected)
    if not match:
        raise InputError(f"{expected=} must be 'processes,chips', for example 4,16")
    # The devices of one chip have the same coordinates in its slice.
    chips = {
        (getattr(device, 'slice_index', 0), *device.coords)
        if device.platform == 'tpu'
        else device.id
        for device in jax.devices()
    }
    counts = jax.process_count(), len(chips)
    if counts != (int(match[1]), int(match[2])):
        raise InputError(
            f'found {counts[0]} processes with {counts[1]} chips, expected {match[1]} '
            f'with {match[2]}: a worker is missing, or --expect is of another slice'
        )


def barrier(name: str) -> None:
    """Waits until every process has called this with the same name."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


@overload
def fetch(tree: jax.Array) -> np.ndarray: ...


@overload
def fetch(tree: dict[str, jax.Array]) -> dict[str, np.ndarray]: ...


@overload
def fetch(tree: Any) -> Any: ...


def fetch(tree: Any) -> Any:
    """Copies the whole arrays of a tree to every host."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    return multihost_utils.process_allgather(tree, tiled=True)


def gather(make: Callable[[], Value]) -> list[Value]:
    """What each process makes, on all of them; all processes must call it.

    Args:
        make: makes a value that JSON can hold.

    Returns:
        A value for each process, in their order.

    Raises:
        BaseException: whatever ``make`` raised here.
        ElsewhereError: it raised on another process.
    """
    if jax.process_count() == 1:
        return [make()]
    error = None
    try:
        message = json.dumps({'made': make()})
    except BaseException as e:  # The others wait for something.
        error, message = e, json.dumps({'raised': with_class(e)})
    values = [json.loads(text) for text in _gather_bytes(message.encode())]
    if error is not None:
        raise error
    for index, value in enumerate(values):
        if 'raised' in value:
            raise ElsewhereError(f'process {index} failed: {value["raised"]}')
    return [value['made'] for value in values]


def broadcast(make: Callable[[], Value]) -> Value:
    """What process 0 makes, on every process; all of them must call it.

    Use it to read a shared file system, which may show the others a file later: all
    processes must do the same. Args, errors: as in :func:`gather`, but the others do
    not call ``make``.
    """
    values = gather(lambda: None if jax.process_index() else make())
    # Process 0 has called it, whatever the others have.
    return cast(Value, values[0])


def _gather_bytes(data: bytes) -> list[bytes]:
    """The bytes of every process, in their order, whatever that of their devices."""
    about = np.array([jax.process_index(), len(data)], np.int32)
    abouts = multihost_utils.process_allgather(about)
    # Each length would be a program of its own, so pad to a power of two.
    padded = np.zeros(1 << int(abouts[:, 1].max()).bit_length(), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = multihost_utils.process_allgather(padded)
    by_process = {
        int(index): row[:length].tobytes()
        for (index, length), row in zip(abouts, rows, strict=True)
    }
    assert sorted(by_process) == list(range(jax.process_count())), abouts.tolist()
    return [by_process[index] for index in sorted(by_process)]
