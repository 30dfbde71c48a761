"""Ends all processes of a run when one of them ends.

A collective never returns if one process stays away. So each process holds a connection
to process 0. A process that fails reports it there by :func:`fail`. The kernel closes
the connection of a killed process, and keepalive detects a lost machine. Process 0
tells all processes of the first failure. Each prints the failure in one line and exits
with the failure's status. :func:`tell` sends other news to process 0.
"""

import atexit
import contextlib
import faulthandler
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

EXIT_PEER_GONE = 43
"""Exit status after another process of the run was lost: start all of them again."""

# Keepalive: seconds without traffic, seconds between probes, and probes.
_KEEPALIVE = {'TCP_KEEPIDLE': 5, 'TCP_KEEPINTVL': 2, 'TCP_KEEPCNT': 5}
# How long a failing process waits for news of an earlier failure that caused its own.
_NEWS_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0
_CONNECT_SECONDS = 300

_watch: 'Watch | None' = None
_listener: Callable[[int, Any], None] | None = None
# The last news of every other process, which may arrive before listen_to is called.
_news: dict[int, Any] = {}
_hearing = threading.Lock()


def listen(port: int = 0) -> socket.socket:
    """Opens the socket at which process 0 listens; port 0 chooses a free port."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(
        ('', port), family=family, dualstack_ipv6=both, backlog=1024
    )


def watch(
    index: int, count: int, *, server: socket.socket | None, address: tuple[str, int]
) -> None:
    """Watches the other processes until this one ends; every process must call it.

    Args:
        index, count: this process's index, and the number of processes.
        server: the socket from :func:`listen` on process 0; ``None`` on others.
        address: the host and port of that socket.

    Raises:
        OSError: a process does not connect in time.
    """
    global _watch
    if server is not None:
        connections = _accept(server, count)
    else:
        connections = {0: socket.create_connection(address, timeout=_CONNECT_SECONDS)}
        connections[0].sendall(b'%d\n' % index)
    _watch = Watch(index, count, connections)
    atexit.register(_watch.leave)


def _accept(server: socket.socket, count: int) -> dict[int, socket.socket]:
    """Returns the connections of all other processes to process 0, by process."""
    connections: dict[int, socket.socket] = {}
    server.settimeout(_CONNECT_SECONDS)
    with server:
        while len(connections) < count - 1:
            connection, _ = server.accept()
            connection.settimeout(_PATIENCE_SECONDS)
            # Ignore connections from other programs.
            with contextlib.suppress(OSError, ValueError):
                number = int(connection.makefile('rb', buffering=0).readline())
                connections[number] = connection
    return connections


def fail(
    status: int,
    reason: str,
    *,
    text: str,
    elsewhere: bool = False,
    stacks: bool = False,
) -> None:
    """Ends this process, which failed, and all others; returns in a single process.

    Args:
        status: the exit status; the status of an earlier failure takes precedence.
        reason: the error that the other processes print.
        text: the text that this process prints.
        elsewhere: whether another process caused the error and will report it soon.
        stacks: whether the other processes print the stacks of their threads.
    """
    if _watch is not None:
        _watch.fail(status, reason, text=text, elsewhere=elsewhere, stacks=stacks)


def listen_to(listener: Callable[[int, Any], None] | None) -> None:
    """Sets the function that receives the news of :func:`tell`; ``None``: no function.

    Only process 0 calls ``listener(process, news)``: first with the last news of each
    other process, then with all news. Each process's news arrive in their own thread.
    """
    global _listener
    with _hearing:
        _listener = listener
        if listener is not None:
            for process, news in _news.items():
                listener(process, news)


def tell(news: Any) -> None:
    """Sends news, any JSON value, to process 0; does not wait for an answer."""
    if _watch is None:
        _hear(0, news)
    else:
        _watch.tell(news)


def _hear(process: int, news: Any) -> None:
    with _hearing:
        if process:
            _news[process] = news
        if _listener is not None:
            _listener(process, news)


class Watch:
    """The connections of one process; a thread reads each and can end the process."""

    def __init__(self, index: int, count: int, connections: dict[int, socket.socket]):
        self._index, self._count = index, count
        self._connections = connections
        # What this process prints if it is the one that failed.
        self._text = ''
        # Only one thread may end this process.
        self._ending = threading.Lock()
        for peer, connection in connections.items():
            _keep_alive(connection)
            threading.Thread(
                target=self._read, args=(connection, peer), daemon=True
            ).start()

    def tell(self, news: Any) -> None:
        """Sends news to process 0; see :func:`tell`."""
        if self._index:
            self._tell({'news': news})
        else:
            _hear(0, news)

    def leave(self) -> None:
        """Tells the others that this process ends without an error."""
        self._tell({'left': self._index})

    def fail(
        self, status: int, reason: str, *, text: str, elsewhere: bool, stacks: bool
    ) -> NoReturn:
        """Ends this process and all others; see :func:`fail`."""
        self._text = text
        time.sleep(_PATIENCE_SECONDS if elsewhere else _NEWS_SECONDS)
        reason = f'process {self._index} failed: {reason}'
        end = {'process': self._index, 'status': status, 'reason': reason}
        end['stacks'] = stacks
        if self._index:
            # Process 0 answers with the first failure, which ends this process.
            self._tell(end)
            time.sleep(_PATIENCE_SECONDS)
        self._end(end)

    def _read(self, connection: socket.socket, peer: int) -> None:
        departed = False
        # The last line of a lost process may be incomplete.
        with contextlib.suppress(OSError, ValueError):
            for line in connection.makefile('rb'):
                message = json.loads(line)
                if 'news' in message:
                    _hear(peer, message['news'])
                elif 'left' in message:
                    departed = True
                else:
                    self._end(message)
        if not departed:
            reason = f'process {peer} of {self._count} is gone: start all of them again'
            self._end({'process': peer, 'status': EXIT_PEER_GONE, 'reason': reason})

    def _end(self, end: dict[str, Any]) -> NoReturn:
        """Ends this process; process 0 tells the others and exits last.

        Process 0 hosts the coordination service of ``jax.distributed``; a process that
        loses it prints many lines.
        """
        self._ending.acquire()
        is_local = end['process'] == self._index
        with contextlib.suppress(Exception):
            if self._index == 0:
                self._tell(end)
            sys.stdout.flush()
            if end.get('stacks') and not is_local:
                faulthandler.dump_traceback(sys.stderr, all_threads=True)
            sys.stderr.write(self._text if is_local else f'error: {end["reason"]}\n')
            sys.stderr.flush()
            if self._index == 0:
                self._wait_for_others()
        # A normal exit would wait for the other processes.
        os._exit(end['status'])

    def _wait_for_others(self) -> None:
        """Waits until the other processes have closed their connections."""
        until = time.monotonic() + _PATIENCE_SECONDS
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.settimeout(max(0.1, until - time.monotonic()))
                while connection.recv(4096):
                    pass

    def _tell(self, message: dict[str, Any]) -> None:
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(message).encode() + b'\n')


def _keep_alive(connection: socket.socket) -> None:
    """Makes reads wait without limit, but fail if the other machine is lost."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        # Not every system has these options.
        if hasattr(socket, name):
            option = getattr(socket, name)
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
