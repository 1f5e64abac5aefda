"""A blocking remoting client of a few lines, JSON headers only, that shares no code with Aerobee.

It asks servers whether they serve and probes their answers, so that a fault of our own codec
cannot hide in what it reports.
"""

import json
import socket
import ssl
import struct
from dataclasses import dataclass, field
from typing import Any, Final, Self

JAVA_VERSION: Final = 513  # V5_5_0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the header's code, remark and fields, and the body."""

    code: int
    remark: str | None
    ext: dict[str, str]
    body: bytes = b""


@dataclass(slots=True)
class RawClient:
    """One connection to `address` ("host:port"), encrypted with a context for TLS."""

    address: str
    timeout_s: float = 30.0
    tls: ssl.SSLContext | None = None
    _opaque: int = 0
    _socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        host, port = self.address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), self.timeout_s)
        if self.tls is not None:
            self._socket = self.tls.wrap_socket(self._socket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def local_address(self) -> tuple[str, int]:
        """This end of the connection, as the server sees it."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = JAVA_VERSION,
    ) -> Answer:
        """Send one request and return its reply; requests of the peer are passed over."""
        self._opaque += 1
        header: dict[str, Any] = {
            "code": code,
            "flag": 0,
            "language": "JAVA",
            "opaque": self._opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": version,
        }
        if ext is not None:
            header["extFields"] = ext
        self.send(header, body)
        while True:
            reply, reply_body = self.receive()
            if reply.get("flag", 0) & 1 and reply.get("opaque") == self._opaque:
                fields = reply.get("extFields") or {}
                return Answer(reply["code"], reply.get("remark"), fields, reply_body)

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send one frame."""
        text = json.dumps(header).encode()
        head = struct.pack(">iI", 4 + len(text) + len(body), len(text))
        self._socket.sendall(head + text + body)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Return the header and the body of the next frame."""
        (total,) = struct.unpack(">i", self._exactly(4))
        payload = self._exactly(total)
        header_bytes = int.from_bytes(payload[1:4], "big")
        return json.loads(payload[4 : 4 + header_bytes]), payload[4 + header_bytes :]

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(count)
            if not part:
                raise ConnectionError(f"{self.address} closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def serves_broker(namesrv: str, broker: str, tls: ssl.SSLContext | None = None) -> bool:
    """Whether the nameserver lists the broker's address and the broker answers itself."""
    try:
        with RawClient(namesrv, 2.0, tls) as client:
            cluster = client.call(106)
        if cluster.code != 0 or broker.encode() not in cluster.body:
            return False
        with RawClient(broker, 2.0, tls) as client:
            return client.call(28).code in (0, 16)  # which refuses strangers, and serves
    except (OSError, ValueError):
        return False


def serves_namesrv(namesrv: str, tls: ssl.SSLContext | None = None) -> bool:
    """Whether a nameserver answers at `namesrv`."""
    try:
        with RawClient(namesrv, 2.0, tls) as client:
            return client.call(106).code == 0
    except (OSError, ValueError):
        return False
