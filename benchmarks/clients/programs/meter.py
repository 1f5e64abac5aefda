"""What the programs of all clients have in common: orders, bodies, the clock, what is checked.

A program is started with an address and the file of the pool. Each line of its input is an order:
way, topic, group, seconds, count, first, parted by tabs. It prints `begin` and `end`, waits for a
line after each (the clock stands still), and answers with one line of JSON.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

BODY_BYTES: Final = 1024
STAMP_BYTES: Final = 16  # hexadecimal digits
TASKS: Final = 64
WARM_MESSAGES: Final = 512
"""Sent before the clock begins, so that routes are known and connections open."""
LOOK_MASK: Final = 63  # the clock is looked at once for so many messages
SAMPLE_MASK: Final = 255  # of messages taken one by one, one in 256 is looked at whole
TRIPS_SECONDS_MAX: Final = 60.0
SETTLE_S: Final = 0.1  # what comes once more, comes until then
PREFIX_MASK: Final = 0xFFFF
STEP: Final = 61


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done; `count` messages, or as many as can be sent in `seconds`."""

    way: str
    topic: str
    group: str
    seconds: float
    count: int
    first: int  # the number of the first message: no two bodies of a run are alike

    @classmethod
    def read(cls, line: str) -> "Order":
        """Return the order of a line."""
        way, topic, group, seconds, count, first = line.rstrip("\n").split("\t")
        return cls(way, topic, group, float(seconds), int(count), int(first))

    def warm_numbers(self) -> Iterator[int]:
        """Return the numbers of what is sent before the clock begins."""
        return iter(range(self.first, self.first + WARM_MESSAGES))

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of what is sent and measured."""
        number = self.first + WARM_MESSAGES
        last = self.first + self.count if self.count else sys.maxsize
        until = time.perf_counter() + self.seconds
        while number < last:
            if not number & LOOK_MASK and not self.count and time.perf_counter() >= until:
                return
            yield number
            number += 1

    def some_numbers(self) -> Iterator[int]:
        """Return the same for several threads, which stop by `is_over`."""
        return itertools.count(self.first + WARM_MESSAGES)


class Bodies:
    """Bodies of 1 KiB: a number, and bytes of the pool that it says.

    The pool has no zeros, at which the C++ binding would end a body.
    """

    def __init__(self, pool: bytes) -> None:
        self._pool = pool

    def of(self, number: int) -> bytes:
        """Return the body of a number."""
        at = number * STEP & PREFIX_MASK
        return b"%016x" % number + self._pool[at : at + BODY_BYTES - STAMP_BYTES]

    def is_whole(self, body: bytes) -> bool:
        """Whether a body is the one of its number."""
        return body == self.of(int(body[:STAMP_BYTES], 16))


class Clock:
    """What passed between `begin` and `end`: seconds, and CPU seconds of this process."""

    def __init__(self) -> None:
        self.seconds = self.cpu_s = self._began = self._cpu = 0.0

    def begin(self) -> None:
        """Tell who measures the server, and begin."""
        mark("begin")
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def end(self) -> None:
        """End, and tell who measures the server."""
        self.seconds = time.perf_counter() - self._began
        self.cpu_s = time.process_time() - self._cpu
        mark("end")


@dataclass(slots=True)
class Run:
    """One order's messages, and what was wrong with them."""

    order: Order
    bodies: Bodies
    clock: Clock = field(default_factory=Clock)
    acked: int = 0
    """Of all messages that were sent, those before the clock began included."""
    errors: list[str] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    """Seconds of each lone send."""
    more: dict[str, float] = field(default_factory=dict)

    def fail(self, what: object) -> None:
        """Note an error, of many the first ones."""
        if len(self.errors) < 10:
            self.errors.append(str(what))

    def expect_stored(self, before: int, after: int) -> None:
        """Hold what a topic grew by against what was acknowledged."""
        if after - before != self.acked:
            self.fail(f"{self.acked} acknowledged, {after - before} stored")

    def answer(self, messages: int) -> dict[str, Any]:
        """Return what is printed."""
        found = {
            "messages": messages,
            "seconds": self.clock.seconds,
            "cpu_s": self.clock.cpu_s,
            "acked": self.acked,
            "errors": self.errors,
            **self.more,
        }
        if self.took:
            ranked = sorted(self.took)
            found["p50_us"] = ranked[len(ranked) // 2] * 1e6
            found["p99_us"] = ranked[len(ranked) * 99 // 100] * 1e6
        return found


class Taken:
    """Counts what is consumed: the number of each message is kept, of some the body is looked at.

    The clock begins with the first messages, which are not counted, and ends with the last ones.
    A client that fetches much ahead in a thread of its own begins it before it fetches.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.done = False
        self._heads: list[bytes] = []
        self._count = run.order.count
        self._before = 0
        self._has_begun = False

    def begin(self) -> None:
        """Begin the clock before anything is fetched: all that comes is counted."""
        self._has_begun = True
        self.run.clock.begin()

    def add(self, bodies: list[bytes]) -> None:
        """Take some messages."""
        heads = self._heads
        if not self._has_begun:
            self._before = len(bodies)
            self.begin()
        heads += [body[:STAMP_BYTES] for body in bodies]
        if not self.run.bodies.is_whole(bodies[-1]):
            self.run.fail(f"a body is not what was sent: {bodies[-1][:32]!r}")
        if len(heads) >= self._count and not self.done:
            self._end()

    def add_one(self, body: bytes) -> None:
        """Take one message."""
        heads = self._heads
        heads.append(body[:STAMP_BYTES])
        length = len(heads)
        if length & SAMPLE_MASK == 1 or length == self._count:
            self._look(body, length)

    def _look(self, body: bytes, length: int) -> None:
        if not self._has_begun:
            self._before = 1
            self.begin()
        if not self.run.bodies.is_whole(body):
            self.run.fail(f"a body is not what was sent: {body[:32]!r}")
        if length == self._count and not self.done:
            self._end()

    def _end(self) -> None:
        self.run.clock.end()
        self.done = True

    def measured(self) -> int:
        """Return how many messages the clock saw; whatever came twice or never is an error."""
        numbers = {int(head, 16) for head in self._heads}
        if len(self._heads) != self._count or numbers != set(range(self._count)):
            self.run.fail(
                f"{len(self._heads)} came of {self._count}, {len(numbers)} of them distinct"
            )
        return self._count - self._before


Way = Callable[[Run], Coroutine[Any, Any, int] | int]
"""Does what an order says; returns how many messages the clock saw."""


def mark(word: str) -> None:
    """Print a word and wait until it was read."""
    print(word, flush=True)
    sys.stdin.readline()


def serve(ways: Mapping[str, Way]) -> None:
    """Obey orders until the input ends."""
    bodies = Bodies(Path(sys.argv[2]).read_bytes())
    while line := sys.stdin.readline():
        run = Run(Order.read(line), bodies)
        try:
            found = run.answer(_do(ways[run.order.way], run))
        except Exception as error:  # noqa: BLE001 - whatever it is, who asked must hear it
            found = {"messages": 0, "errors": [*run.errors, repr(error)]}
        print(json.dumps(found), flush=True)


def _do(way: Way, run: Run) -> int:
    began = way(run)
    if isinstance(began, int):
        return began
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(began)


async def in_tasks(run: Run, send: Callable[[int], Coroutine[Any, Any, Any]]) -> int:
    """Send from 64 tasks, each of which waits for its own; return how many were acknowledged."""
    before = run.acked
    numbers = run.order.numbers()

    async def some() -> None:
        for number in numbers:
            await send(number)
            run.acked += 1

    run.clock.begin()
    await asyncio.gather(*(some() for _ in range(TASKS)))
    run.clock.end()
    return run.acked - before


async def one_by_one(run: Run, send: Callable[[int], Coroutine[Any, Any, Any]]) -> int:
    """Send one after the other and note how long each took."""
    run.clock.begin()
    for number in run.order.numbers():
        began = time.perf_counter()
        await send(number)
        run.took.append(time.perf_counter() - began)
    run.clock.end()
    run.acked += len(run.took)
    return len(run.took)


async def round_trips(
    run: Run,
    send: Callable[[int], Coroutine[Any, Any, Any]],
    arrives: Callable[[], Coroutine[Any, Any, bytes]],
) -> int:
    """Send one after the other, each when the one before was handed to the consumer."""

    async def trip(number: int) -> None:
        await send(number)
        body = await arrives()
        if body != run.bodies.of(number):
            run.fail(f"message {number} was sent, {body[:32]!r} came")

    async with asyncio.timeout(TRIPS_SECONDS_MAX):
        for number in run.order.warm_numbers():
            await trip(number)
            run.acked += 1
        return await one_by_one(run, trip)


def anonymous_bytes() -> int:
    """Return this process's own memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not tell RssAnon")


def address() -> str:
    """Return where the server is."""
    return sys.argv[1]
