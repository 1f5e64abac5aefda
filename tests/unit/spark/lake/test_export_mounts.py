"""Disks that are away and come back, and stores made anew that are exported topic by topic."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.exports import FIRST_MS, go_on, grown, message, stored, visible
from support.lake.fake_spark import Checkpoint, reader_of, run

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.spark.errors import DataLost, StoreUnreadable

pytestmark = pytest.mark.usefixtures("inline")


def numbered(number: int, topic: str = "pay") -> Stored:
    """A message whose body is its number, a second after the one before."""
    body, time_ms = b"%d" % number, FIRST_MS + number * 1000
    return Stored(topic=topic, body=body, store_timestamp=time_ms)


def bodies(lake: Path, topic: str) -> list[int]:
    """The numbers that a lake has of a topic."""
    import pyarrow.dataset as ds

    found = ds.dataset(lake / f"topic={topic}", format="parquet").to_table(columns=["body"])
    return sorted(int(body) for body in found["body"].to_pylist())


@pytest.mark.parametrize("mounted", ["commitlog", "."])
def test_log_that_has_become_empty_is_a_disk_that_is_away(tmp_path: Path, mounted: str) -> None:
    """Whatever is mounted where it was: it is told, and when it is back nothing comes twice."""
    store, lake, kept = grown(tmp_path / "store", 20), tmp_path / "lake", tmp_path / "kept"
    go_on(store, lake)
    (store / mounted).resolve().rename(kept)
    (store / "commitlog").mkdir(parents=True)
    with pytest.raises(StoreUnreadable, match=r"store \(.*commitlog, which is empty\)"):
        go_on(store, lake)
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert (summary.added, summary.away) == (False, ("store",))
    shutil.rmtree(store / mounted)
    kept.rename((store / mounted).resolve())
    grown(store, 30)
    assert go_on(store, lake).messages == 10
    assert visible(lake) == stored(store)


def test_stream_waits_for_a_log_that_has_become_empty(tmp_path: Path) -> None:
    """It read all of it again, once the disk was back."""
    store, checkpoint = grown(tmp_path / "store", 20), Checkpoint()
    options = {"startingOffsets": "earliest"}
    run(reader_of(store, **options), checkpoint)
    (store / "commitlog").rename(tmp_path / "kept")
    (store / "commitlog").mkdir()
    with pytest.raises(DataLost, match="is not there any more"):
        run(reader_of(store, **options), checkpoint)
    run(reader_of(store, failOnDataLoss="false", **options), checkpoint)
    (store / "commitlog").rmdir()
    (tmp_path / "kept").rename(store / "commitlog")
    grown(store, 25)
    run(reader_of(store, **options), checkpoint)
    retried = [row for row in stored(store) if row[1].startswith("%RETRY%")]
    assert len(checkpoint.rows()) == 25 - len(retried)


def test_store_is_missed_however_its_pattern_is_spelled(tmp_path: Path) -> None:
    """By way of a link, or of the folder above."""
    data, lake = tmp_path / "data", tmp_path / "lake"
    for name in "ab":
        grown(data / f"broker-{name}" / "store", 10)
    go_on(f"{data}/broker-*/store", lake)
    shutil.rmtree(data / "broker-b" / "store")
    (tmp_path / "link").symlink_to(data)
    for there in (data, f"{data}/../data", f"{tmp_path}/link", f"file://{data}"):
        with pytest.raises(StoreUnreadable, match="broker-b"):
            go_on(f"{there}/broker-*/store", lake)


def test_queue_of_which_a_time_left_out_all_is_told_from_one_made_anew(tmp_path: Path) -> None:
    """Its first messages were passed by, as if they were those that `since` had left out."""
    store, lake = tmp_path / "store", tmp_path / "lake"
    writer = StoreWriter(store)
    for number in range(10):
        writer.append(numbered(number))
    writer.close()
    go_on(store, lake, since=numbered(20).store_timestamp)
    writer.entries.clear()
    for number in range(30, 50):
        writer.append(numbered(number))
    writer.close()
    with pytest.raises(DataLost, match="other messages there now"):
        go_on(store, lake)
    assert go_on(store, lake, fail_on_data_loss=False).messages == 20


def test_exported_message_that_its_broker_has_lost_since_is_nobodys_loss(tmp_path: Path) -> None:
    """The last one of a queue was, and the run was refused as if the queue was another one."""
    store, lake = tmp_path / "store", tmp_path / "lake"
    writer = StoreWriter(store)
    for number in range(15):
        writer.append(numbered(number))
        if number == 9:
            writer.close()
            go_on(store, lake)
    writer.entries["pay", 0][9] = 0, BLANK_SIZE, 0
    writer.close()
    assert go_on(store, lake).messages == 5
    del writer.entries["pay", 0][:3]
    writer.entries["pay", 0][14:] = [(0, BLANK_SIZE, 0)] * 3
    for number in range(15, 20):
        writer.append(numbered(number))
    writer.close()
    with pytest.raises(DataLost, match="other messages there now"):
        go_on(store, lake)


def anew(store: Path, low: int, high: int) -> None:
    """A store whose disk was replaced, with messages of pay, orders and pay again."""
    shutil.rmtree(store, ignore_errors=True)
    writer = StoreWriter(store)
    for topic in ("pay", "orders", "pay"):
        for number in range(low, high):
            writer.append(numbered(number + (high if topic == "orders" else 0), topic))
    writer.close()


def test_topic_of_a_store_made_anew_does_not_vouch_for_the_others(tmp_path: Path) -> None:
    """One is exported of the new store alone, and farther: the others have not been even so."""
    store, lake = tmp_path / "store", tmp_path / "lake"
    anew(store, 0, 10)
    go_on(store, lake)
    anew(store, 100, 130)
    assert go_on(store, lake, topics=["orders"], fail_on_data_loss=False).messages == 30
    with pytest.raises(DataLost, match="pay store:0 from 0 on"):
        go_on(store, lake)
    assert go_on(store, lake, fail_on_data_loss=False).messages == 60
    assert bodies(lake, "pay") == sorted([*range(10), *range(100, 130)] * 2)
    assert go_on(store, lake).added is False


def test_store_that_comes_back_after_another_goes_on(tmp_path: Path) -> None:
    """Of its topics that were not looked at meanwhile nothing is lost, nor comes twice."""
    store, lake, kept = tmp_path / "store", tmp_path / "lake", tmp_path / "kept"
    grown(store, 20, lambda number: replace(message(number, ("orders", "pay")), queue_id=0))
    go_on(store, lake)
    store.rename(kept)
    anew(store, 100, 130)
    go_on(store, lake, topics=["orders"], fail_on_data_loss=False)
    shutil.rmtree(store)
    kept.rename(store)
    grown(store, 30, lambda number: replace(message(number, ("orders", "pay")), queue_id=0))
    assert go_on(store, lake, topics=["pay"]).messages == 5
    assert [place[3] for place in visible(lake) if place[1] == "pay"] == list(range(15))
