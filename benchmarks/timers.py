"""How late messages with a time of their own come, and what waiting ones cost in memory.

    PYTHONPATH=tests .venv/bin/python -m benchmarks.timers --rate 20000 --seconds 10

Sends what is due within some seconds that begin later, evenly by the millisecond, waits until all
of it is in its topic, and holds each record's store time against the time it was sent for.
"""

import argparse
import asyncio
import tempfile
import time
from array import array
from pathlib import Path

from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, send_command
from support.servers.child_broker import ChildBroker, child_broker

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import FrameReader, encode_frame
from aerobee.remoting.message.properties import Property, find_property
from aerobee.remoting.message.record import iter_records

AT_ONCE = 64
BODY = bytes(1024)
TOPIC = "T"
QUEUES = 4


def encoded(dues_ms: list[int]) -> list[bytes]:
    """Return the sends, some to a piece."""
    frames = [
        encode_frame(
            send_command(
                BODY,
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


async def lateness(port: int, count: int, deadline_s: float) -> "array[int]":
    """Return how late (ms) each message was stored in its topic, once all are."""
    late = array("q")
    offsets = [0] * QUEUES
    async with await RawPeer.connect(port) as peer:
        while len(late) < count and time.monotonic() < deadline_s:
            before = len(late)
            for queue_id in range(QUEUES):
                reply = await peer.request(
                    pull_command(offsets[queue_id], topic=TOPIC, queue_id=queue_id)
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


async def measure(broker: ChildBroker, rate: int, seconds: int, lead_s: int) -> None:
    """Send, wait, look, print."""
    count = rate * seconds
    first_ms = time.time_ns() // 1_000_000 + lead_s * 1000
    pieces = encoded([first_ms + number * 1000 // rate for number in range(count)])
    took_s = await send_all(broker.port, pieces)
    left_s = first_ms / 1000 - time.time()
    print(f"sent {count} in {took_s:.1f} s, {left_s:.1f} s before the first is due")
    print(f"memory while they wait: {broker.peak_mb} MiB at most, shared pages included")
    await asyncio.sleep(max(0.0, left_s) + seconds + 1)
    late = sorted(await lateness(broker.port, count, time.monotonic() + 60))
    assert len(late) == count, f"{len(late)} of {count} came"
    for name, share in (("median", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        print(f"{name}: {late[int(share * (count - 1))]} ms late")
    print(f"at least {late[0]}, at most {late[-1]} ms; {broker.peak_mb} MiB at most")


def main() -> None:
    """Read what is asked for, and measure it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20_000, help="deliveries a second")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--lead", type=int, default=60, help="seconds to send all of them in")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        child_broker(Path(folder), mappedFileSizeCommitLog=1 << 30) as broker,
    ):
        asyncio.run(measure(broker, options.rate, options.seconds, options.lead))


if __name__ == "__main__":
    main()
