"""Micro-benchmark of the broker's read loop: sends, from a socket read to the replies, no sockets.

    python -m benchmarks.pieces.bench_read_loop [--passes N]

The cost of a message depends on how many share a read, and on whether compiled code serves them
or Python; both are measured, in turn, where compiled code was built.
"""

import argparse
import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from aerobee.broker.compiled.choice import is_compiled
from benchmarks.pieces.messages import QUEUES, TOPIC, send_frame
from benchmarks.pieces.offline import OfflineConnection, offline_connection
from benchmarks.reports.timing import Case, best, print_best

READS = 20


def sends(connection: OfflineConnection, frames: int, body_bytes: int) -> Case:
    """Return a case that gives the broker some reads of so many sends each."""
    data = b"".join(send_frame(number, body_bytes) for number in range(frames))

    def case() -> int:
        before = connection.stored(TOPIC, QUEUES)
        for _ in range(READS):
            connection.read(data)
        assert connection.stored(TOPIC, QUEUES) - before == READS * frames
        return READS * frames

    return case


async def measure(passes: int) -> dict[str, float]:
    """Return microseconds per message by the kind of read and the code that serves it."""
    ways = {"Python": False} | ({"compiled": True} if is_compiled() else {})
    async with AsyncExitStack() as exits:
        connections = {}
        for way, compiled in ways.items():
            folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
            offline = offline_connection(folder, compiled=compiled)
            connections[way] = await exits.enter_async_context(offline)
        cases = {
            f"{size} B, {frames} per read, {way}": sends(connection, frames, size)
            for size in (1024, 128)
            for frames in (1, 8, 64)
            for way, connection in connections.items()
        }
        return best(cases, passes)


def main() -> None:
    """Print the smallest time of each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=60)
    options = parser.parse_args()
    found = asyncio.run(measure(options.passes))
    print_best("read loop, SEND_MESSAGE_V2, CPU per message", found)


if __name__ == "__main__":
    main()
