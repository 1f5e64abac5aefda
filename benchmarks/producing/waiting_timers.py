"""What millions of messages that wait for their time cost: memory, disk, and a start over them.

    PYTHONPATH=tests .venv/bin/python -m benchmarks.producing.waiting_timers --folder DIR

Senders in processes of their own fill a broker, each message due at some second within two days.
With `--senders 0`, which is quicker, the files of a store are made (`waiting_store.py`), and a
broker takes them over as if they were RocketMQ's. Then it is stopped and started, killed and
started, and each time a message with a delay has to come in time beside those that wait. Memory is
RssAnon, which is what the broker has for itself, and Pss, which has its share of mapped files, too:
pages that the kernel takes back at will.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, send_command
from support.servers.killed_broker import KilledBroker

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import iter_records
from benchmarks.producing.waiting_store import QUEUE_BYTES, make

AT_ONCE = 256
BODY = b"0123456789"
TOPIC = "T"
QUEUES = 4
FIRST_S, LAST_S = 3600, 47 * 3600  # from the begin on: nothing is due while it is measured
PROBE = b"probe"
SETTLED_S = 10  # until what a start does beside requests has been done


def pieces(number: int, count: int, began_s: int) -> Iterator[bytes]:
    """Yield the sends of one process, some to a piece: the same but for key, time and queue."""
    dice = random.Random(number)
    parts = []
    for queue_id in range(QUEUES):
        properties = f"UNIQ_KEY\x01{'K' * 32}\x02TIMER_DELIVER_MS\x01{'9' * 13}\x02"
        frame = encode_frame(send_command(BODY, queue_id=queue_id, properties=properties))
        head, rest = frame.split(b"K" * 32)
        between, tail = rest.split(b"9" * 13)
        parts.append((head, between, tail))
    for at in range(0, count, AT_ONCE):
        frames: list[bytes] = []
        for each in range(at, min(at + AT_ONCE, count)):
            head, between, tail = parts[each % QUEUES]
            due_ms = began_s * 1000 + dice.randrange(FIRST_S * 1000, LAST_S * 1000)
            frames += (head, b"%016X%016X" % (number, each), between, b"%d" % due_ms, tail)
        yield b"".join(frames)


def send(port: int, number: int, count: int, began_s: int) -> None:
    """Send a share of the messages; each answer has to say that it was stored."""
    asyncio.run(_send(port, number, count, began_s))


async def _send(port: int, number: int, count: int, began_s: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    left = b""
    for piece in pieces(number, count, began_s):
        writer.write(piece)
        answers = piece.count(b"TIMER_DELIVER_MS")
        while answers:
            more = await reader.read(1 << 18)
            assert more, "the broker has closed the connection"
            data = left + more
            at = 0
            while len(data) - at >= 4:
                end = at + 4 + int.from_bytes(data[at : at + 4])
                if end > len(data):
                    break
                assert b'"code":0,' in data[at:end] or b'"code":0}' in data[at:end], data[at:end]
                answers, at = answers - 1, end
            left = data[at:]
    writer.close()


class Memory:
    """What a process has of memory at one moment, in MiB."""

    def __init__(self, broker: KilledBroker) -> None:
        assert broker.child is not None
        pid = broker.child.pid
        status = Path(f"/proc/{pid}/status").read_text()
        shares = Path(f"/proc/{pid}/smaps_rollup").read_text()
        self.anonymous = _mib(status, "RssAnon")
        self.share = _mib(shares, "Pss")

    def __str__(self) -> str:
        return f"RssAnon {self.anonymous} MiB, Pss {self.share} MiB"


def _mib(text: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None, name
    return int(found[1]) // 1024


async def waiting(port: int) -> int:
    """Return how many messages have a slot; -1 while some have none yet."""
    async with await RawPeer.connect(port) as peer:
        command = Command(code=RequestCode.GET_BROKER_RUNTIME_INFO, opaque=next_opaque())
        table = json.loads(bytes((await peer.request(command)).body))["table"]
        return -1 if table["timerOffsetBehind"] != "0" else int(table["timerCongestNum"])


async def probe(port: int) -> int:
    """Return how late (ms) a message comes that was sent for two seconds later."""
    async with await RawPeer.connect(port) as peer:
        due_ms = int(time.time() * 1000) + 2000
        properties = f"UNIQ_KEY\x01{due_ms:032X}\x02TIMER_DELIVER_MS\x01{due_ms}\x02"
        reply = await peer.request(send_command(PROBE, topic="P", properties=properties))
        assert reply.code == ResponseCode.SUCCESS, reply
        found, offset = None, 0
        while found is None:
            reply = await peer.request(pull_command(offset, topic="P", suspend_ms=20_000))
            if reply.code != ResponseCode.SUCCESS:
                continue
            for record in iter_records(bytes(reply.body)):
                offset += 1
                if f"TIMER_DELIVER_MS\x01{due_ms}\x02".encode() in record.properties:
                    found = record.store_timestamp - due_ms
        return found


def fill(broker: KilledBroker, messages: int, senders: int) -> int:
    """Send everything; return the most anonymous memory (MiB) that the broker had meanwhile."""
    began_s, share = int(time.time()), messages // senders
    counts = [share] * (senders - 1) + [messages - share * (senders - 1)]
    processes = [
        multiprocessing.Process(target=send, args=(broker.port, number, count, began_s))
        for number, count in enumerate(counts)
    ]
    for process in processes:
        process.start()
    most, next_s = 0, time.monotonic()
    while any(process.is_alive() for process in processes):
        time.sleep(0.1)
        most = max(most, Memory(broker).anonymous)
        if time.monotonic() >= next_s:
            next_s += 30
            print(f"  {asyncio.run(waiting(broker.port)):,} wait; {Memory(broker)}", flush=True)
    for process in processes:
        process.join()
        assert process.exitcode == 0, "a sender failed"
    print(f"filled with {messages / (time.time() - began_s):,.0f} messages a second")
    return most


def look(broker: KilledBroker, name: str, began_s: float, wanted: int) -> None:
    """Print what a start took, until everything has its slot, and what memory the broker has."""
    serves_s = time.monotonic() - began_s
    while asyncio.run(waiting(broker.port)) < 0:
        time.sleep(0.05)
    ready_s = time.monotonic() - began_s
    found = asyncio.run(waiting(broker.port))
    late_ms = asyncio.run(probe(broker.port))
    time.sleep(SETTLED_S)
    print(
        f"{name}: serves after {serves_s:.2f} s, all have their slots after {ready_s:.2f} s;"
        f" {found:,} wait; {Memory(broker)}; a delay is {late_ms} ms late",
        flush=True,
    )
    assert found == wanted, f"{found} wait of {wanted}"
    assert late_ms >= 0


@contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    """Yield a folder for the store, and remove what is in it afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as found:
        yield Path(found)


