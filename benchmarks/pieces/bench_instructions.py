"""Instructions per message of the broker's work, counted by Valgrind: the same on a busy machine.

    python -m benchmarks.pieces.bench_instructions [--only CASE]

Time on a shared machine varies by a third, this by a thousandth; compare it before and after a
change of the hot path. It says nothing about caches and the kernel. Needs `valgrind`.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from aerobee.broker.compiled.choice import is_compiled
from benchmarks.pieces.messages import (
    QUEUES,
    TOPIC,
    Renewed,
    batch_frame,
    pull_frame,
    send_frame,
    spread_frame,
)
from benchmarks.pieces.offline import OfflineConnection, offline_connection
from benchmarks.pieces.transacting import Transacting
from benchmarks.targets.compiling import PROJECT, ToolMissing, tool

COMPILED = "compiled"
LIGHT: Final = {"enable_lmq": True, "enable_multi_dispatch": True}
UNINDEXED: Final = {"message_index_enable": False}
STORED: Final = 64  # before the first read, in each of the queues


class Reads(NamedTuple):
    """What a socket read brings, and how many messages that concerns.

    Where that depends on what was answered before, `next_data` makes it: as often in the run of
    few reads as in that of many, so that making it is hardly counted.
    """

    data: bytes
    messages: int
    few: int = 50  # reads; the difference between few and many cancels what a start costs
    many: int = 350
    once: bool = False  # to a topic that stores a retry once, with new unique keys in each read
    next_data: Callable[[OfflineConnection], bytes] | None = None
    settings: Mapping[str, Any] = {}  # of the broker, beside the usual ones
    signs: bool = False  # to a broker that asks who it is
    topics: int = 0  # that the messages are spread over, 0: all are to one


def sends(frames: int, body_bytes: int, more: str = "") -> Reads:
    """Return reads of so many single sends, with more properties."""
    data = b"".join(send_frame(number, body_bytes, more) for number in range(frames))
    return Reads(data, frames)


def spread(frames: int, body_bytes: int, topics: int) -> Reads:
    """Return reads of so many single sends, each to another queue of so many topics."""
    data = b"".join(spread_frame(number, body_bytes, topics) for number in range(frames))
    return Reads(data, frames, topics=topics)


def batches() -> Reads:
    """Return reads of four batches of 32."""
    data = b"".join(batch_frame(number, 1024, 32) for number in range(4))
    return Reads(data, 128, many=150)


def light(frames: int, queues: int) -> Reads:
    """Return reads of sends for so many light queues, to a broker that has them."""
    names = ",".join(f"%LMQ%{number}" for number in range(queues))
    more = f"INNER_MULTI_DISPATCH\x01{names}\x02" if queues else ""
    return sends(frames, 1024, more)._replace(settings=LIGHT, many=150)


def pulls(frames: int, messages: int) -> Reads:
    """Return reads of so many pulls, each of so many messages."""
    wanted = ("TAG", "*")
    data = b"".join(pull_frame(number, number % 4, 0, messages, wanted) for number in range(frames))
    return Reads(data, frames * messages, many=150)


def transactions(frames: int, body_bytes: int) -> Reads:
    """Return reads of so many half messages, and the ENDs that commit those of the read before."""
    return Reads(b"", frames, many=150, next_data=Transacting(frames, body_bytes).next_data)


CASES: Final[dict[str, Callable[[], Reads]]] = {
    "send-64x1KiB": lambda: sends(64, 1024),
    "send-64x128B": lambda: sends(64, 128),
    "send-64x1KiB-16x4": lambda: spread(64, 1024, 16),
    "send-64x128B-16x4": lambda: spread(64, 128, 16),
    "send-1x1KiB": lambda: sends(1, 1024)._replace(many=2050),
    "light-64x0": lambda: light(64, 0),
    "light-64x1": lambda: light(64, 1),
    "light-64x8": lambda: light(64, 8),
    "batch-4x32x1KiB": lambda: batches(),
    "unindexed-64x1KiB": lambda: sends(64, 1024)._replace(settings=UNINDEXED),
    "unindexed-64x128B": lambda: sends(64, 128)._replace(settings=UNINDEXED),
    "unindexed-batch-4x32x1KiB": lambda: batches()._replace(settings=UNINDEXED),
    "once-64x1KiB": lambda: sends(64, 1024)._replace(once=True),
    "once-1x1KiB": lambda: sends(1, 1024)._replace(many=2050, once=True),
    "once-batch-4x32x1KiB": lambda: Reads(
        b"".join(batch_frame(number, 1024, 32, first=32 * number) for number in range(4)),
        *(128, 50, 150, True),
    ),
    "pull-4x32": lambda: pulls(4, 32),
    "pull-1x1": lambda: pulls(1, 1)._replace(many=2050),
    "signed-64x1KiB": lambda: sends(64, 1024)._replace(signs=True),
    "signed-pull-4x32": lambda: pulls(4, 32)._replace(signs=True),
    "transact-64x1KiB": lambda: transactions(64, 1024),
    "transact-8x1KiB": lambda: transactions(8, 1024)._replace(many=1050),
}
"""How many frames come in one read, and what they are; `light-64xN`: for N light queues;
`unindexed`: without the index of keys; `signed`: with access control."""


def stored_by(connection: OfflineConnection, case: Reads) -> int:
    """Return how many messages the topics of a case have."""
    topics = [f"{TOPIC}{number}" for number in range(case.topics)] or [TOPIC]
    return sum(connection.stored(topic, QUEUES) for topic in topics)


async def serve_at_once(connection: OfflineConnection, case: Reads) -> None:
    """Give a case of many topics to the broker until all of a read is stored before it returns."""
    stored = -1
    while case.topics and stored < case.messages:
        before = stored_by(connection, case)
        connection.read(case.data)
        stored = stored_by(connection, case) - before
        await asyncio.sleep(0.2)


async def run_reads(case: Reads, reads: int, *, compiled: bool) -> None:
    """Handle so many reads and end at once, so that stopping is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        async with offline_connection(
            Path(folder),
            log_bytes=128 << 20,
            compiled=compiled,
            once=case.once,
            signs=case.signs,
            more=case.settings,
        ) as connection:
            case = case._replace(data=connection.signed(case.data))
            await serve_at_once(connection, case)
            before = Renewed(connection.signed(sends(64, 1024).data))
            for number in range(STORED // 16):
                connection.read(before.next(0x100_0000 + number))
            if case.next_data is not None:
                connection.read(case.next_data(connection))  # to have something to commit
            stored, written = stored_by(connection, case), connection.transport.written_bytes
            renewed = Renewed(case.data)
            if case.next_data is None:
                for number in range(reads):
                    connection.read(renewed.next(0x200_0000 + number) if case.once else case.data)
            else:
                for number in range(case.many):
                    data = case.next_data(connection)
                    if number < reads:
                        connection.read(data)
                        await asyncio.sleep(0)  # op messages are written as the turn ends
            stored = stored_by(connection, case) - stored
            written = connection.transport.written_bytes - written
            done = reads * case.messages
            assert stored == done or written > done * 1024, "all were stored, or all were pulled"


def instructions(name: str, reads: int, way: str) -> int:
    """Return what Valgrind counts for a process that handles so many reads."""
    valgrind = tool("valgrind", "install valgrind to count instructions")
    command = [
        *(valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"),
        *(sys.executable, "-m", "benchmarks.pieces.bench_instructions", "--reads", str(reads)),
        *("--way", way, "--only", name),
    ]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


def main() -> int:
    """Print instructions per message."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CASES, action="append", help="a case; may be repeated")
    parser.add_argument("--reads", type=int, help=argparse.SUPPRESS)  # within Valgrind
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.only or [*CASES]
    if options.reads:
        case = CASES[names[0]]()
        asyncio.run(run_reads(case, options.reads, compiled=options.way == COMPILED))
        return 0
    for name in names:
        case = CASES[name]()
        for way in ("Python", COMPILED) if is_compiled() else ("Python",):
            try:
                spent = instructions(name, case.many, way) - instructions(name, case.few, way)
            except ToolMissing as error:
                print(f"error: {error}", file=sys.stderr)
                return 2
            each = spent / (case.messages * (case.many - case.few))
            print(f"{name}, {way}: {each:,.0f} instructions per message", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
