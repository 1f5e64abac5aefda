"""Stores of our own broker, read while they are open and being written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.disks.stores import properties, read_log
from support.lake.plans import plan_log

from aerobee.spark.at_rest import queue_hints
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records.columns import COLUMNS, arrow_schema
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.selection import EVERYTHING
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

NOT_STORED = ("tags_code", "broker", "_corrupt")
NAMES = [column.name for column in COLUMNS if column.name not in NOT_STORED]
HOST_V4 = bytes([10, 0, 0, 7, 0, 0, 0, 9])
HOST_V6 = bytes(15) + bytes([1, 0, 0, 0, 9])

WRITER = """
import sys, time
from pathlib import Path
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

store = MessageStore(StoreSettings(Path(sys.argv[1]), segment_bytes=1 << 20, helper_process=False))
store.open()
print("open", flush=True)
hosts = bytes([127, 0, 0, 1, 0, 0, 0, 9]) + (10**12).to_bytes(8, "big")
hosts += bytes([127, 0, 0, 1, 0, 0, 0, 9]) + bytes(12)
queues = [store.queue("orders", number) for number in range(3)]
for number in range(10**9):
    text = b"%d:" % number
    body = text + bytes([number % 255 + 1]) * (number * 37 % 1000)
    store.commit_log.append(queues[number % 3], 0, 0, 5, hosts, body, b"TAGS\\x01" + text, 7)
    if number % 50 == 49:
        store.commit_log.commit()
        store.poll()
        store.tick()
        time.sleep(0.002)  # some 10 MB/s: the readers must not fall behind for good
"""


def rows_of(root: Path, names: list[str]) -> list[dict[str, Any]]:
    """What a query made at this moment reads."""
    plan = plan_log(str(root), EVERYTHING, 1 << 20)
    decoder = Decoder(arrow_schema(names))
    return [
        row
        for piece in plan.pieces
        for batch in piece_batches(piece, EVERYTHING, decoder)
        for row in batch.to_pylist()
    ]


def append(store: MessageStore, topic: str, number: int) -> None:
    """One message whose every field follows from its number."""
    v6 = number % 3 == 0
    host = HOST_V6 if v6 else HOST_V4
    hosts = host + (1000 + number).to_bytes(8, "big") + HOST_V4 + number.to_bytes(4, "big")
    store.commit_log.append(
        store.queue(topic, number % 2),
        number,
        16 if v6 else 0,
        number,
        hosts + bytes(8),
        b"b" * number,
        properties({"TAGS": f"t{number}"}, closed=number % 2 == 0),
        1,
    )


def test_open_store_is_read_up_to_what_is_committed(tmp_path: Path) -> None:
    """Appended but not committed messages have queue entries already, and are not seen."""
    settings = StoreSettings(tmp_path, segment_bytes=1 << 14, helper_process=False)
    store = MessageStore(settings)
    store.open()
    try:
        assert rows_of(tmp_path, NAMES) == []
        for number in range(100):
            append(store, "t" * 200 if number % 7 == 0 else "orders", number)
            if number % 10 == 9:
                store.commit_log.commit()
                store.poll()
        committed = store.commit_log.position
        for number in range(3):
            append(store, "orders", number)
        assert plan_log(str(tmp_path), EVERYTHING).pieces[-1].end == committed
        found = rows_of(tmp_path, NAMES)
    finally:
        store.close()
    assert len(found) == 100
    assert len(rows_of(tmp_path, NAMES)) == 103
    for row, truth in zip(found, read_log(tmp_path), strict=False):
        assert row.pop("store_timestamp").timestamp() * 1000 == pytest.approx(
            truth["store_timestamp"]
        )
        assert row.pop("born_timestamp").timestamp() * 1000 == pytest.approx(
            truth["born_timestamp"]
        )
        row["properties"] = dict(row["properties"])
        assert row == {name: truth[name] for name in row}


@pytest.mark.parametrize("queues", [True, False])
def test_reads_beside_a_writing_process_see_whole_messages_in_order(
    tmp_path: Path, queues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of six reads is a longer prefix of what the other process writes."""
    if not queues:
        monkeypatch.setattr(queue_hints, "QUEUES_MAX", 0)
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None and writer.stdout.readline() == b"open\n"
            counts = [0]
            while len(counts) < 6 or counts[-1] < 5000:
                rows = rows_of(tmp_path, ["body", "tags", "queue_offset"])
                for number, row in enumerate(rows[counts[-1] :], counts[-1]):
                    text = b"%d:" % number
                    assert row["body"] == text + bytes([number % 255 + 1]) * (number * 37 % 1000)
                    assert row["tags"] == text.decode()
                    assert row["queue_offset"] == number // 3
                if len(rows) > counts[-1] or not rows:
                    counts.append(len(rows))
        finally:
            writer.kill()
    assert counts[-1] > counts[1]
