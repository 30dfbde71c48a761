"""Connects the processes of a run, synchronizes them and shares values among them.

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
from jax.experimental import multihost_utils

from passk_jax.errors import ElsewhereError, InputError, prefixed, with_class
from passk_jax.runtime import peers

Value = TypeVar('Value')

# How long a process waits for the others, and when it first reports that it waits.
_JOIN_SECONDS = 300
_SILENT_SECONDS = 15

# How long a process waits until the host name of process 0 resolves.
_NAME_SECONDS = 10

# The key under which process 0 publishes the port at which it listens.
_PORT = 'passk_jax/port'
_PORT_MILLISECONDS = 300_000


def join_hosts(hosts: str) -> None:
    """Connects this process to the others of its run.

    Args:
        hosts: ``''`` finds the other workers on a TPU pod, and stays alone elsewhere.
            ``'auto'`` lets JAX find the others. ``'address:port,count,index'`` gives
            the address of process 0, the number of processes and this one's index.
            If some process has not joined within five minutes, this process reports it
            and exits.

    Raises:
        ValueError: ``hosts`` has none of these forms, its address does not resolve, its
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
    """Raises InputError where JAX would crash or wait for minutes.

    Args:
        host, port: the address of process 0.
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
            # The name of a machine that is just starting may resolve a little later.
            if time.monotonic() >= until:
                raise InputError(f'--hosts: there is no {host=} ({error})') from error
        time.sleep(1)
    if listens:
        with prefixed(f'--hosts: {port=} cannot be listened at', OSError):
            peers.listen(port).close()


def _on_a_pod() -> bool:
    """Returns whether this process uses a TPU that has several workers."""
    platforms = jax.config.values['jax_platforms']
    if platforms and 'tpu' not in platforms.split(','):
        return False
    try:
        # The public jax.distributed.initialize would look for any kind of cluster.
        from jax._src.clusters import GceTpuCluster, GkeTpuCluster

        return any(
            cluster.is_env_present() and cluster.get_process_count() > 1
            for cluster in (GkeTpuCluster, GceTpuCluster)
        )
    except OSError:
        # The metadata server does not answer, so there is no pod.
        return False
    except (ImportError, AttributeError) as error:
        logging.warning(
            'JAX %s does not tell whether this is a TPU pod (%s): on a pod, pass '
            '--hosts=auto',
            *(jax.__version__, error),
        )
        return False


def _join(
    address: str | None = None, count: int | None = None, index: int | None = None
) -> None:
    """Waits until all processes have joined; without arguments JAX finds them."""
    came = threading.Event()
    threading.Thread(target=_wait, args=(came,), daemon=True).start()
    try:
        # JAX would abort with a C++ trace, so _wait ends this process before that.
        jax.distributed.initialize(
            coordinator_address=address,
            num_processes=count,
            process_id=index,
            initialization_timeout=2 * _JOIN_SECONDS,
        )
    # A wrong environment can make JAX raise any of these.
    except (ValueError, RuntimeError, LookupError, OSError) as e:
        message = f'--hosts=auto: JAX finds no other process here ({e})'
        raise InputError(message if address is None else f'--hosts: {e}') from e
    finally:
        came.set()
    _watch_peers()


def _wait(came: threading.Event) -> None:
    """Reports that this process waits, and ends it if the others do not join."""
    if came.wait(_SILENT_SECONDS):
        return
    me, whom = 'this process', 'processes'
    if state := _state():
        me = f'process {state.process_id}'
        whom = f'{state.num_processes} processes at {state.coordinator_address}'
    logging.warning('%s waits for all %s', me, whom)
    if not came.wait(_JOIN_SECONDS - _SILENT_SECONDS):
        sys.stdout.flush()
        print(
            f'error: {me} waited {_JOIN_SECONDS} seconds for all '
            f'{whom}: start the command on every worker',
            file=sys.stderr,
            flush=True,
        )
        os._exit(peers.EXIT_PEER_GONE)


def _watch_peers() -> None:
    """Connects the processes, so that all end if one does; see ``peers.py``."""
    state = _state()
    if state is None or state.num_processes == 1:
        return
    index, count = state.process_id, state.num_processes
    client, address = state.client, state.coordinator_address
    # JAX sets both if there are several processes.
    assert client is not None
    assert address is not None
    server = peers.listen() if index == 0 else None
    if server is not None:
        client.key_value_set(_PORT, str(server.getsockname()[1]))
    port = int(client.blocking_key_value_get(_PORT, _PORT_MILLISECONDS))
    host = address.rpartition(':')[0].strip('[]')
    peers.watch(index, count, server=server, address=(host, port))


def _state() -> Any:
    """Returns JAX's state of the processes; warns and returns ``None`` if it has moved.

    It is private (JAX 0.10.2), because public functions start a backend or have no
    client.
    """
    try:
        from jax._src import distributed

        return distributed.global_state
    except (ImportError, AttributeError) as error:
        logging.warning(
            'JAX %s hides its state of the processes (%s): if one of them ends, the '
            'others may hang',
            *(jax.__version__, error),
        )
        return None


def expect_chips(expected: str) -> None:
    """Checks the number of processes and chips of the run.

    Args:
        expected: ``'processes,chips'``, both over the whole run; ``''``: any. On older
            TPUs a chip is two devices.

    Raises:
        ValueError: ``expected`` has another form, or the numbers differ.
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
    leaves, structure = jax.tree.flatten(tree)
    spread = [x for x in leaves if not x.is_fully_replicated]
    gathered = iter(_replicate(spread))
    replicated = [x if x.is_fully_replicated else next(gathered) for x in leaves]
    for x in replicated:
        x.copy_to_host_async()
    return jax.tree.unflatten(structure, [np.asarray(x) for x in replicated])


