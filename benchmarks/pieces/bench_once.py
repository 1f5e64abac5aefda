"""Micro-benchmark of topics that store a producer's retry once: CPU beside topics that do not.

    python -m benchmarks.pieces.bench_once [--passes N]

Sends whose unique keys are new, from a socket read to the replies, no sockets.
"""

import argparse
import asyncio
import itertools
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.pieces.messages import Renewed, batch_frame, send_frame
from benchmarks.pieces.offline import OfflineConnection, offline_connection
from benchmarks.reports.timing import Case, best, print_best

READS = 20
_starts = itertools.count(0x300_0000)


def renewed(connection: OfflineConnection, data: bytes, messages: int) -> Case:
    """Return a case that gives the broker some reads of so many messages each."""
    frames = Renewed(data)

    def case() -> int:
        for _ in range(READS):
            connection.read(frames.next(next(_starts)))
        return READS * messages

    return case


async def measure(passes: int) -> dict[str, float]:
    """Return microseconds per message by the kind of read and of topic."""
    reads = {
        f"{size} B, 64 per read": (b"".join(send_frame(each, size) for each in range(64)), 64)
        for size in (1024, 128)
    }
    batches = [batch_frame(each, 1024, 32, 32 * each) for each in range(4)]
    reads["1024 B, 4 batches of 32 per read"] = (b"".join(batches), 128)
    async with AsyncExitStack() as exits:
        connections = {}
        for word, once in (("plain", False), ("once", True)):
            folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
            offline = offline_connection(folder, log_bytes=1 << 30, once=once)
            connections[word] = await exits.enter_async_context(offline)
        cases = {
            f"{name}, {word}": renewed(connection, *read)
            for name, read in reads.items()
            for word, connection in connections.items()
        }
        return best(cases, passes)


def main() -> None:
    """Print the smallest time of each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=40)
    options = parser.parse_args()
    print_best("retries stored once, CPU per message", asyncio.run(measure(options.passes)))


if __name__ == "__main__":
    main()
