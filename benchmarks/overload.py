"""What a broker serves of twice the load that it can carry, and how late.

    PYTHONPATH=tests python -m benchmarks.overload [--seconds 5] [--connections 16]

First the best rate: as many open requests as a closed loop needs. Then twice as much is offered, by
the clock and whatever is answered. A message's time begins when the kernel has taken its last byte;
our sockets keep little themselves, so most of that time it lies in the broker's. Exits with 1 where
less than 90 % of the best rate is acknowledged, or a message is acknowledged later than
waitTimeMillsInSendQueue after it came.
"""

import argparse
import os
import select
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import compiling
from benchmarks.brokers import AerobeeTarget
from benchmarks.generator import LoadFailed
from benchmarks.loads import Bar, Load, Variant
from benchmarks.messages import QUEUES, send_frame
from benchmarks.processes import cpu_seconds
from benchmarks.target import Cpus

FRAMES: Final = 256  # that are sent again and again
BODY_BYTES: Final = 1024
WINDOW: Final = 64  # open requests of a connection, for the best rate
OFFERED: Final = 2.0  # times the best rate
SERVED_LEAST: Final = 0.9  # of the best rate
WAIT_MS: Final = 200  # waitTimeMillsInSendQueue, as it comes
SEND_BUFFER_BYTES: Final = 64 * 1024  # of our sockets: what is in there has not come yet
WRITE_BYTES_MAX: Final = 32 * 1024
WARM_SHARE: Final = 0.3  # of each run, which is not counted

_STORED: Final = b'"code":0,'
_BUSY: Final = b'"code":2,'


@dataclass(slots=True)
class Producer:
    """One connection: the requests it has sent, and when."""

    sock: socket.socket
    sent_bytes: int = 0
    sent: int = 0  # whole requests
    allowed: int = 0  # requests that are due
    answered: int = 0
    times: deque[tuple[int, float]] = field(default_factory=deque)  # requests up to then, and when
    taken: int = 0  # answered requests whose age is known
    rest: bytes = b""


@dataclass(slots=True)
class Tally:
    """What came back while it was counted; ages in seconds, of acknowledged messages."""

    acknowledged: int = 0
    refused: int = 0
    ages: list[tuple[float, int]] = field(default_factory=list)  # of so many messages
    seconds: float = 0.0
    cpu_us: float = 0.0

    @property
    def rate(self) -> float:
        """Acknowledged messages per second."""
        return self.acknowledged / self.seconds

    def age_ms(self, share: float) -> float:
        """Return the age below which this share of the acknowledged messages was."""
        ages, left = sorted(self.ages), share * sum(count for _, count in self.ages)
        for age_s, count in ages:
            left -= count
            if left <= 0:
                return age_s * 1000
        return ages[-1][0] * 1000 if ages else 0.0


