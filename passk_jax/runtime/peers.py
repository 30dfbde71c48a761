"""The processes of a run end together, wherever they wait for one another.

Processes wait in collectives, which do not end if one of them stays away. So each holds
a connection to process 0. A process that fails says so over it, by :func:`fail`. The
kernel closes the connection of one that is killed, and keepalive finds a machine that
is gone. Process 0 tells all which end came first, and every process says that in one
line and leaves with its status. :func:`tell` sends other news to process 0.
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
"""Exit status if another process of the run is gone: start all of them again."""

# Keepalive: seconds without traffic, seconds between probes, and probes.
_KEEPALIVE = {'TCP_KEEPIDLE': 5, 'TCP_KEEPINTVL': 2, 'TCP_KEEPCNT': 5}
# How long an error waits for the news that it follows from a lost process.
_NEWS_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0
_CONNECT_SECONDS = 300

_watch: 'Watch | None' = None
_listener: Callable[[int, Any], None] | None = None
# The last news of every other process, which may come before this one listens.
_news: dict[int, Any] = {}
_hearing = threading.Lock()


def listen(port: int = 0) -> socket.socket:
    """Opens a socket at which process 0 listens to the others; 0: on a free port."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(
        ('', port), family=family, dualstack_ipv6=both, backlog=1024
    )


def watch(
    index: int, count: int, *, server: socket.socket | None, address: tuple[str, int]
) -> None:
    """Watches the other processes until this one ends; all of them must call it.

    Args:
        index, count: of this process, and of all.
        server: of process 0, from :func:`listen`.
        address: where that can be reached.

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
    """The connections of all other processes to process 0."""
    connections: dict[int, socket.socket] = {}
    server.settimeout(_CONNECT_SECONDS)
    with server:
        while len(connections) < count - 1:
            connection, _ = server.accept()
            connection.settimeout(_PATIENCE_SECONDS)
            # Anybody may connect.
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
    """Ends this process, which failed, and the others; returns if there is no other.

    Args:
        status: the exit status; if another end came first, its status counts.
        reason: the error, as the others show it.
        text: what this process shows.
        elsewhere: whether the cause lies in another process, which is about to say so.
        stacks: whether the others show the stacks of their threads.
    """
    if _watch is not None:
        _watch.fail(status, reason, text=text, elsewhere=elsewhere, stacks=stacks)


def listen_to(listener: Callable[[int, Any], None] | None) -> None:
    """From now on calls ``listener(process, news)`` with the news of :func:`tell`.

    Only process 0 hears the others, each in a thread of its own. It first hears what
    each told last. ``None`` ends the calls.
    """
    global _listener
    with _hearing:
        _listener = listener
        if listener is not None:
            for process, news in _news.items():
                listener(process, news)


def tell(news: Any) -> None:
    """Tells process 0 something that JSON can hold; it does not wait for an answer."""
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
        # The error message that this process sends to its peers.
        self._text = ''
        # The thread that holds it ends this process.
        self._ending = threading.Lock()
        for peer, connection in connections.items():
            _keep_alive(connection)
            threading.Thread(
                target=self._read, args=(connection, peer), daemon=True
            ).start()

    def tell(self, news: Any) -> None:
        """See :func:`tell`."""
        if self._index:
            self._tell({'news': news})
        else:
            _hear(0, news)

    def leave(self) -> None:
        """Tells the others that this process ends well."""
        self._tell({'left': self._index})

    def fail(
        self, status: int, reason: str, *, text: str, elsewhere: bool, stacks: bool
    ) -> NoReturn:
        """Ends this process and all others; see :func:`fail`."""
        self._text = text
        time.sleep(_PATIENCE_SECONDS if elsewhere else _NEWS_SECONDS)
        reason = f'process {self._index} failed: {reason}'
        end = {
            'process': self._index,
            'status': status,
            'reason': reason,
            'stacks': stacks,
        }
        if self._index:
            # Process 0 answers with the end that came first.
            self._tell(end)
            time.sleep(_PATIENCE_SECONDS)
        self._end(end)

    def _read(self, connection: socket.socket, peer: int) -> None:
        departed = False
        # The last line of one that is gone may be half a line.
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
        """Ends this process; process 0 tells the others, and leaves last.

        The coordination service of ``jax.distributed`` is in process 0, and a process
        that loses it says more than one line.
        """
        self._ending.acquire()
        is_own = end['process'] == self._index
        with contextlib.suppress(Exception):
            if self._index == 0:
                self._tell(end)
            sys.stdout.flush()
            if end.get('stacks') and not is_own:
                faulthandler.dump_traceback(sys.stderr, all_threads=True)
            sys.stderr.write(self._text if is_own else f'error: {end["reason"]}\n')
            sys.stderr.flush()
            if self._index == 0:
                self._wait_for_others()
        # At once: an orderly exit would wait for the others.
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
    """Lets a read wait for as long as the machine at the other end is there."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        # Some systems lack some of these options.
        if hasattr(socket, name):
            option = getattr(socket, name)
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
