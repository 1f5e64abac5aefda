"""Micro-benchmark of pulls: from the request's bytes to the reply's, without sockets.

python -m benchmarks.bench_pull [--passes N]
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from benchmarks.messages import QUEUES, TOPIC, pull_frame, send_frame
from benchmarks.offline import OfflineConnection, offline_connection
from benchmarks.timing import Case, best, print_best

MESSAGES_PER_QUEUE = 2048
PULLS = 64
SQL = "TAGS IN ('TagA', 'TagB') AND KEYS STARTSWITH 'Order'"


def fill(connection: OfflineConnection, body_bytes: int) -> None:
    """Store what is pulled, spread over the queues."""
    data = b"".join(send_frame(number, body_bytes) for number in range(64))
    while connection.stored(TOPIC, QUEUES) < MESSAGES_PER_QUEUE * QUEUES:
        connection.read(data)


def pulls(
    connection: OfflineConnection, messages: int, body_bytes: int, sql: str | None = None
) -> Case:
    """Return a case of pulls of so many messages each, one request per read."""
    frames = [
        pull_frame(number, number % QUEUES, number * messages % MESSAGES_PER_QUEUE, messages, sql)
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
    with tempfile.TemporaryDirectory() as folder:
        async with offline_connection(Path(folder)) as connection:
            fill(connection, 1024)
            cases = {
                f"{count} of 1 KiB, per pull": pulls(connection, count, 1024) for count in (1, 32)
            }
            cases["32 of 1 KiB by SQL92, per pull"] = pulls(connection, 32, 1024, SQL)
            return best(cases, passes)


def main() -> None:
    """Print the smallest time of each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=60)
    options = parser.parse_args()
    print_best("pull, CPU per request", asyncio.run(measure(options.passes)))


if __name__ == "__main__":
    main()
