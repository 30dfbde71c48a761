"""The processes of a run end together: each knows in seconds that another is gone.

Every process holds a connection to process 0. The kernel closes those of a process that
is killed, and keepalive finds a machine that is gone. Whoever learns of it says so in
one line and exits at once, before the runtime does: that would take up to 100 seconds
and write a stack trace for every process.
"""

import atexit
import contextlib
import os
import socket
import sys
import threading
import time

EXIT_PEER_GONE = 43
"""Exit status if another process of the run is gone: start all of them again."""

_BYE, _FAIL, _GONE = b'bye', b'fail', b'gone'
# Keepalive: seconds without traffic, seconds between probes, and probes.
_KEEPALIVE = {'TCP_KEEPIDLE': 5, 'TCP_KEEPINTVL': 2, 'TCP_KEEPCNT': 5}
# How long an error waits for the news that it follows from a lost process.
_NEWS_SECONDS = 2.0
_CONNECT_SECONDS = 300

_watch: 'Watch | None' = None


def listen() -> socket.socket:
    """What process 0 opens for the others; its port is free."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    return socket.create_server(
        ('', 0), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=1024
    )


def watch(
    index: int, count: int, *, server: socket.socket | None, address: tuple[str, int]
) -> None:
    """Watches the other processes until this one ends well.

    Args:
        index, count: of this process, and of all.
        server: of process 0, from :func:`listen`.
        address: where that can be reached.
    """
    global _watch
    _watch = Watch(index, count)
    if server is not None:
        threading.Thread(target=_watch.accept, args=(server,), daemon=True).start()
    else:
        connection = socket.create_connection(address, timeout=_CONNECT_SECONDS)
        connection.settimeout(None)
        connection.sendall(b'%d\n' % index)
        _watch.follow(connection, 0)
    atexit.register(_watch.leave)


def fail(status: int, said: str) -> None:
    """Ends this process after an error, so that no other waits for it.

    If the error follows from a lost process, the line about that ends it instead. Alone
    a process goes on, to end as any other.

    Args:
        status: the exit status.
        said: what to write to standard error.
    """
    if _watch is not None:
        _watch.announce_failure()
        time.sleep(_NEWS_SECONDS)
        sys.stdout.flush()
        sys.stderr.write(said)
        sys.stderr.flush()
        os._exit(status)


class Watch:
    """The connections of one process; its threads only read and end the process."""

    def __init__(self, index: int, count: int):
        self._index, self._count = index, count
        self._connections: dict[int, socket.socket] = {}
        self._left: set[int] = set()
        # Those with an error of their own, perhaps all of them the same.
        self._failed: set[int] = set()
        self._lock = threading.Lock()

    def accept(self, server: socket.socket) -> None:
        """Follows every other process; runs in a thread of process 0."""
        while len(self._connections) < self._count - 1:
            connection, _ = server.accept()
            number = connection.makefile('rb', buffering=0).readline()
            if number.strip().isdigit():
                self.follow(connection, int(number))
        server.close()

    def follow(self, connection: socket.socket, peer: int) -> None:
        """Reads what a peer says until it is gone, in a thread."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            # Not every system has them.
            if hasattr(socket, name):
                option = getattr(socket, name)
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
        self._connections[peer] = connection
        threading.Thread(
            target=self._read, args=(connection, peer), daemon=True
        ).start()

    def leave(self) -> None:
        """Tells the others that this process ends well."""
        with self._lock:
            self._left.add(self._index)
            self._tell(_BYE)

    def announce_failure(self) -> None:
        """Tells the others that this process has an error of its own to report."""
        with self._lock:
            self._failed.add(self._index)
            self._tell(_FAIL)

    def _read(self, connection: socket.socket, peer: int) -> None:
        with contextlib.suppress(OSError):
            for line in connection.makefile('rb'):
                word, _, number = line.strip().partition(b' ')
                if word == _BYE:
                    self._left.add(peer)
                if word == _FAIL:
                    self._failed.add(peer)
                if word == _GONE:
                    self._end(int(number))
        if peer not in self._left and not {peer, self._index} <= self._failed:
            self._end(peer)

    def _end(self, peer: int) -> None:
        with self._lock:
            # Who ends well needs nobody any more.
            if self._index in self._left:
                return
            self._tell(b'%s %d' % (_GONE, peer))
            os.write(
                2,
                f'error: process {peer} of {self._count} is gone, so process '
                f'{self._index} ends too: start all of them again\n'.encode(),
            )
            os._exit(EXIT_PEER_GONE)

    def _tell(self, what: bytes) -> None:
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.sendall(what + b'\n')
