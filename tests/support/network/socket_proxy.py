"""A proxy between a client and a Unix socket that can withhold responses.

Requests pass always; the connection to the server outlives that of the client, as if the client had been killed in the
middle of a call.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

CHUNK: Final = 65536


class SocketProxy:
    def __init__(self, listener: socket.socket, server: Path) -> None:
        self._listener = listener
        self._server = server
        self._responds = threading.Event()
        self._responds.set()
        self._connections: list[socket.socket] = []

    def withhold(self) -> None:
        """From now on no response arrives, on any connection."""
        self._responds.clear()

    def resume(self) -> None:
        self._responds.set()

    def serve(self) -> None:
        """Until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._connections += (client, server)
                server.connect(str(self._server))
                threading.Thread(target=self._forward, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, True), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, responses: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                if responses:
                    self._responds.wait()
                target.sendall(data)
        if responses:
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listener, *self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def socket_proxy(path: Path, server: Path) -> Iterator[SocketProxy]:
    """Listens at `path` inside the block."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    proxy = SocketProxy(listener, server)
    threading.Thread(target=proxy.serve, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.resume()
        proxy.close()
