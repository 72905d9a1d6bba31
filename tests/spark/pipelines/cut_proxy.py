"""A door before a server, which may cut a connection when the client's request has been answered, and not before."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_CHUNK = 1 << 16


class CutProxy:
    """Passes everything on. When it is armed, the next request that has all `words` is answered to nobody."""

    def __init__(self, host, port, *, words):
        self._server, self._words = (host, port), words
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._armed = threading.Event()
        self.cuts = 0
        # The client's port, by that from which the server is spoken to.
        self.clients = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self):
        self._armed.set()

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, (_, client_port) = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server, 10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self.clients[server.getsockname()[1]] = client_port
            is_cut = threading.Event()
            threading.Thread(target=self._ask, args=(client, server, is_cut), daemon=True).start()
            threading.Thread(target=self._answer, args=(client, server, is_cut), daemon=True).start()

    def _ask(self, client, server, is_cut):
        with suppress(OSError):
            while data := client.recv(_CHUNK):
                if self._armed.is_set() and all(word in data for word in self._words):
                    self._armed.clear()
                    is_cut.set()
                server.sendall(data)
        _close(client, server)

    def _answer(self, client, server, is_cut):
        with suppress(OSError):
            while data := server.recv(_CHUNK):
                if is_cut.is_set():
                    self.cuts += 1
                    break
                client.sendall(data)
        _close(client, server)


def _close(*ends):
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
