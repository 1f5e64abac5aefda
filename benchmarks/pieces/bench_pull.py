"""Micro-benchmark of pulls: from the request's bytes to the reply's, without sockets.

python -m benchmarks.pieces.bench_pull [--passes N]
"""

import argparse
import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from aerobee.broker.compiled.choice import is_compiled
from benchmarks.pieces.messages import QUEUES, TOPIC, pull_frame, send_frame
from benchmarks.pieces.offline import OfflineConnection, offline_connection
from benchmarks.reports.timing import Case, best, print_best

MESSAGES_PER_QUEUE = 2048
PULLS = 64
ALL = ("TAG", "*")
TAGS = ("TAG", "TagA || TagB")
SQL = ("SQL92", "TAGS IN ('TagA', 'TagB') AND KEYS STARTSWITH 'Order'")
CASES = {"1 of 1 KiB": (1, ALL), "32 of 1 KiB": (32, ALL), "32 by tags": (32, TAGS),
         "32 by SQL92": (32, SQL)}  # fmt: skip


def fill(connection: OfflineConnection, body_bytes: int) -> None:
    """Store what is pulled, spread over the queues."""
    data = b"".join(send_frame(number, body_bytes) for number in range(64))
    while connection.stored(TOPIC, QUEUES) < MESSAGES_PER_QUEUE * QUEUES:
        connection.read(data)


def pulls(
    connection: OfflineConnection, messages: int, body_bytes: int, wanted: tuple[str, str]
) -> Case:
    """Return a case of pulls of so many messages each, one request per read."""
    frames = [
        pull_frame(
            number, number % QUEUES, number * messages % MESSAGES_PER_QUEUE, messages, wanted
        )
        for number in range(PULLS)
    ]

    def case() -> int:
        before = connection.transport.written_bytes
        for frame in frames:
            connection.read(frame)
        assert connection.transport.written_bytes - before > PULLS * messages * body_bytes
        return PULLS

    return case


async def measure(passes: int) -> dict[str, float]:
    """Return microseconds per pull by its size."""
    ways = {"Python": False} | ({"compiled": True} if is_compiled() else {})
    cases = {}
    async with AsyncExitStack() as exits:
        for way, compiled in ways.items():
            folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
            offline = offline_connection(folder, compiled=compiled)
            connection = await exits.enter_async_context(offline)
            fill(connection, 1024)
            for what, (count, wanted) in CASES.items():
                cases[f"{what}, {way}"] = pulls(connection, count, 1024, wanted)
        return best(cases, passes)


def main() -> None:
    """Print the smallest time of each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=60)
    options = parser.parse_args()
    print_best("pull, CPU per request", asyncio.run(measure(options.passes)))


if __name__ == "__main__":
    main()
