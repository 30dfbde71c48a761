"""The parent's end of one worker: its process, its pipes and what it is doing."""

import json
import os
import subprocess
import sys
import time
from typing import Any

# The kernel's own limit on a request lies this far beyond the parent's.
_ORPHAN_S = 2.0
_MODULE = 'passk_jax.verifiers.worker'


class WorkerProcess:
    """A process of :mod:`passk_jax.verifiers.worker`.

    Args:
        function: ``'module:name'`` of the judged function.
        memory_bytes: its address space.
        start_deadline_s: seconds until it must be ready.

    Attributes:
        task: what it judges; ``None`` before it is ready and between tasks.
        started: whether it has been ready.
        deadline: the time (``time.monotonic``) by which it must reply.
        num_tasks: tasks that it was given.
        replies: the file that becomes readable with a reply and at its end.
    """

    def __init__(self, function: str, *, memory_bytes: int, start_deadline_s: float):
        # No preexec_fn: it would fork a process that has threads. A session of its own
        # keeps the terminal's Ctrl-C, which a run survives, from its workers.
        self._process = subprocess.Popen(
            [sys.executable, '-P', '-m', _MODULE, function, str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,
            bufsize=0,
        )
        self.replies = self._process.stdout
        os.set_blocking(self.replies.fileno(), False)
        self.task: Any = None
        self.started, self.num_tasks, self._buffer = False, 0, b''
        self.deadline = time.monotonic() + start_deadline_s

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def idle(self) -> bool:
        """Whether it waits for a task."""
        return self.started and self.task is None

    @property
    def has_ended(self) -> bool:
        """Whether the process is dead."""
        return self._process.poll() is not None

    def send(self, task: tuple[str, ...], deadline_s: float) -> None:
        """Gives an idle worker a task; what it replies is for :meth:`receive`."""
        request = json.dumps([deadline_s + _ORPHAN_S, task]).encode() + b'\n'
        self.task, self.num_tasks = task, self.num_tasks + 1
        self.deadline = time.monotonic() + deadline_s
        try:
            while request:
                request = request[self._process.stdin.write(request) :]
        except BrokenPipeError:
            pass  # It is dead, which receive() finds out.

    def receive(self) -> tuple[str, Any] | None:
        """Reads what there is of a reply.

        Returns:
            How the task ended and what the function returned, or ``('failed to start',
            reason)``; ``None`` if there is no whole reply yet, or it was the first one.

        Raises:
            EOFError: the process has ended.
        """
        read = self.replies.read(2**16)
        if read == b'':
            raise EOFError
        self._buffer += read or b''
        line, end, tail = self._buffer.partition(b'\n')
        if not end:
            return None
        self._buffer = tail
        reply = json.loads(line)
        if not self.started:
            self.started = reply is None
            return None if self.started else ('failed to start', reply)
        self.task = None
        return tuple(reply)

    def kill(self) -> None:
        """Ends the process, waits for its end and closes the pipes."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self.replies.close()


def _environment() -> dict[str, str]:
    """This process's, with what lets workers find the function and agree."""
    path = [os.path.abspath(entry) for entry in sys.path]
    return os.environ | {
        'PYTHONPATH': os.pathsep.join(path),
        # Sympy may take sets of symbols in the order of their hashes.
        'PYTHONHASHSEED': '0',
        # The loops of gmpy2 cannot be interrupted, and not every host has it.
        'SYMPY_GROUND_TYPES': 'python',
        'MPMATH_NOGMPY': '1',
        'OMP_NUM_THREADS': '1',
        'OPENBLAS_NUM_THREADS': '1',
    }
