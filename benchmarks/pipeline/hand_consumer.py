"""What people write who want their queues in Parquet: our client's pulls, pyarrow, one process.

    python -m benchmarks.pipeline.hand_consumer NAMESRV TOPIC,TOPIC [FOLDER]

All queues are pulled at the same time. Without a folder the messages are counted only. Prints the
CPU and clock seconds from the first pull to the last file as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aerobee.client import MessageQueue, PullConsumer
from aerobee.client.received import ReceivedMessage

ROWS_PER_BATCH: Final = 20_000
MESSAGES_PER_PULL: Final = 1024  # the broker lowers it to its own limit


class Lake:
    """Messages to one snappy Parquet file per queue."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._waiting: dict[MessageQueue, list[ReceivedMessage]] = {}
        self._writers: dict[MessageQueue, Any] = {}

    def add(self, queue: MessageQueue, messages: list[ReceivedMessage]) -> None:
        """Take messages of a queue, and write when there are many."""
        waiting = self._waiting.setdefault(queue, [])
        waiting += messages
        if len(waiting) >= ROWS_PER_BATCH:
            self._write(queue)

    def close(self) -> None:
        """Write what is left."""
        for queue in self._waiting:
            self._write(queue)
        for writer in self._writers.values():
            writer.close()

    def _write(self, queue: MessageQueue) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        messages, self._waiting[queue] = self._waiting[queue], []
        table = pa.table(
            {
                "topic": [each.topic for each in messages],
                "queue_id": [each.queue.queue_id for each in messages],
                "queue_offset": [each.queue_offset for each in messages],
                "store_timestamp": [each.store_timestamp_ms for each in messages],
                "born_timestamp": [each.born_timestamp_ms for each in messages],
                "tags": [each.tags for each in messages],
                "keys": [each.properties.get("KEYS") for each in messages],
                "properties": pa.array(
                    [list(each.properties.items()) for each in messages],
                    pa.map_(pa.string(), pa.string()),
                ),
                "body": [each.body for each in messages],
            }
        )
        if queue not in self._writers:
            target = self._folder / f"{queue.topic}-{queue.queue_id}.parquet"
            self._writers[queue] = pyarrow.parquet.ParquetWriter(
                target, table.schema, compression="snappy"
            )
        self._writers[queue].write_table(table)


async def consume(namesrv: str, topics: Sequence[str], lake: Lake | None) -> int:
    """Pull everything that there is; return how many messages."""
    async with PullConsumer("by-hand", namesrv=namesrv) as consumer:

        async def one(queue: MessageQueue) -> int:
            at, end = await consumer.oldest_offset(queue), await consumer.newest_offset(queue)
            count = 0
            while at < end:
                result = await consumer.pull(queue, at, messages_max=MESSAGES_PER_PULL)
                count += len(result.messages)
                at = result.next_offset
                if lake is not None:
                    lake.add(queue, result.messages)
            return count

        queues = [queue for topic in topics for queue in await consumer.fetch_queues(topic)]
        return sum(await asyncio.gather(*map(one, queues)))


def main(words: Sequence[str]) -> None:
    """Consume, print what it took."""
    namesrv, topics, folder = words
    lake = Lake(Path(folder)) if folder else None
    began, clock = time.process_time(), time.monotonic()
    count = asyncio.run(consume(namesrv, topics.split(","), lake))
    if lake is not None:
        lake.close()
    took = {"cpu_s": time.process_time() - began, "wall_s": time.monotonic() - clock}
    print(json.dumps({**took, "messages": count}))


if __name__ == "__main__":
    main(sys.argv[1:])
