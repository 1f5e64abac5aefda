"""Many connections to one broker that ask and look only at whether they are answered."""

import json
import resource
import select
import socket
import struct
import time
from typing import Any, Final

from support.interop.raw_remoting import JAVA_VERSION

from benchmarks.generator import LoadFailed

PER_ADDRESS: Final = 8_000  # connections from one loopback address, whose ports are some 28,000
SILENCE_S_MAX: Final = 60.0
_READ_BYTES: Final = 256 << 10


class Wire:
    """Connections to `address` ("host:port"), from 127.0.0.2 upwards; answers are counted."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._address = host, int(port)
        self._epoll = select.epoll()
        self._sockets: list[socket.socket] = []
        self._places: dict[int, int] = {}  # in `_sockets`, by file number
        self._buffers: list[bytearray] = []
        self._opaque = 0

    def __len__(self) -> int:
        return len(self._sockets)

    def open(self, count: int) -> None:
        """Open so many more."""
        for _ in range(count):
            at = len(self._sockets)
            made = socket.socket()
            self._sockets.append(made)
            self._buffers.append(bytearray())
            made.bind((f"127.0.0.{2 + at // PER_ADDRESS}", 0))
            made.settimeout(SILENCE_S_MAX)
            made.connect(self._address)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._places[made.fileno()] = at
            self._epoll.register(made.fileno(), select.EPOLLIN)

    def close(self) -> None:
        """Close all."""
        for each in self._sockets:
            each.close()
        self._epoll.close()

    def frame(self, code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
        """Return a request with a number of its own."""
        self._opaque += 1
        header: dict[str, Any] = {
            "code": code, "extFields": fields, "flag": 0, "language": "JAVA",
            "opaque": self._opaque, "serializeTypeCurrentRPC": "JSON", "version": JAVA_VERSION,
        }  # fmt: skip
        text = json.dumps(header, separators=(",", ":")).encode()
        return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body

    def send(self, at: int, *frames: bytes) -> None:
        """Write requests to one connection."""
        self._sockets[at].sendall(b"".join(frames))

    def take(self, count: int) -> None:
        """Wait for so many answers; LoadFailed where one refuses, or none comes for a minute."""
        deadline = time.monotonic() + SILENCE_S_MAX
        while count > 0:
            got = self.poll(1.0)
            count -= got
            if got:
                deadline = time.monotonic() + SILENCE_S_MAX
            elif time.monotonic() > deadline:
                raise LoadFailed(f"{count} requests have no answer after {SILENCE_S_MAX:.0f} s")

    def poll(self, seconds: float) -> int:
        """Read what comes within the time, until nothing more is there; return how many answers."""
        return sum(self._read(self._places[fd]) for fd, _ in self._epoll.poll(seconds))

    def _read(self, at: int) -> int:
        buffer, answers = self._buffers[at], 0
        got = self._sockets[at].recv(_READ_BYTES)
        if not got:
            raise LoadFailed(f"the broker closed connection {at} of {len(self)}")
        buffer += got
        done = 0
        while len(buffer) - done >= 8:
            total, word = struct.unpack_from(">II", buffer, done)
            if len(buffer) - done < total + 4:
                break
            header = json.loads(buffer[done + 8 : done + 8 + (word & 0xFFFFFF)])
            if header.get("flag", 0) & 1:  # and no notice of the broker's
                answers += 1
                if header["code"]:
                    raise LoadFailed(f"refused with {header['code']}: {header.get('remark')}")
            done += total + 4
        del buffer[:done]
        return answers


def raise_files_limit() -> None:
    """Let this process, and who is started by it, have as many open files as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
