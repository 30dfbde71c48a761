"""If one process of a run fails, the others leave too, wherever they wait for it.

Processes wait for one another in collectives, which do not end if one of them stays
away. So a process that fails says so to the coordination service of
``jax.distributed``, by :func:`leave`. A thread of every other process asks the service,
and ends its process with the same exit status and a line that says who failed, and why.
"""

import contextlib
import json
import os
import sys
import threading
import time
from typing import Any, NoReturn

# Public JAX has no way to the service but by way of devices, where the others wait.
from jax._src import distributed

_FAILURE, _LEFT = 'passk_jax/failure', 'passk_jax/left/{}'
_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0
# Whoever has it ends this process.
_ending = threading.Lock()


def watch() -> None:
    """Begins to look for failures elsewhere; ``jax.distributed`` is initialised."""
    client = distributed.global_state.client
    threading.Thread(
        target=_watch, args=(client,), name='failures', daemon=True
    ).start()


def leave(status: int, said: str, *, text: str, elsewhere: bool = False) -> None:
    """Ends this process, which failed, and the others; returns if there is no other.

    Args:
        status: the exit status; if another process failed first, its status counts.
        said: the error, as the others show it.
        text: what this process shows.
        elsewhere: whether the cause lies in another process, which is about to say so.
    """
    if (client := distributed.global_state.client) is None:
        return
    if elsewhere:
        # The thread ends this process meanwhile.
        time.sleep(_PATIENCE_SECONDS)
    _ending.acquire()
    mine = {
        'process': distributed.global_state.process_id,
        'status': status,
        'said': said,
    }
    failure = mine
    with contextlib.suppress(Exception):
        # Refused if there is one already, from which this one may follow: whoever
        # waits in a collective for a process that has left gets an error.
        client.key_value_set(_FAILURE, json.dumps(mine))
    with contextlib.suppress(Exception):
        failure = json.loads(client.key_value_try_get(_FAILURE))
    _end(client, failure, text=text if failure == mine else _of_another(failure))


def _of_another(failure: dict[str, Any]) -> str:
    return f'error: process {failure["process"]} failed: {failure["said"]}\n'


def _watch(client: Any) -> None:
    """Waits for a failure elsewhere, and ends this process then."""
    # It changes when JAX shuts down.
    while distributed.global_state.client is client:
        time.sleep(_POLL_SECONDS)
        # There is none, as a rule.
        with contextlib.suppress(Exception):
            failure = json.loads(client.key_value_try_get(_FAILURE))
            _ending.acquire()
            _end(client, failure, text=_of_another(failure))


def _end(client: Any, failure: dict[str, Any], *, text: str) -> NoReturn:
    """Ends this process; process 0 last, because the service ends with it."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.write(text)
        sys.stderr.flush()
        if index := distributed.global_state.process_id:
            client.key_value_set(_LEFT.format(index), '')
        else:
            until = time.monotonic() + _PATIENCE_SECONDS
            for other in range(1, distributed.global_state.num_processes):
                left = max(1, int(1000 * (until - time.monotonic())))
                client.blocking_key_value_get(_LEFT.format(other), left)
    # At once: an end in order would wait for the others.
    os._exit(failure['status'])
