"""The process in which :mod:`passk_jax.verifiers.pool` judges answers.

    python -m passk_jax.verifiers.worker MODULE:FUNCTION MEMORY_BYTES

It limits its memory, imports the function and writes a line to stdout. Then it reads
one request per line and writes one reply per line, all in JSON:

    -> null, or the error that keeps the function from being imported
    <- [number, seconds, [argument, ...]]
    -> [number, "returned", value], [number, "raised", text] or [number, "memory", ""]

A reply repeats its request's number. When stdin closes, the worker ends with all
processes of its group, so it outlives its parent by at most one request. The kernel
kills a worker whose request takes longer than ``seconds``, even inside C. The parent's
deadline is earlier: this limit is for workers whose parent is gone.
"""

import json
import mmap
import os
import pkgutil
import resource
import signal
import sys
from typing import Any

# The least that an answer may need beside the imported function.
_ROOM_BYTES = 2**24
# Characters of an error's name and message.
_LONGEST_NAME, _LONGEST_REASON = 200, 4000
# Characters of a value as JSON; the parent reads lines of up to twice this.
_LONGEST_VALUE = 2**15


def main(function: str, memory_bytes: str) -> None:
    """Serves requests until stdin closes."""
    requests, replies = os.fdopen(os.dup(0), 'rb'), os.fdopen(os.dup(1), 'wb')
    # The function's prints must not mix with the replies.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    try:
        limit_memory(int(memory_bytes))
        judge = resolve(function)
        _check_room(int(memory_bytes))
    except Exception as e:
        _write(replies, f'{type(e).__name__}: {e}'[:_LONGEST_REASON])
        return
    _write(replies, None)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for line in requests:
        number, seconds, arguments = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        reply = call(judge, arguments)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(replies, [number, *reply])
    if os.getpgrp() == os.getpid():
        # It leads its group, which may contain processes that an answer started.
        os.killpg(0, signal.SIGKILL)


def resolve(function: str) -> Any:
    """Returns a function whose results can be written as short JSON.

    For ``module:name``, it returns whether that function returned ``True``. For a
    user's ``file.py:name@digest``, ``reward_worker.py`` makes it.
    """
    if '@' in function:
        # Other workers do not need this import.
        from passk_jax.verifiers import reward_worker

        return reward_worker.load(function)
    judge = pkgutil.resolve_name(function)
    return lambda *texts: judge(*texts) is True


def limit_memory(num_bytes: int) -> None:
    """Limits the address space of this process, and turns its core files off."""
    resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _check_room(limit: int) -> None:
    """Raises MemoryError if the limit leaves an answer no room.

    An import may fit into pages that the process already has. Without this check, far
    too low a limit would then fail every answer instead of the start.
    """
    try:
        mmap.mmap(-1, _ROOM_BYTES).close()
    except OSError:
        raise MemoryError(
            f'its limit of {limit // 2**20} MiB leaves less than '
            f'{_ROOM_BYTES // 2**20} MiB for an answer: give it more memory_bytes'
        ) from None


def call(judge: Any, arguments: list[str]) -> tuple[str, Any]:
    """Calls the function; returns how it ended, and its result."""
    try:
        value = judge(*arguments)
        if len(json.dumps(value)) > _LONGEST_VALUE:
            return 'raised', 'what it returned is too long'
        return 'returned', value
    except MemoryError:
        return 'memory', ''
    except Exception as e:
        return 'raised', type(e).__name__[:_LONGEST_NAME]


def _write(replies: Any, value: Any) -> None:
    replies.write(json.dumps(value).encode() + b'\n')
    replies.flush()


if __name__ == '__main__':
    main(*sys.argv[1:])
