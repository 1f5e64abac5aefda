"""How fast the log becomes Arrow columns on one core, without Spark.

    python benchmarks/bench_decode.py [--mib 256] [--rounds 5]

Writes stores of 1 KiB and 128 B bodies into a temporary folder, decodes them from the page
cache, and prints the best round and its ratio to a plain memory copy on this machine.
"""

from __future__ import annotations

import argparse
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from aerobee.spark.columns import USUAL, arrow_schema
from aerobee.spark.decode import Decoder
from aerobee.spark.pieces import piece_batches
from aerobee.spark.planner import Plan, plan_store
from aerobee.spark.selection import EVERYTHING

TOPICS, QUEUES = 4, 4
TWELVE = [name for name in USUAL if name not in ("tags", "keys")]


def write_store(root: Path, log_bytes: int, body_bytes: int) -> int:
    """A log of one file with its queues; returns the number of records."""
    body = os.urandom(body_bytes)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    host = bytes([127, 0, 0, 1])
    entries: dict[tuple[int, int], list[bytes]] = {}
    log, count = bytearray(), 0
    while len(log) < log_bytes - 4096:
        topic, queue = count % TOPICS, count // TOPICS % QUEUES
        properties = (
            f"KEYS\x01key-{count:08d}\x02UNIQ_KEY\x017F000001000118B4AAC2{count:012X}\x02"
            f"TAGS\x01tag{count % 16}\x02WAIT\x01true"
        ).encode()
        name = f"topic-{topic}".encode()
        size = 88 + body_bytes + 1 + len(name) + 2 + len(properties)
        queued = entries.setdefault((topic, queue), [])
        now = 1_760_000_000_000 + count
        log += struct.pack(
            ">iIiiiqqiq4siq4siiqi", size, 0xDAA320A7, crc, queue, 0, len(queued), len(log), 0,
            now, host, 40000 + topic, now, host, 10911, 0, 0, body_bytes,
        )  # fmt: skip
        queued.append(struct.pack(">qiq", len(log) - 88, size, count % 16))
        log += body + bytes([len(name)]) + name + struct.pack(">h", len(properties)) + properties
        count += 1
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020d}").write_bytes(log.ljust(log_bytes, b"\0"))
    for (topic, queue), queued in entries.items():
        folder = root / "consumequeue" / f"topic-{topic}" / str(queue)
        folder.mkdir(parents=True)
        (folder / f"{0:020d}").write_bytes(b"".join(queued))
    return count


def best(rounds: int, work: Callable[[], object]) -> float:
    """The least CPU seconds of several rounds."""
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def copy_rate(rounds: int) -> float:
    """Bytes per second that this machine copies in blocks of 1 MiB."""
    source = np.ones(64 << 20, np.uint8)
    target = np.empty(1 << 20, np.uint8)

    def work() -> None:
        for at in range(0, len(source), len(target)):
            np.copyto(target, source[at : at + len(target)])

    return len(source) / best(rounds, work)


def decode(plan: Plan, schema: pa.Schema, queues: bool) -> int:
    """Decode the whole store in one piece; return the number of rows."""
    decoder = Decoder(schema)
    hints = plan.queues_dir if queues else None
    return sum(
        len(batch)
        for piece in plan.pieces
        for batch in piece_batches(piece, hints, EVERYTHING, decoder)
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=256, help="size of each log")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    pa.set_cpu_count(1)
    memory = copy_rate(options.rounds)
    print(f"memory copy {memory / 1e9:.1f} GB/s; CPU seconds of one core, best round")
    cases = (
        ("1 field", ["queue_offset"], "map", True),
        ("body", ["body"], "map", True),
        ("12 columns, properties binary", TWELVE, "binary", True),
        ("12 columns, without queues", TWELVE, "binary", False),
        ("12 columns, properties map", TWELVE, "map", True),
        ("14 columns, properties map", list(USUAL), "map", True),
    )
    for body_bytes in (1024, 128):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            count = write_store(root, options.mib << 20, body_bytes)
            plan = plan_store(str(root), EVERYTHING, 1 << 40)
            for title, names, properties, queues in cases:
                schema = arrow_schema(names, properties)
                assert decode(plan, schema, queues) == count
                spent = best(options.rounds, partial(decode, plan, schema, queues))
                rate = (options.mib << 20) / spent
                print(
                    f"{body_bytes:5} B  {title:30} {count / spent / 1e6:6.2f} M records/s"
                    f" {rate / 1e9:6.2f} GB/s = {rate / memory:.2f} of a copy"
                )


if __name__ == "__main__":
    main()
