"""Micro-benchmark of the store: append with commit per 64 messages, and reads of 32.

Run `python benchmarks/bench_append.py`. Passes alternate between the cases, and the smallest CPU
time of each counts, since other work on the machine can only add to it.
"""

import argparse
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aerobee.remoting.record import host_bytes, java_string_hash
from aerobee.storage.commit_log import FIXED_BYTES
from aerobee.storage.consume_queue import ConsumeQueue
from aerobee.storage.settings import MIB, StoreSettings
from aerobee.storage.store import MessageStore

MESSAGES_PER_COMMIT = 64
PROPERTIES = (
    b"KEYS\x01order-1\x02UNIQ_KEY\x017F0000010001AABBCCDD0001\x02WAIT\x01true\x02TAGS\x01TagA\x02"
)


def hosts(now_ms: int) -> bytes:
    """Pack what the broker packs once per read."""
    return struct.pack(
        ">8sq8siq", host_bytes("127.0.0.1", 9), now_ms, host_bytes("127.0.0.1", 10911), 0, 0
    )


def append_many(store: MessageStore, queues: list[ConsumeQueue], count: int, body: bytes) -> float:
    """Append `count` messages; return CPU microseconds per message."""
    append, commit = store.commit_log.append, store.commit_log.commit
    now = int(time.time() * 1000)
    middle, code = hosts(now), java_string_hash("TagA")
    queues_count = len(queues)
    began = time.process_time()
    for first in range(0, count, MESSAGES_PER_COMMIT):
        for number in range(first, first + MESSAGES_PER_COMMIT):
            append(queues[number % queues_count], 0, 0, now, middle, body, PROPERTIES, code)
        commit()
    return (time.process_time() - began) / count * 1e6


def read_many(store: MessageStore, queue: ConsumeQueue, count: int) -> float:
    """Read 32 messages `count` times and join them; return CPU microseconds per read."""
    began = time.process_time()
    for number in range(count):
        b"".join(store.reader.read(queue, number % 64 * 32, 32, 256 * 1024).parts)
    return (time.process_time() - began) / count * 1e6


def main() -> None:
    """Print the best of several alternating passes."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--passes", type=int, default=5)
    arguments.add_argument("--messages", type=int, default=19_200)
    arguments.add_argument("--dir", type=Path)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        largest = 2048 + FIXED_BYTES
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
        cases: dict[str, Callable[[], float]] = {
            "append 1 KiB, us/message": lambda: append_many(
                store, four, options.messages, bytes(1024)
            ),
            "append 128 B, us/message": lambda: append_many(
                store, single, options.messages, bytes(128)
            ),
            "read 32 scattered, us/read": lambda: read_many(store, four[0], 500),
            "read 32 side by side, us/read": lambda: read_many(store, single[0], 500),
        }
        best = dict.fromkeys(cases, float("inf"))
        for _ in range(options.passes):
            for name, case in cases.items():
                best[name] = min(best[name], case())
        for name, value in best.items():
            print(f"{name:32} {value:8.2f}")
        store.abandon()


if __name__ == "__main__":
    main()