def make_store(broker: KilledBroker, messages: int) -> None:
    """Have the files of so many messages made, and a broker started over them."""
    now_s = int(time.time())
    dice = np.random.default_rng(1)
    dues_ms = now_s * 1000 + dice.integers(FIRST_S * 1000, LAST_S * 1000, messages)
    asyncio.run(_send_one(broker.port, int(dues_ms[0])))
    assert broker.stop() == 0
    began_s = time.monotonic()
    make(broker.store, dues_ms, now_s)
    print(f"made the files in {time.monotonic() - began_s:.1f} s", flush=True)
    began_s = time.monotonic()
    broker.start()
    print(f"took over in {time.monotonic() - began_s:.1f} s; {Memory(broker)}", flush=True)


async def _send_one(port: int, due_ms: int) -> None:
    async with await RawPeer.connect(port) as peer:
        properties = f"UNIQ_KEY\x01{'K' * 32}\x02TIMER_DELIVER_MS\x01{due_ms}\x02"
        reply = await peer.request(send_command(BODY, properties=properties))
        assert reply.code == ResponseCode.SUCCESS, reply


def measure(broker: KilledBroker, messages: int, senders: int) -> None:
    """Fill, look, stop, look, kill, look."""
    broker.start()
    print(f"at rest: {Memory(broker)}", flush=True)
    if senders:
        most = fill(broker, messages, senders)
        print(f"while it fills: RssAnon {most} MiB at most")
    else:
        make_store(broker, messages)
    look(broker, "filled", time.monotonic(), messages)
    began_s = time.monotonic()
    assert broker.stop() == 0
    print(f"stopped after {time.monotonic() - began_s:.2f} s")
    files = [path for path in broker.store.rglob("*") if path.is_file()]
    print(f"store: {sum(path.stat().st_blocks for path in files) * 512 >> 20:,} MiB")
    began_s = time.monotonic()
    broker.start()
    look(broker, "started after a stop", began_s, messages)
    broker.kill()
    began_s = time.monotonic()
    broker.start()
    look(broker, "started after a kill", began_s, messages)


def main() -> None:
    """Read what is asked for, and measure it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--senders", type=int, default=2, help="processes; 0: files are made")
    parser.add_argument("--folder", type=Path, help="where the store goes: 700 bytes a message")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    more = dict(pair.split("=", 1) for pair in options.set)
    with scratch(options.folder) as folder:
        free = shutil.disk_usage(folder).free
        assert free > options.messages * 700, f"{folder} has {free} bytes only"
        broker = KilledBroker(
            folder, "ASYNC_FLUSH", mappedFileSizeCommitLog=str(1 << 30),
            mappedFileSizeConsumeQueue=str(QUEUE_BYTES), **more,
        )  # fmt: skip
        try:
            measure(broker, options.messages, options.senders)
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