class Offering:
    """Sends the same frames over all connections, and matches the answers, which keep order."""

    def __init__(self, port: int, connections: int) -> None:
        frames = [send_frame(1000 + number, BODY_BYTES) for number in range(FRAMES)]
        self._size = len(frames[0])
        assert all(len(frame) == self._size for frame in frames)
        self._ring = memoryview(b"".join(frames) * 2)
        self.tally = Tally()
        self._producers = [Producer(_connected(port)) for _ in range(connections)]
        self._poll = select.epoll()
        self._by_fd = {each.sock.fileno(): each for each in self._producers}
        for fd in self._by_fd:
            self._poll.register(fd, select.EPOLLIN)

    def run(self, seconds: float, rate: float | None, pid: int) -> Tally:
        """Offer `rate` messages a second, None: as many as a window leaves open, for a while."""
        tally, began_s = Tally(), time.perf_counter()
        warm_s, end_s, cpu_s = began_s + seconds * WARM_SHARE, began_s + seconds, 0.0
        first = [each.answered for each in self._producers]
        self.tally = Tally()
        while (now_s := time.perf_counter()) < end_s:
            if now_s >= warm_s and self.tally is not tally:
                self.tally, warm_s, cpu_s = tally, now_s, cpu_seconds([pid])
            for at, each in enumerate(self._producers):
                each.allowed = each.answered + WINDOW
                if rate is not None:
                    due = rate * (now_s - began_s) / len(self._producers)
                    each.allowed = first[at] + int(due)
                self._send(each)
            for fd, _ in self._poll.poll(0.0005):
                self._receive(self._by_fd[fd])
        tally.seconds = time.perf_counter() - warm_s
        tally.cpu_us = (cpu_seconds([pid]) - cpu_s) / max(1, tally.acknowledged) * 1e6
        self._drain()
        return tally

    def _drain(self) -> None:
        """Wait for the answers to all that was sent."""
        self.tally, end_s = Tally(), time.perf_counter() + 30
        while any(each.sent_bytes > each.answered * self._size for each in self._producers):
            if time.perf_counter() > end_s:
                raise LoadFailed("requests have no answer, or one of another code than 0 and 2")
            for each in self._producers:
                each.allowed = -(-each.sent_bytes // self._size)  # ends a frame that has begun
                self._send(each)
            for fd, _ in self._poll.poll(0.01):
                self._receive(self._by_fd[fd])

    def _send(self, each: Producer) -> None:
        while (wanted := each.allowed * self._size - each.sent_bytes) > 0:
            at = each.sent_bytes % (FRAMES * self._size)
            try:
                count = each.sock.send(self._ring[at : at + min(wanted, WRITE_BYTES_MAX)])
            except BlockingIOError:
                return
            each.sent_bytes += count
            whole = each.sent_bytes // self._size
            if whole > each.sent:
                each.sent = whole
                each.times.append((whole, time.perf_counter()))

    def _receive(self, each: Producer) -> None:
        try:
            data = each.rest + each.sock.recv(1 << 18)
        except BlockingIOError:
            return
        if len(data) == len(each.rest):
            raise LoadFailed("the broker closed a connection")
        now_s, tally, times = time.perf_counter(), self.tally, each.times
        stored, refused = data.count(_STORED), data.count(_BUSY)
        each.rest = data[1 - len(_STORED) :]  # in which none of them is whole
        each.answered += stored + refused
        tally.acknowledged += stored
        tally.refused += refused
        while times and (count := min(times[0][0], each.answered) - each.taken) > 0:
            each.taken += count
            if stored:  # answers come in order, and those of one read are alike
                tally.ages.append((now_s - times[0][1], count))
            if each.taken == times[0][0]:
                times.popleft()


def _connected(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.connect(("127.0.0.1", port))
    sock.setblocking(False)
    return sock


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print two lines; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args(words)
    usable = sorted(os.sched_getaffinity(0))
    cpus = Cpus(server=usable[0], generator=usable[-1])
    os.sched_setaffinity(0, {cpus.generator})
    with tempfile.TemporaryDirectory(prefix="overload-") as folder:
        target = AerobeeTarget(Path(folder) / "target", cpus, sync_flush=False, wait_ms=WAIT_MS)
        try:
            target.start()
            load = Load("send", "overload", "send", (), Bar())
            target.prepare(load, Variant(1, QUEUES, tags_first=False))
            best = Offering(target.port, options.connections).run(options.seconds, None, target.pid)
            much = Offering(target.port, options.connections).run(
                options.seconds, best.rate * OFFERED, target.pid
            )
        finally:
            target.stop()
    return _report(best, much)


def _report(best: Tally, much: Tally) -> int:
    for name, tally in (("best", best), ("twice as much", much)):
        print(
            f"{name:13} {tally.rate:9,.0f}/s acknowledged, {tally.refused:7,} refused,"
            f" {tally.cpu_us:.2f} us of CPU each, came p50 {tally.age_ms(0.5):6.1f} ms"
            f" p99 {tally.age_ms(0.99):6.1f} ms longest {tally.age_ms(1):6.1f} ms before"
        )
    missed = []
    if much.rate < SERVED_LEAST * best.rate:
        missed.append(f"{much.rate / best.rate:.0%} of the best rate, not {SERVED_LEAST:.0%}")
    if much.age_ms(1) > WAIT_MS:
        missed.append(f"{much.age_ms(1):.0f} ms, more than {WAIT_MS}")
    for each in missed:
        print(f"missed: {each}")
    return 1 if missed else 0


if __name__ == "__main__":
    compiling.load_generator()
    compiling.sync_counter()
    sys.exit(main())
