"""How fast one process consumes, and what prefetched messages cost, against Aerobee's broker.

    PYTHONPATH=tests python -m benchmarks.consuming [--rounds N] [--messages N] [--beside DIR]

The broker has the first CPU, the client the last. Each run is a process and a group of its own that
consumes what the topic holds: 1 KiB bodies that do not repeat, one tag, one key, 4 queues.
`--beside` measures another checkout (its `.dev`, as it is compiled there) in turns with this one.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

BODY_BYTES: Final = 1024
QUEUES: Final = 4
TOPIC: Final = "consumed"
SECONDS_MAX: Final = 120.0
WAYS: Final = ("batch", "single", "poll", "iterate", "memory")
LEAST: Final = {"batch": 450_000, "single": 280_000}
"""Messages a second."""
HERE: Final = Path(__file__).resolve().parents[1]


# --- the client, a process of its own ---


def measured(way: str, namesrv: str, group: str, count: int) -> dict[str, float]:
    """Consume in one of the ways; return what it took."""
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    return asyncio.run(_remember(namesrv, group, count) if way == "memory" else
                       _consume(way, namesrv, group, count))  # fmt: skip


async def _consume(way: str, namesrv: str, group: str, count: int) -> dict[str, float]:
    """Time starts with the first messages, and ends with the last ones."""
    meter = _Meter(count)
    if way in ("poll", "iterate"):
        await asyncio.wait_for(_poll(way, namesrv, group, meter), SECONDS_MAX)
    else:
        await asyncio.wait_for(_push(way, namesrv, group, meter), SECONDS_MAX)
    return meter.figures()


class _Meter:
    def __init__(self, count: int) -> None:
        self.left = count
        self.done = asyncio.Event()
        self.counted = 0
        self.began = self.began_cpu = self.took = self.took_cpu = 0.0

    def add(self, bodies: Sequence[bytes]) -> None:
        """Count messages by their bodies, which everybody reads."""
        if not self.began:
            self.began, self.began_cpu = time.perf_counter(), time.process_time()
            self.left -= len(bodies)
            return
        self.counted += sum(len(body) == BODY_BYTES for body in bodies)
        if self.counted >= self.left and not self.done.is_set():
            self.took = time.perf_counter() - self.began
            self.took_cpu = time.process_time() - self.began_cpu
            self.done.set()

    def add_one(self, body: bytes) -> None:
        """The same for one."""
        if self.began and self.counted + 1 < self.left:
            self.counted += len(body) == BODY_BYTES
        else:
            self.add((body,))

    def figures(self) -> dict[str, float]:
        """Return messages a second, and CPU microseconds of a message."""
        return {
            "rate": self.counted / self.took,
            "cpu_us": 1e6 * self.took_cpu / self.counted,
        }


async def _push(way: str, namesrv: str, group: str, meter: _Meter) -> None:
    from aerobee.client import ConsumeFrom, PushConsumer, ReceivedMessage

    async def some(messages: list[ReceivedMessage]) -> None:
        meter.add([message.body for message in messages])

    async def one(message: ReceivedMessage) -> None:
        meter.add_one(message.body)

    consumer = PushConsumer(group, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    if way == "batch":
        consumer.subscribe(TOPIC, some, batch=1_024)
    else:
        consumer.subscribe(TOPIC, one)
    async with consumer:
        await meter.done.wait()


async def _poll(way: str, namesrv: str, group: str, meter: _Meter) -> None:
    from aerobee.client import ConsumeFrom, LitePullConsumer

    consumer = LitePullConsumer(group, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(TOPIC)
    async with consumer:
        if way == "iterate":
            async for message in consumer:
                meter.add_one(message.body)
                if meter.done.is_set():
                    return
        while not meter.done.is_set():
            meter.add([message.body for message in await consumer.poll()])


async def _remember(namesrv: str, group: str, count: int) -> dict[str, float]:
    """Fetch everything ahead and hand out nothing; return what one message takes of memory."""
    from aerobee.client import ConsumeFrom, LitePullConsumer, LitePullSettings
    from aerobee.client.settings import PullSettings

    pull = PullSettings(
        queue_messages_max=65_535,
        queue_bytes_max=1 << 30,
        queue_span_max=65_535,
    )
    settings = LitePullSettings(fetched_messages_max=1 << 30, fetched_bytes_max=1 << 40, pull=pull)
    consumer = LitePullConsumer(
        group, namesrv=namesrv, consume_from=ConsumeFrom.FIRST, settings=settings
    )
    consumer.subscribe(TOPIC)
    wanted = min(count, QUEUES * 60_000) - 1_000  # what came before the clock is not counted
    async with consumer:
        while not (await consumer.poll(100)):
            pass
        before, held_before = _anonymous(), _fetched(consumer)
        async with asyncio.timeout(SECONDS_MAX):
            while _fetched(consumer) < wanted:  # noqa: ASYNC110 - nothing tells of that
                await asyncio.sleep(0.01)
        held = _fetched(consumer) - held_before
        return {"bytes": (_anonymous() - before) / held, "held": held}


def _fetched(consumer: Any) -> int:
    return sum(each.messages for each in consumer.statistics().values())


def _anonymous() -> int:
    """Return this process's own memory in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon")


