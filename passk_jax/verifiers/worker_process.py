"""The parent's end of one worker: its process, its pipes and its task."""

import contextlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

from passk_jax.files import parse_json

# The kernel's limit on a request is this much later than the parent's.
_ORPHAN_S = 2.0
# Replies are shorter; a longer line means that the function writes to the pipe.
_MOST_BYTES = 2**16
_MARK = 'PASSK_JAX_WORKER'
_PROCESSES = pathlib.Path('/proc')
# The longest that kill() waits for the end of processes that a worker started.
_KILL_S = 2.0
# PYTHONPATH could not hold a directory with a colon in its name.
_START = (
    'import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); '
    'from passk_jax.verifiers import worker; worker.main(*sys.argv[1:])'
)


class WorkerProcess:
    """A process of :mod:`passk_jax.verifiers.worker`.

    Args:
        function: ``'module:name'`` of the judged function.
        memory_bytes: its address space.
        start_deadline_s: seconds until it must be ready.

    Attributes:
        task: its present task; ``None`` before it is ready and between tasks.
        started: whether it has reported that it is ready.
        deadline: the time (``time.monotonic``) by which it must reply.
        num_tasks: the number of tasks sent to it.
        replies: its pipe, readable when there is a reply and when the process ends.
    """

    def __init__(self, function: str, *, memory_bytes: int, start_deadline_s: float):
        self._mark = secrets.token_hex(8)
        # No preexec_fn: it would fork a process that has threads. In a new session, the
        # workers do not get the terminal's Ctrl-C, which a run survives.
        self._process = subprocess.Popen(
            [sys.executable, '-P', '-c', _START, _path(), function, str(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(self._mark),
            start_new_session=True,
            bufsize=0,
        )
        self._requests, self.replies = _pipes(self._process)
        os.set_blocking(self.replies.fileno(), False)
        self.task: Any = None
        self.started, self.num_tasks, self._buffer = False, 0, b''
        self._number = ''
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
        """Whether the process is dead; its id stays taken until :meth:`kill`."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return (
            self._process.returncode is not None
            or os.waitid(os.P_PID, self.pid, options) is not None
        )

    @property
    def has_spoken(self) -> bool:
        """Whether an idle worker wrote without a request, or closed its pipe."""
        return bool(self._buffer) or self.replies.read(1) is not None

    def send(self, task: tuple[str, ...], deadline_s: float) -> None:
        """Sends a task to an idle worker; :meth:`receive` reads the reply."""
        # A secret number, so that code left by an earlier task cannot forge a reply.
        self._number = secrets.token_hex(8)
        request = [self._number, deadline_s + _ORPHAN_S, task]
        request = json.dumps(request).encode() + b'\n'
        self.task, self.num_tasks = task, self.num_tasks + 1
        self.deadline = time.monotonic() + deadline_s
        try:
            while request:
                request = request[self._requests.write(request) :]
        except BrokenPipeError:
            pass  # It is dead, which receive() finds out.

    def receive(self) -> tuple[str, Any] | None:
        """Reads the part of a reply that has arrived.

        Returns:
            How the task ended and what the function returned, or ``('failed to start',
            reason)``; ``None`` if the reply is incomplete, or says that the worker is
            ready. Replies to other requests are ignored.

        Raises:
            EOFError: the process has ended, or writes a line that is far too long.
        """
        read = self.replies.read(_MOST_BYTES)
        if read == b'':
            raise EOFError
        *lines, self._buffer = (self._buffer + (read or b'')).split(b'\n')
        if len(self._buffer) >= _MOST_BYTES:
            raise EOFError
        for reply in map(_parsed, lines):
            if not self.started:
                self.started = reply is None
                return None if self.started else ('failed to start', reply)
            if isinstance(reply, list) and len(reply) == 3 and reply[0] == self._number:
                self.task, self._number = None, ''
                return reply[1], reply[2]
        return None

    def kill(self) -> None:
        """Kills the process and all that it started; waits and closes the pipes.

        Only a process that left both the group and the environment escapes.
        """
        # After a wait, the process has no id any more.
        if self._process.returncode is None:
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)
            self._process.wait()
            _kill_marked(self._mark)
        self._requests.close()
        self.replies.close()


def _pipes(process: subprocess.Popen) -> tuple[IO[bytes], IO[bytes]]:
    """Returns the pipes to and from a process that has both."""
    if process.stdin is None or process.stdout is None:
        raise ValueError('the process has no pipes')
    return process.stdin, process.stdout


def _parsed(line: bytes) -> Any:
    """Parses a line of JSON; returns an error message for any other line."""
    try:
        return parse_json(line)
    except ValueError as error:
        return f'no reply: {error}'


def _kill_marked(mark: str) -> None:
    """Kills processes until none has the mark in its environment, or 2 s are over."""
    end = time.monotonic() + _KILL_S
    while (signals := [*_signals(mark)]) and time.monotonic() < end:
        for pid, number in signals:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        time.sleep(0.001)


def _signals(mark: str) -> Iterator[tuple[int, int]]:
    """Yields the id of each process with the mark, and SIGKILL.

    With 0, it yields a process that may have the mark: while a process begins a
    program, its environment is empty for a moment.
    """
    for folder in _PROCESSES.glob('[0-9]*'):
        with contextlib.suppress(OSError):
            environment, begins = (folder / 'environ').read_bytes(), False
            if not environment:
                begins = _begins((folder / 'stat').read_bytes())
                environment = (folder / 'environ').read_bytes()
            if f'{_MARK}={mark}'.encode() in environment.split(b'\0'):
                yield int(folder.name), signal.SIGKILL
            elif begins:
                yield int(folder.name), 0


def _begins(stat: bytes) -> bool:
    """Returns whether a process begins a program: ``vsize``, but no ``env_start``.

    See ``proc(5)``.
    """
    fields = stat.rpartition(b')')[2].split()
    return fields[20] != b'0' == fields[47]


def _path() -> str:
    """Returns this process's module path as JSON; a worker finds the function there."""
    return json.dumps([os.path.abspath(entry) for entry in sys.path])


def _environment(mark: str) -> dict[str, str]:
    """Returns this process's environment, a mark, and settings that make workers agree.

    The processes that a worker starts inherit the mark.
    """
    return os.environ | {
        _MARK: mark,
        # Sympy may take sets of symbols in the order of their hashes.
        'PYTHONHASHSEED': '0',
        # The loops of gmpy2 cannot be interrupted, and not every host has it.
        'SYMPY_GROUND_TYPES': 'python',
        'MPMATH_NOGMPY': '1',
        'OMP_NUM_THREADS': '1',
        'OPENBLAS_NUM_THREADS': '1',
    }
