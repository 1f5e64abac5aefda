"""A TCP proxy that keeps what passes through it, both directions of every connection."""

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import Self


@dataclass(slots=True)
class Recording:
    """One connection: what the client side and the server side sent."""

    label: str
    from_client: bytearray = field(default_factory=bytearray)
    from_server: bytearray = field(default_factory=bytearray)


class Proxy:
    """Listens on `listen` and forwards to `target` ("host:port" both).

    Connections that are opened while `label` is empty are forwarded but not kept.
    """

    def __init__(self, listen: str, target: str, label: str = "") -> None:
        self.label = label
        self.recordings: list[Recording] = []
        self._target = _pair(target)
        self._listener = socket.create_server(_pair(listen))
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed at the end
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, server]
                recording = Recording(self.label)
                if self.label:
                    self.recordings.append(recording)
                self._pump(client, server, recording.from_client)
                self._pump(server, client, recording.from_server)

    def _pump(self, source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        def run() -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    kept.extend(data)
                    sink.sendall(data)
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

        threading.Thread(target=run, daemon=True).start()


def _pair(address: str) -> tuple[str, int]:
    host, port = address.rsplit(":", 1)
    return host, int(port)
