"""How late messages with a time of their own come, beside RocketMQ's in the same run.

    PYTHONPATH=tests .venv/bin/python -m benchmarks.producing.timers --rounds 3 --rocketmq

Sends what is due within some seconds that begin later, evenly by the millisecond, waits until all
of it is in its topic, and holds each record's store time against the time it was sent for. The
servers take turns; the other one is stopped (SIGSTOP) meanwhile.
"""

import argparse
import asyncio
import os
import signal
import statistics
import tempfile
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.raw_messages import create_topic, wait_for_route
from support.interop.rocketmq_server import FULL_SPEED, RocketMQ
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, send_command

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import FrameReader, encode_frame
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.message.record import iter_records

AT_ONCE = 64
BODY = bytes(1024)
QUEUES = 4
SHARES = {"median": 0.5, "p99": 0.99, "p99.9": 0.999}
BARS_MS = {"median": 10, "p99": 100}
SETTINGS = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "timerWheelEnable": "true",
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
    "waitTimeMillsInSendQueue": "5000",  # a slow minute of the machine is no reason to refuse
}


def encoded(topic: str, dues_ms: list[int]) -> list[bytes]:
    """Return the sends, some to a piece."""
    frames = [
        encode_frame(
            send_command(
                BODY,
                topic=topic,
                queue_id=number % QUEUES,
                properties=f"UNIQ_KEY\x01{number:032X}\x02TIMER_DELIVER_MS\x01{due_ms}\x02",
            )
        )
        for number, due_ms in enumerate(dues_ms)
    ]
    return [b"".join(frames[at : at + AT_ONCE]) for at in range(0, len(frames), AT_ONCE)]


async def send_all(port: int, pieces: list[bytes]) -> float:
    """Send what is encoded; return the seconds that it took."""
    began_s = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        frames, answered = FrameReader(), 0
        while answered < piece.count(b"TIMER_DELIVER_MS"):
            frames.feed(await reader.read(1 << 16))
            for reply in frames:
                assert reply.code == ResponseCode.SUCCESS, reply
                answered += 1
    writer.close()
    return time.monotonic() - began_s


async def lateness(port: int, topic: str, count: int, deadline_s: float) -> "array[int]":
    """Return how late (ms) each message was stored in its topic, once all are."""
    late = array("q")
    offsets = [0] * QUEUES
    async with await RawPeer.connect(port) as peer:
        while len(late) < count and time.monotonic() < deadline_s:
            before = len(late)
            for queue_id in range(QUEUES):
                reply = await peer.request(
                    pull_command(offsets[queue_id], topic=topic, queue_id=queue_id)
                )
                if reply.code != ResponseCode.SUCCESS:
                    continue
                for record in iter_records(bytes(reply.body)):
                    due = find_property(record.properties, Property.TIMER_DELIVER_MS)
                    late.append(record.store_timestamp - int(due or 0))
                    offsets[queue_id] += 1
            if len(late) == before:
                await asyncio.sleep(0.05)
    return late


async def measure(port: int, topic: str, rate: int, seconds: int, lead_s: int) -> dict[str, int]:
    """Send, wait, look; return how late (ms) the shares of `SHARES` were."""
    count = rate * seconds
    first_ms = time.time_ns() // 1_000_000 + lead_s * 1000
    pieces = encoded(topic, [first_ms + number * 1000 // rate for number in range(count)])
    took_s = await send_all(port, pieces)
    left_s = first_ms / 1000 - time.time()
    await asyncio.sleep(max(0.0, left_s) + seconds + 1)
    late = sorted(await lateness(port, topic, count, time.monotonic() + 120))
    assert len(late) == count, f"{len(late)} of {count} came"
    shares = {name: late[int(share * (count - 1))] for name, share in SHARES.items()}
    print(
        f"  sent {count:,} in {took_s:.1f} s, {left_s:.1f} s before the first is due; late by "
        + ", ".join(f"{name} {ms} ms" for name, ms in shares.items())
        + f"; at least {late[0]}, at most {late[-1]} ms",
        flush=True,
    )
    assert left_s > 0, "what is due already is no measure: give it a longer --lead"
    return shares


@contextmanager
def going_on(cluster: Cluster) -> Iterator[int]:
    """Let a broker go on meanwhile that stands still otherwise; yield its port."""
    assert cluster.broker_process is not None
    pid = cluster.broker_process.pid
    os.kill(pid, signal.SIGCONT)
    try:
        yield int(cluster.broker.rsplit(":", 1)[1])
    finally:
        os.kill(pid, signal.SIGSTOP)


def report(name: str, rounds: list[dict[str, int]]) -> None:
    """Print medians over the rounds, and how far these lie apart."""
    for share in SHARES:
        found = [each[share] for each in rounds]
        bar = f", at most {BARS_MS[share]} wanted" if share in BARS_MS and name == "aerobee" else ""
        print(f"{name}: {share} {statistics.median(found)} ms ({min(found)} to {max(found)}{bar})")


def main() -> None:
    """Read what is asked for, and measure it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20_000, help="deliveries a second")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--lead", type=int, default=60, help="seconds to send all of them in")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rocketmq", action="store_true", help="RocketMQ 5.5.0 beside it")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clusters: list[Cluster] = [Aerobee(folder / "aerobee", settings=SETTINGS)]
        if options.rocketmq:
            clusters.append(RocketMQ(folder / "rocketmq", settings=SETTINGS, jvm=FULL_SPEED))
        for cluster in clusters:
            stack.enter_context(cluster)
        figures: dict[str, list[dict[str, int]]] = {cluster.name: [] for cluster in clusters}
        topics = [f"T{number}" for number in range(options.rounds)]
        for cluster in clusters:
            for topic in topics:
                create_topic(cluster.broker, topic, QUEUES)
                wait_for_route(cluster.namesrv, topic)
        for cluster in clusters:
            with going_on(cluster):
                pass
        for topic in topics:
            for cluster in clusters:
                print(f"{cluster.name}, {topic}:")
                with going_on(cluster) as port:
                    figures[cluster.name].append(
                        asyncio.run(
                            measure(port, topic, options.rate, options.seconds, options.lead)
                        )
                    )
        for name, rounds in figures.items():
            report(name, rounds)
        if any(statistics.median(each[share] for each in figures["aerobee"]) > bar
               for share, bar in BARS_MS.items()):  # fmt: skip
            raise SystemExit(1)


if __name__ == "__main__":
    main()
