"""Stores that were made anew, or lost their end: told by when messages were stored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.exports import FIRST_MS, go_on, grown

from aerobee.spark.at_rest.times import store_time
from aerobee.spark.errors import DataLost
from aerobee.spark.lake.lake import Lake
from aerobee.spark.lake.manifest import Gap

pytestmark = pytest.mark.usefixtures("inline")

LATER_MS = FIRST_MS + 10**10


def maker(word: bytes, first_ms: int, queues: int = 2) -> Callable[[int], Stored]:
    """Messages of one size in some queues, one each ms."""

    def make(number: int) -> Stored:
        body = word + b"%04d" % number
        return Stored(queue_id=number % queues, body=body, store_timestamp=first_ms + number)

    return make


OLD, NEW = maker(b"old", FIRST_MS), maker(b"new", LATER_MS)


def bodies(lake: Path) -> list[bytes]:
    """What plain readers find in a lake."""
    table = ds.dataset(lake, format="parquet", partitioning="hive").to_table(columns=["body"])
    return sorted(table["body"].to_pylist())


def anew(store: Path, count: int, make: Callable[[int], Stored] = NEW) -> Path:
    """A store in the place of another one."""
    shutil.rmtree(store)
    return grown(store, count, make)


def forget_stamps(lake: Path) -> None:
    """Make the manifests those of an early version."""
    for path in (lake / "_aerobee").glob("manifest-*.json"):
        values = json.loads(path.read_bytes())
        assert values.pop("stamps") and values.pop("crc32")
        path.write_text(json.dumps(values))


@pytest.mark.parametrize("count", [20, 30, 40])
def test_store_made_anew_with_records_of_the_same_size_is_noticed(
    tmp_path: Path, count: int
) -> None:
    """Fewer, as many or more; going on takes all of the new ones, and nothing counts as lost."""
    store, lake = grown(tmp_path / "store", 30, OLD), tmp_path / "lake"
    go_on(store, lake)
    anew(store, count)
    with pytest.raises(DataLost, match="2 queues are not the ones that were exported before"):
        go_on(store, lake)
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert summary.messages == count
    assert [str(gap).split(": ")[0] for gap in summary.gaps] == [
        "orders store:0 from 0 on",
        "orders store:1 from 0 on",
    ]
    assert not any(gap.lost for gap in summary.gaps)
    expected = [OLD(number).body for number in range(30)]
    expected += [NEW(number).body for number in range(count)]
    assert bodies(lake) == sorted(expected)
    assert go_on(store, lake).added is False
    assert go_on(grown(store, 50, NEW), lake).messages == 50 - count


def test_store_that_did_not_change_is_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many queues it has: the farthest message vouches for all before it."""
    make = maker(b"old", FIRST_MS, queues=50)
    store, lake = grown(tmp_path / "store", 200, make), tmp_path / "lake"
    go_on(store, lake)
    looked: list[int] = []

    def counted(file: Any, position: int) -> int | None:
        looked.append(position)
        return store_time(file, position)

    monkeypatch.setattr("aerobee.spark.lost.stamps.store_time", counted)
    assert go_on(store, lake).added is False
    assert len(looked) == 1


def test_manifests_of_early_versions_go_on(tmp_path: Path) -> None:
    """They know positions alone, and get the times with the next version."""
    store, lake = grown(tmp_path / "store", 30, OLD), tmp_path / "lake"
    go_on(store, lake)
    forget_stamps(lake)
    assert go_on(grown(store, 40, OLD), lake).messages == 10
    last = Lake(lake).log.last()
    assert last is not None and set(last.stamps.values()) == {FIRST_MS + 38, FIRST_MS + 39}
    anew(store, 40)
    with pytest.raises(DataLost, match="2 queues are not"):
        go_on(store, lake)


def gaps_of(lake: Path, store: Path) -> list[tuple[int, int]]:
    """The offsets that going on in spite of all leaves out."""
    gaps: tuple[Gap, ...] = go_on(store, lake, fail_on_data_loss=False).gaps
    return [(gap.missing.start, gap.missing.end) for gap in gaps]


def test_what_is_left_out_is_what_the_gap_names(tmp_path: Path) -> None:
    """Messages of another store, older than the last exported ones: these, and not the lake's."""
    store, lake = grown(tmp_path / "store", 30, maker(b"old", FIRST_MS, 1)), tmp_path / "lake"
    go_on(store, lake)
    anew(store, 20, maker(b"other", FIRST_MS - 15, 1))
    assert gaps_of(lake, store) == [(0, 20)]
    more = maker(b"other", FIRST_MS - 15, 1)
    assert go_on(grown(store, 50, more), lake).messages == 30


def test_early_versions_leave_out_by_position_and_name_it(tmp_path: Path) -> None:
    """Without times only what stands behind the last exported message is certainly new."""
    old, new = maker(b"longer than new", FIRST_MS, 1), maker(b"new", LATER_MS, 1)
    store, lake = grown(tmp_path / "store", 30, old), tmp_path / "lake"
    go_on(store, lake)
    forget_stamps(lake)
    anew(store, 50, new)
    summary = go_on(store, lake, fail_on_data_loss=False)
    (gap,) = summary.gaps
    assert gap.lost and gap.missing.start == 0 and gap.missing.end + summary.messages == 50


def test_topic_made_anew_in_the_same_log_is_exported_from_its_beginning(tmp_path: Path) -> None:
    """Its messages stand behind the exported ones, though their offsets begin again."""
    store, lake = tmp_path / "store", tmp_path / "lake"
    writer = StoreWriter(store, 1 << 15)
    for number in range(20):
        writer.append(OLD(number))
        writer.append(Stored(topic="kept", store_timestamp=FIRST_MS + number))
    go_on(writer.close(), lake)
    writer.entries["orders", 0].clear()
    writer.entries["orders", 1].clear()
    for number in range(30):
        writer.append(maker(b"new", FIRST_MS)(number))
    writer.close()
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert summary.messages == 30
    assert [str(gap.missing.key) for gap in summary.gaps] == ["orders store:0", "orders store:1"]
    assert not any(gap.lost for gap in summary.gaps)


def test_store_that_lost_its_end_goes_on_behind_what_is_left(tmp_path: Path) -> None:
    """What is old is not exported twice, what came after the loss of power is exported."""
    store, lake = grown(tmp_path / "store", 10, OLD), tmp_path / "lake"
    writer = StoreWriter(store, 1 << 15)
    for number in range(10):
        writer.append(Stored(topic="kept", body=b"%d" % number, store_timestamp=FIRST_MS + number))
    for number in range(30):
        writer.append(OLD(number + 10))
    go_on(writer.close(), lake)
    shutil.rmtree(store)
    writer = StoreWriter(store, 1 << 15)
    for number in range(10):
        writer.append(Stored(topic="kept", body=b"%d" % number, store_timestamp=FIRST_MS + number))
    for number in range(25):
        writer.append(OLD(number + 10) if number < 20 else NEW(number))
    summary = go_on(writer.close(), lake, fail_on_data_loss=False)
    assert summary.messages == 5 and not any(gap.lost for gap in summary.gaps)
    found = [body for body in bodies(lake) if body[:3] in (b"old", b"new")]
    assert len(found) == len(set(found)) == 35
