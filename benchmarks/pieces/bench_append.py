"""Micro-benchmark of the store: append with commit per 64 messages, and reads of 32.

Run `python -m benchmarks.pieces.bench_append`.
"""

import argparse
import struct
import tempfile
import time
from pathlib import Path

from aerobee.remoting.message.layout import AROUND_BYTES
from aerobee.remoting.message.record import host_bytes
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.settings import MIB, StoreSettings
from aerobee.storage.store import MessageStore
from benchmarks.reports.timing import Case, best, print_best

MESSAGES_PER_COMMIT = 64
PROPERTIES = (
    b"KEYS\x01order-1\x02UNIQ_KEY\x017F0000010001AABBCCDD0001\x02WAIT\x01true\x02TAGS\x01TagA\x02"
)


def hosts(now_ms: int) -> bytes:
    """Pack what the broker packs once per read."""
    return struct.pack(
        ">8sq8siq", host_bytes("127.0.0.1", 9), now_ms, host_bytes("127.0.0.1", 10911), 0, 0
    )


def append_many(store: MessageStore, queues: list[ConsumeQueue], count: int, body: bytes) -> int:
    """Append `count` messages; return how many."""
    append, commit = store.commit_log.append, store.commit_log.commit
    now = int(time.time() * 1000)
    middle, code = hosts(now), java_string_hash("TagA")
    queues_count = len(queues)
    for first in range(0, count, MESSAGES_PER_COMMIT):
        for number in range(first, first + MESSAGES_PER_COMMIT):
            append(queues[number % queues_count], 0, 0, now, middle, body, PROPERTIES, code)
        commit()
    return count


def read_many(store: MessageStore, queue: ConsumeQueue, count: int) -> int:
    """Read 32 messages `count` times and join them; return how many times."""
    for number in range(count):
        b"".join(store.reader.read(queue, number % 64 * 32, 32, 256 * 1024).parts)
    return count


def main() -> None:
    """Print the best of several alternating passes."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--passes", type=int, default=5)
    arguments.add_argument("--messages", type=int, default=19_200)
    arguments.add_argument("--dir", type=Path)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        largest = 2048 + AROUND_BYTES
        window = options.messages * 2 * (options.passes + 2) * largest + 64 * MIB
        settings = StoreSettings(
            root=Path(directory),
            segment_bytes=window,
            first_window_bytes=window // 2,
            helper_process=False,
        )
        store = MessageStore(settings)
        store.open()
        four = [store.queue("bench", number) for number in range(4)]
        single = [store.queue("single", 0)]
        cases: dict[str, Case] = {
            "append 1 KiB, per message": lambda: append_many(
                store, four, options.messages, bytes(1024)
            ),
            "append 128 B, per message": lambda: append_many(
                store, single, options.messages, bytes(128)
            ),
            "read 32 scattered, per read": lambda: read_many(store, four[0], 500),
            "read 32 side by side, per read": lambda: read_many(store, single[0], 500),
        }
        print_best("store, CPU", best(cases, options.passes))
        store.abandon()


if __name__ == "__main__":
    main()
