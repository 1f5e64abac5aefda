"""Exports of damaged logs and of bodies that are no packed ones: one message stops no others."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.exports import go_on, visible

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark import export
from aerobee.spark.exports import batches as export_batches
from aerobee.spark.lake.lake import Lake
from aerobee.spark.records import unpacking

pytestmark = pytest.mark.usefixtures("inline", "loops")

COUNT = 60


def damaged(root: Path, damage: dict[int, tuple[int, bytes]]) -> tuple[Path, list[int]]:
    """A store whose given records have other bytes at a place, and where its records stand."""
    writer = StoreWriter(root, 1 << 12)
    places = [
        writer.append(Stored(topic=["orders", "billing"][number % 2], body=b"%04d" % number))
        for number in range(COUNT)
    ]
    for number, (at, raw) in damage.items():
        base = places[number] - places[number] % (1 << 12)
        start = places[number] - base + at
        writer.segments[base][start : start + len(raw)] = raw
    return writer.close(), places


HEAD_BYTES = 88
WRONG = {
    "magic": (4, b"XXXX"),
    "size": (0, b"\x7f"),
    "own position": (28, b"\x01"),
    "body length": (84, b"\x00\x00\x40\x00"),
    "topic": (HEAD_BYTES + 4 + 1, b"X"),
    "queue": (12, b"\x00\x00\x00\x07"),
    "queue offset": (20, b"\x00\x00\x00\x01"),
    "queue offset of another": (27, b"\x03"),
    "all": (0, b"\xff" * 80),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("topics", [None, ["orders"]])
def test_damaged_record_is_left_out_where_that_is_asked(
    tmp_path: Path, what: str, topics: list[str] | None
) -> None:
    """By default it ends the export; else it is noted as a gap, and all others are exported."""
    store, _ = damaged(tmp_path / "store", {10: WRONG[what], 12: WRONG[what], 30: WRONG[what]})
    lake = tmp_path / "lake"
    more: dict[str, Any] = {"topics": topics} if topics else {}
    with pytest.raises(Exception, match=r"damaged|--no-fail-on-data-loss .*leaves it out") as told:
        go_on(store, lake, **more)
    assert type(told.value).__name__ in ("CorruptRecord", "ExportFailed")
    assert Lake(lake).log.versions() == []
    summary = go_on(store, lake, fail_on_data_loss=False, **more)
    assert summary.messages == (27 if topics else 57)
    assert [(str(gap.missing.key), gap.missing.start, gap.missing.end) for gap in summary.gaps] == [
        ("orders store:0", 5, 7),
        ("orders store:0", 15, 16),
    ]
    last = Lake(lake).log.last()
    assert last is not None and last.gaps == summary.gaps
    offsets = [place[3] for place in visible(lake) if place[1] == "orders"]
    assert offsets == [number for number in range(30) if number not in (5, 6, 15)]
    assert go_on(store, lake, **more).added is False


@pytest.mark.parametrize("what", ["magic", "body length", "all"])
def test_damage_in_a_log_without_queues_is_noted_by_position(tmp_path: Path, what: str) -> None:
    """From the damaged record to the next one that is whole."""
    store, places = damaged(tmp_path / "store", {10: WRONG[what]})
    shutil.rmtree(store / "consumequeue")
    with pytest.raises(CorruptRecord, match=r"\(fail_on_data_loss=False\) leaves it out"):
        export(store, tmp_path / "lake")
    summary = export(store, tmp_path / "lake", fail_on_data_loss=False)
    assert summary.messages == COUNT - 1
    (gap,) = summary.gaps
    assert str(gap).startswith(f"log positions [{places[10]}, {places[11]}) of store: ")
    last = Lake(tmp_path / "lake").log.last()
    assert last is not None and last.gaps == summary.gaps


def bodies(lake: Path) -> list[tuple[bytes, int]]:
    """The bodies and flags in a lake."""
    table = ds.dataset(lake, format="parquet", partitioning="hive").to_table(
        columns=["queue_offset", "body", "sys_flag"]
    )
    rows = sorted(zip(*table.to_pydict().values(), strict=True))
    return [(body, flag) for _, body, flag in rows]


@pytest.mark.parametrize("room", [64 << 20, 100])
def test_body_that_cannot_be_unpacked_is_exported_as_it_is_stored(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can send one; what is packed is unpacked, in parts where it grows large."""
    monkeypatch.setattr(export_batches, "UNPACKED_BYTES_MAX", room)
    sent = [
        (b"plain", 0),
        (b"no zlib", 1),
        (zlib.compress(b"packed" * 30), 1),
        (zlib.compress(b"cut off")[:-3], 1),
        (b"no lz4", 1 | 0x100),
        (b"no zstd", 1 | 0x200),
        (b"unknown", 1 | 0x700),
        (zlib.compress(b"more"), 1),
        (b"last", 0),
    ]
    writer = StoreWriter(tmp_path / "store", 1 << 15)
    for body, flag in sent:
        writer.append(Stored(body=body, sys_flag=flag))
    store = writer.close()
    assert go_on(store, tmp_path / "packed").messages == len(sent)
    assert bodies(tmp_path / "packed") == sent
    assert go_on(store, tmp_path / "lake", decompress=True).messages == len(sent)
    sent[2], sent[7] = (b"packed" * 30, 1), (b"more", 1)
    assert bodies(tmp_path / "lake") == sent


def test_body_that_grows_too_large_is_exported_as_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bomb is no message that anybody could read."""
    monkeypatch.setattr(unpacking, "BODY_BYTES_MAX", 1000)
    bomb = zlib.compress(bytes(1001))
    writer = StoreWriter(tmp_path / "store", 1 << 15)
    writer.append(Stored(body=bomb, sys_flag=1))
    go_on(writer.close(), tmp_path / "lake", decompress=True)
    assert bodies(tmp_path / "lake") == [(bomb, 1)]