def _replicate(arrays: list[jax.Array]) -> list[jax.Array]:
    """Gives every device the whole arrays, which are on one mesh."""
    if not arrays:
        return []
    sharding = arrays[0].sharding
    assert isinstance(sharding, jax.NamedSharding)
    replicated = jax.NamedSharding(sharding.mesh, jax.P())
    return jax.jit(_same, out_shardings=replicated)(arrays)


def _same(x: Any) -> Any:
    return x


def gather(make: Callable[[], Value]) -> list[Value]:
    """Returns the result of ``make`` on each process; every process must call this.

    Args:
        make: returns a value that JSON can hold.

    Returns:
        A value for each process, in the order of their indices.

    Raises:
        BaseException: whatever ``make`` raised on this process.
        ElsewhereError: ``make`` raised on another process.
    """
    if jax.process_count() == 1:
        return [make()]
    error = None
    try:
        message = json.dumps({'made': make()})
    except BaseException as e:  # The others wait for a message from this process.
        error, message = e, json.dumps({'raised': with_class(e)})
    values = [json.loads(text) for text in _gather_bytes(message.encode())]
    if error is not None:
        raise error
    for index, value in enumerate(values):
        if 'raised' in value:
            raise ElsewhereError(f'process {index} failed: {value["raised"]}')
    return [value['made'] for value in values]


def broadcast(make: Callable[[], Value]) -> Value:
    """Returns the result of ``make`` on process 0; every process must call this.

    Use it to read a shared file system, where other processes may see a new file later
    than process 0. Args, errors: as in :func:`gather`, but only process 0 calls
    ``make``.
    """
    values = gather(lambda: None if jax.process_index() else make())
    # Only process 0 has called make.
    return cast(Value, values[0])


def _gather_bytes(data: bytes) -> list[bytes]:
    """Returns the bytes of every process, in the order of processes, not of devices."""
    about = np.array([jax.process_index(), len(data)], np.int32)
    abouts = multihost_utils.process_allgather(about)
    # Pad to a power of two, because every other length would need a compilation.
    padded = np.zeros(1 << int(abouts[:, 1].max()).bit_length(), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = multihost_utils.process_allgather(padded)
    by_process = {
        int(index): row[:length].tobytes()
        for (index, length), row in zip(abouts, rows, strict=True)
    }
    assert sorted(by_process) == list(range(jax.process_count())), abouts.tolist()
    return [by_process[index] for index in sorted(by_process)]