# --- the other side ---


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print; return the exit status."""
    options = _parser().parse_args(words)
    if options.way:
        print(json.dumps(measured(options.way, options.namesrv, options.group, options.messages)))
        return 0
    trees = [HERE, *(Path(each).resolve() for each in options.beside)]
    found: dict[tuple[Path, str], list[dict[str, float]]] = {}
    from support.interop.aerobee_server import Aerobee
    from support.interop.raw_messages import create_topic, wait_for_route

    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[0]})
    with (
        tempfile.TemporaryDirectory(prefix="consuming-") as folder,
        Aerobee(Path(folder)) as broker,
    ):
        os.sched_setaffinity(0, {cpus[-1]})
        create_topic(broker.broker, TOPIC, QUEUES)
        wait_for_route(broker.namesrv, TOPIC)
        asyncio.run(_fill(broker.namesrv, options.messages))
        for number in range(options.rounds):
            for way in options.ways:
                for at, tree in enumerate(trees):
                    group = f"{way}-{number}-{at}"
                    said = _run(tree, way, broker.namesrv, group, options.messages)
                    found.setdefault((tree, way), []).append(said)
    return _report(found)


async def _fill(namesrv: str, count: int) -> None:
    """Send what is to be consumed."""
    from aerobee.client import Message, Producer

    async with Producer("filling", namesrv=namesrv) as producer:
        for begin in range(0, count, 64 * 32):
            await asyncio.gather(
                *(
                    producer.send_many(
                        [
                            Message(TOPIC, os.urandom(BODY_BYTES), tags="tag", keys=f"key{at}")
                            for at in range(first, min(first + 32, count))
                        ]
                    )
                    for first in range(begin, min(begin + 64 * 32, count), 32)
                )
            )


def _run(tree: Path, way: str, namesrv: str, group: str, count: int) -> dict[str, float]:
    paths = os.pathsep.join((str(tree / ".dev"), str(HERE)))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--way", way, "--namesrv", namesrv,
         "--group", group, "--messages", str(count)],
        env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True, text=True,
        timeout=2 * SECONDS_MAX,
    )  # fmt: skip
    said: dict[str, float] = json.loads(done.stdout)
    print(f"{tree.name} {way}: {said}", file=sys.stderr, flush=True)
    return said


def _report(found: dict[tuple[Path, str], list[dict[str, float]]]) -> int:
    missed = False
    for (tree, way), rounds in found.items():
        middle = {name: median(each[name] for each in rounds) for name in rounds[0]}
        if way == "memory":
            above = middle["bytes"] - BODY_BYTES
            print(
                f"{tree.name:12} {way:8} {middle['bytes']:9,.0f} bytes, {above:,.0f} above a body"
            )
            continue
        rates = sorted(each["rate"] for each in rounds)
        print(
            f"{tree.name:12} {way:8} {middle['rate']:9,.0f}/s"
            f" ({rates[0]:,.0f} to {rates[-1]:,.0f}), {middle['cpu_us']:.2f} us of CPU each"
        )
        missed |= tree == HERE and middle["rate"] < LEAST.get(way, 0)
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consuming", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--beside", nargs="*", default=[], help="other checkouts")
    for word in ("--way", "--namesrv", "--group"):
        parser.add_argument(word, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
