"""Stores and Parquet files of the same records, made once and kept below `build/`."""

import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

TOPICS: Final = 4
QUEUES: Final = 4
MARKER: Final = "made.json"
PARQUET_FILES: Final = 4
QUEUE_FILE_BYTES: Final = 6_000_000
FIRST_MS: Final = 1_760_000_000_000
_POOL: Final = os.urandom(4 << 20)  # bodies are cut from it: nothing a compressor could use
_HEADER: Final = struct.Struct(">iIiiiqqiq4siq4siiqi")
_ENTRY: Final = struct.Struct(">qiq")
_WRITE_BYTES: Final = 8 << 20
_LAYOUT: Final = 2  # of what is kept; another number makes it anew


@dataclass(frozen=True, slots=True)
class Stored:
    """A store at `root`, the same records as snappy Parquet at `parquet`, and what is in them."""

    root: str
    parquet: str
    body_bytes: int
    log_bytes: int
    records: int

    @property
    def record_bytes(self) -> float:
        """How long a record is on average."""
        return self.log_bytes / self.records


def topic_name(number: int) -> str:
    """The name of a topic in the stores."""
    return f"topic-{number}"


def stored(home: Path, log_bytes: int, body_bytes: int) -> Stored:
    """The store of about `log_bytes` of such records below `home`, made where it is missing."""
    folder = home / f"spark-{_LAYOUT}-{log_bytes >> 20}mib-{body_bytes}"
    marker = folder / MARKER
    if marker.exists():
        return Stored(**json.loads(marker.read_text()))
    shutil.rmtree(folder, ignore_errors=True)
    root, parquet = folder / "store", folder / "parquet"
    records = write_store(root, log_bytes, body_bytes)
    made = Stored(str(root), str(parquet), body_bytes, log_bytes, records)
    write_parquet(made)
    marker.write_text(json.dumps(asdict(made)))
    return made


def write_store(root: Path, log_bytes: int, body_bytes: int) -> int:
    """A log of one file with its queues and topics; returns the number of records."""
    entries: dict[tuple[str, int], bytearray] = {}
    (root / "commitlog").mkdir(parents=True)
    count = 0
    with (root / "commitlog" / f"{0:020d}").open("wb") as file:
        block = bytearray()
        for topic, queue, tag, record in _records(log_bytes, body_bytes):
            queued = entries.setdefault((topic, queue), bytearray())
            queued += _ENTRY.pack(file.tell() + len(block), len(record), tag)
            block += record
            count += 1
            if len(block) >= _WRITE_BYTES:
                file.write(block)
                block.clear()
        file.write(block)
        file.truncate(log_bytes)
    for (topic, queue), queued in entries.items():
        folder = root / "consumequeue" / topic / str(queue)
        folder.mkdir(parents=True)
        for at in range(0, len(queued), QUEUE_FILE_BYTES):
            part = bytes(queued[at : at + QUEUE_FILE_BYTES])
            (folder / f"{at:020d}").write_bytes(part.ljust(QUEUE_FILE_BYTES, b"\0"))
    _write_topics(root)
    return count


def write_parquet(made: Stored) -> None:
    """The same records as Parquet files, written by pyarrow as it does by default, in snappy."""
    import pyarrow as pa
    import pyarrow.parquet
    from support.lake.plans import plan_log

    from aerobee.spark.reading.pieces import piece_batches
    from aerobee.spark.records.columns import arrow_schema
    from aerobee.spark.records.decode import Decoder
    from aerobee.spark.records.selection import EVERYTHING
    from benchmarks.pipeline.spark_decoding import TWELVE

    decoder = Decoder(arrow_schema(TWELVE, "binary"))
    plan = plan_log(made.root, EVERYTHING, -(-made.log_bytes // PARQUET_FILES))
    Path(made.parquet).mkdir(parents=True)
    for number, piece in enumerate(plan.pieces):
        batches = piece_batches(piece, EVERYTHING, decoder)
        table = pa.Table.from_batches(batches)
        target = f"{made.parquet}/part-{number}.parquet"
        rows = max(1, int((128 << 20) / made.record_bytes))
        pyarrow.parquet.write_table(table, target, compression="snappy", row_group_size=rows)


def _records(log_bytes: int, body_bytes: int) -> Iterator[tuple[str, int, int, bytes]]:
    """Topic, queue, tag and bytes of each record that goes into the log."""
    host, position, count = bytes([127, 0, 0, 1]), 0, 0
    offsets = dict.fromkeys(((t, q) for t in range(TOPICS) for q in range(QUEUES)), 0)
    last = len(_POOL) - body_bytes
    while position < log_bytes - 4096:
        topic, queue, tag = count % TOPICS, count // TOPICS % QUEUES, count % 16
        properties = (
            f"KEYS\x01key-{count:08d}\x02UNIQ_KEY\x017F000001000118B4AAC2{count:012X}\x02"
            f"TAGS\x01tag{tag}\x02WAIT\x01true"
        ).encode()
        name = topic_name(topic).encode()
        at = count * 7919 % last
        body = _POOL[at : at + body_bytes]
        size = _HEADER.size + body_bytes + 1 + len(name) + 2 + len(properties)
        now = FIRST_MS + count
        head = _HEADER.pack(
            size, 0xDAA320A7, zlib.crc32(body) & 0x7FFFFFFF, queue, 0, offsets[topic, queue],
            position, 0, now, host, 40000 + topic, now, host, 10911, 0, 0, body_bytes,
        )  # fmt: skip
        tail = bytes([len(name)]) + name + len(properties).to_bytes(2, "big") + properties
        yield topic_name(topic), queue, tag, head + body + tail
        offsets[topic, queue] += 1
        position += size
        count += 1


def _write_topics(root: Path) -> None:
    """The table of topics, so that a broker over the store serves them."""
    table = {
        topic_name(number): {
            "topicName": topic_name(number),
            "readQueueNums": QUEUES,
            "writeQueueNums": QUEUES,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        for number in range(TOPICS)
    }
    (root / "config").mkdir()
    version = {"counter": 1, "timestamp": FIRST_MS}
    text = json.dumps({"topicConfigTable": table, "dataVersion": version})
    (root / "config" / "topics.json").write_text(text)
