"""What it costs a Python process to read pull replies and do nothing with them.

    python -m benchmarks.pieces.read_floor [--seconds S] [--rounds N] [--way WAY]

A server in C on the first CPU answers pulls of 32 messages of 1 KiB out of the page cache; one
process on the last CPU has a pull of each of 4 queues under way and sends the next as soon as a
reply is complete. `protocol` is told of what uvloop has read, as our client is; `buffered` has
it read into memory of its own; `socket` is without an event loop.
"""

import argparse
import asyncio
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable
from statistics import median
from typing import Final

import uvloop

from benchmarks.targets import compiling

QUEUES: Final = 4
COUNT: Final = 32
SPREAD_MIB: Final = 256
PULLS: Final = (SPREAD_MIB << 20) // 1300 // QUEUES // COUNT  # of a queue, then it begins anew
BUFFER_BYTES: Final = 256 * 1024
WAYS: Final = ("protocol", "buffered", "socket")


HEADER: Final = (
    b'{"code":11,"extFields":{"queueId":"%d","queueOffset":"%d","maxMsgNums":"%d"},"flag":0,'
    b'"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}'
)


def request(number: int) -> bytes:
    """Return the frame of a pull; they go from queue to queue."""
    queue, offset = number % QUEUES, number // QUEUES % PULLS * COUNT
    header = HEADER % (queue, offset, COUNT, number + 1)
    return (len(header) + 4).to_bytes(4) + len(header).to_bytes(4) + header


class Replies:
    """Counts the replies in a stream of bytes, and says what is to be sent for each."""

    def __init__(self) -> None:
        self.pulls = self.reads = 0
        self._left = 0  # bytes of the reply that is arriving
        self._word = b""  # of its length, as far as it is there

    def take(self, data: memoryview) -> bytes:
        """Return the requests that follow what has arrived."""
        begun = self.pulls
        at, end = 0, len(data)
        self.reads += 1
        while at < end:
            if not self._left:
                word = data[at : at + 4 - len(self._word)]
                at += len(word)
                self._word += word
                if len(self._word) == 4:
                    self._left, self._word = int.from_bytes(self._word), b""
                continue
            taken = min(self._left, end - at)
            self._left -= taken
            at += taken
            self.pulls += not self._left
        return b"".join(map(request, range(begun + QUEUES, self.pulls + QUEUES)))


class Plain(asyncio.Protocol):
    """Is given what was read as bytes."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first pulls."""
        self._transport = transport
        transport.write(b"".join(map(request, range(QUEUES))))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Count, and ask for more."""
        if asked := self._replies.take(memoryview(data)):
            self._transport.write(asked)  # type: ignore[attr-defined]


class Buffered(asyncio.BufferedProtocol):
    """Has what is read put into one buffer, again and again."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._buffer = memoryview(bytearray(BUFFER_BYTES))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first pulls."""
        self._transport = transport
        transport.write(b"".join(map(request, range(QUEUES))))  # type: ignore[attr-defined]

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Count, and ask for more."""
        if asked := self._replies.take(self._buffer[:nbytes]):
            self._transport.write(asked)  # type: ignore[attr-defined]


def read_for(way: str, port: int, seconds: float) -> tuple[float, float, float]:
    """Return messages a second, CPU us of one, and KiB of a read."""
    replies = Replies()
    began, began_cpu = time.perf_counter(), time.process_time()
    if way == "socket":
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.sendall(b"".join(map(request, range(QUEUES))))
            buffer = memoryview(bytearray(BUFFER_BYTES))
            while time.perf_counter() - began < seconds:
                sock.sendall(replies.take(buffer[: sock.recv_into(buffer)]))
    else:
        make = Plain if way == "protocol" else Buffered
        uvloop.run(_read(lambda: make(replies), port, seconds))
    took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    messages = replies.pulls * COUNT
    return messages / took, 1e6 * took_cpu / messages, messages * 1300 / 1024 / replies.reads


async def _read(make: Callable[[], asyncio.BaseProtocol], port: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(make, "127.0.0.1", port)
    await asyncio.sleep(seconds)
    transport.abort()


def main() -> None:
    """Measure, in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", action="append", choices=WAYS)
    options = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    command = [str(compiling.load_generator()), "floor", "--spread-mib", str(SPREAD_MIB),
               "--queues", str(QUEUES), "--cpu", str(cpus[0])]  # fmt: skip
    os.sched_setaffinity(0, {cpus[-1]})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            said = re.search(r"serves on (\d+)", server.stdout.readline())
            assert said
            found: dict[str, list[tuple[float, float, float]]] = {}
            for _ in range(options.rounds):
                for way in options.way or WAYS:
                    found.setdefault(way, []).append(read_for(way, int(said[1]), options.seconds))
        finally:
            server.kill()
    for way, rounds in found.items():
        rate, cpu_us, kib = (median(each) for each in zip(*rounds, strict=True))
        print(f"{way:9} {rate:10,.0f}/s, {cpu_us:.2f} us of CPU each, {kib:.0f} KiB a read")


if __name__ == "__main__":
    main()
