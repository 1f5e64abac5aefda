"""Exports that go on: every message once, whoever else exports, whatever the broker deletes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.exports import (
    FIRST_MS,
    Inline,
    bury,
    go_on,
    grown,
    message,
    staged,
    stored,
    visible,
)

from aerobee.remoting.errors import AerobeeError
from aerobee.spark import export, exported_files
from aerobee.spark.errors import DataLost, ExportFailed, ExportRefused, OptionError
from aerobee.spark.exports.exporter import plan_to
from aerobee.spark.lake.lake import Lake

pytestmark = pytest.mark.usefixtures("inline")


def test_runs_go_on_where_the_last_one_ended(tmp_path: Path, inline: Inline) -> None:
    """New messages, queues and topics are added; nothing new adds no version and asks no Spark."""
    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    for count, expected in ((10, 10), (10, 0), (11, 1), (40, 29)):
        grown(store, count)
        tasks = inline.tasks
        summary = go_on(store, lake)
        assert (summary.messages, summary.added) == (expected, expected > 0)
        assert (inline.tasks > tasks) == summary.added
        assert visible(lake) == stored(store)
    assert summary.version == 3 and staged(lake) == []


def test_topics_may_be_added_later(tmp_path: Path) -> None:
    """A topic that the lake has not seen comes from its first message on."""
    store, lake = grown(tmp_path / "store", 30), tmp_path / "lake"
    go_on(store, lake, topics=["orders"])
    assert {place[1] for place in visible(lake)} == {"orders"}
    assert go_on(store, lake, topic_pattern="%RETRY%.*").messages == 15
    assert go_on(store, lake).added is False
    assert visible(lake) == stored(store)


def test_several_stores_share_a_lake(tmp_path: Path) -> None:
    """Their queues are told apart by label, in one run or in several."""
    a, b = grown(tmp_path / "broker-a" / "s", 10), grown(tmp_path / "broker-b" / "s", 12)
    lake = tmp_path / "lake"
    go_on(f"broker-a={a}", lake)
    go_on(f"{tmp_path}/broker-*/s", lake)
    assert visible(lake) == stored(a, "broker-a") + stored(b, "broker-b")


def test_times_are_offsets_of_the_first_messages_stored_then(tmp_path: Path) -> None:
    """Of each queue; a later run goes on from there, so that the parts are the whole."""
    store, lake = grown(tmp_path / "store", 60), tmp_path / "lake"
    at = [message(number).store_timestamp for number in (10, 25, 40)]
    assert go_on(store, lake, since=at[0], until=at[1]).messages == 15
    assert go_on(store, lake, since=0, until=at[2] + 1).messages == 16, "since is past"
    assert go_on(store, lake).messages == 60 - 41
    assert len(visible(lake)) == len(set(visible(lake))) == 50
    for since, until, count in (
        (FIRST_MS - 1, None, 60),
        (None, FIRST_MS, 0),
        (at[2] * 2, None, 0),
        (at[0] + 1, at[1] + 1, 15),
    ):
        assert plan_to(store, tmp_path / "x", since=since, until=until).messages == count


def test_broker_that_deleted_messages_too_early_is_told_of(tmp_path: Path) -> None:
    """By queue and offsets; going on without them notes them in the manifest, once."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    go_on(store, lake)
    grown(store, 800)
    first, *_ = sorted((store / "commitlog").iterdir())
    first.unlink()
    left = len(stored_after(store, first))
    with pytest.raises(DataLost, match=r"messages of 6 queues are lost.*orders store:0 \[4, \d+\)"):
        go_on(store, lake)
    before = visible(lake)
    assert before == visible(lake) and staged(lake) == []
    summary = go_on(store, lake, fail_on_data_loss=False)
    lost = sum(gap.missing.end - gap.missing.start for gap in summary.gaps)
    assert (summary.messages, lost) == (left, 800 - 20 - left)
    assert Lake(lake).log.last().gaps == summary.gaps  # type: ignore[union-attr]
    assert go_on(store, lake).added is False


def stored_after(store: Path, deleted: Path) -> list[Any]:
    """What a store has without its first file."""
    shutil.copytree(store, store.parent / "copy")
    deleted = store.parent / "copy" / "commitlog" / deleted.name
    assert not deleted.exists()
    return stored(store.parent / "copy")


@pytest.mark.parametrize("count", [5, 90])
def test_store_that_was_made_anew_is_told_of(tmp_path: Path, count: int) -> None:
    """Whether it has fewer messages by now, or more of others; its new ones can be had."""
    store, lake = grown(tmp_path / "store", 30), tmp_path / "lake"
    go_on(store, lake)
    shutil.rmtree(store)
    writer = StoreWriter(store, 1 << 15, first_position=1 << 20)
    for number in range(count):
        writer.append(message(number))
    writer.close()
    with pytest.raises(
        DataLost,
        match=r"queues are not the ones that were exported before.*may also get another name",
    ):
        go_on(store, lake)
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert summary.messages == count, "all stand behind the last exported one in the log"
    assert summary.gaps
    assert go_on(store, lake).added is False


def test_messages_deleted_while_they_are_read_are_told_of(tmp_path: Path, inline: Inline) -> None:
    """The run fails and adds nothing, or notes the gap: its tasks count what they find."""
    store, lake = grown(tmp_path / "store", 600), tmp_path / "lake"

    def delete() -> None:
        min((store / "commitlog").iterdir()).unlink()

    inline.before = delete
    with pytest.raises(DataLost, match="is gone"):
        go_on(store, lake)
    assert visible(lake) == [] and staged(lake) == []
    shutil.rmtree(store)
    grown(store, 600)
    inline.before = delete
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert 0 < summary.messages == len(visible(lake)) < 600
    assert (
        sum(gap.missing.end - gap.missing.start for gap in summary.gaps) + len(visible(lake)) == 600
    )


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_runs_at_once_add_each_message_once(tmp_path: Path, inline: Inline, format: str) -> None:
    """The one that comes too late starts over and finds what the other one left."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"

    def rival() -> None:
        assert go_on(store, lake, format=format).messages == 20
        grown(store, 24)

    inline.before = rival
    assert go_on(store, lake, format=format).messages == 4
    assert sum(file.rows for file in exported_files(lake)) == 24
    assert staged(lake) == []


def test_runs_of_different_topics_at_once_both_count(tmp_path: Path, inline: Inline) -> None:
    """The later one's files are added to the earlier one's without being made again."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    inline.before = lambda: go_on(store, lake, topics=["orders"])
    summary = go_on(store, lake, topics=["%RETRY%billing"])
    assert (summary.messages, summary.version, inline.tasks) == (10, 2, 2)
    assert visible(lake) == stored(store)
    assert go_on(store, lake).added is False


def test_full_export_that_comes_too_late_is_refused(tmp_path: Path, inline: Inline) -> None:
    """It would double the other one's messages."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    inline.before = lambda: export(store, lake)
    with pytest.raises(ExportRefused, match="already holds an export"):
        export(store, lake)
    assert visible(lake) == stored(store) and staged(lake) == []


def test_run_that_was_taken_for_dead_adds_nothing(tmp_path: Path, inline: Inline) -> None:
    """What it had written is gone; it says so."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"

    def declare_dead() -> None:
        bury(lake)
        assert go_on(store, lake, topics=["orders"]).added

    inline.before = declare_dead
    with pytest.raises(ExportFailed, match="cannot write below"):
        go_on(store, lake)
    assert {place[1] for place in visible(lake)} == {"orders"}
    go_on(store, lake)
    assert visible(lake) == stored(store)


@pytest.mark.parametrize(
    ("more", "kind", "text"),
    [
        ({"overwrite": True}, OptionError, "choose one"),
        ({"topics": ["a"], "topic_pattern": "a"}, OptionError, "exclude each other"),
        ({"topic_pattern": "("}, OptionError, "no regular expression"),
        ({"since": 5, "until": 5}, OptionError, "is not after since"),
        ({"format": "parket"}, OptionError, "did you mean parquet"),
        ({"compression": "gzip"}, OptionError, "not one of snappy, zstd, none"),
        ({"format": "json", "compression": "snappy"}, OptionError, "not one of gzip, zstd, none"),
        ({"file_bytes": 3}, OptionError, "less than 65536"),
        ({"format": "json"}, ExportRefused, "holds an export as parquet"),
        (
            {"format": "delta", "incremental": False, "overwrite": True},
            ExportRefused,
            "a change to delta would mislead",
        ),
    ],
)
def test_wrong_wishes_are_refused(
    tmp_path: Path, more: dict[str, Any], kind: type[AerobeeError], text: str
) -> None:
    """Before anything is read or written."""
    store, lake = grown(tmp_path / "store", 2), tmp_path / "lake"
    go_on(store, lake)
    with pytest.raises(kind, match=text):
        go_on(store, lake, **more)


def test_delta_is_refused_without_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text names the extra to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'aerobee\[spark,delta\]'"):
        go_on(tmp_path, tmp_path / "lake", format="delta")


def test_log_without_queues_is_exported_once(tmp_path: Path) -> None:
    """Along the log; nobody knows its queues' offsets, so no run can go on from there."""
    store, lake = grown(tmp_path / "store", 30), tmp_path / "lake"
    shutil.rmtree(store / "consumequeue")
    summary = export(store, lake, topics=["orders"], since=message(4).store_timestamp)
    assert summary.messages == 13
    with pytest.raises(OptionError, match="without its ConsumeQueues"):
        go_on(store, lake)


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    """Nothing is removed that no export has written."""
    store = grown(tmp_path / "store", 2)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "photo.jpg").write_text("")
    for more in ({"overwrite": True}, {"incremental": True}, {}):
        with pytest.raises(ExportRefused, match=r"not empty and no earlier export \(photo.jpg"):
            export(store, tmp_path / "photos", **more)  # type: ignore[arg-type]
    with pytest.raises(ExportRefused, match="is no folder"):
        export(store, tmp_path / "photos" / "photo.jpg")


def test_plan_tells_what_would_be_read(tmp_path: Path) -> None:
    """Per queue from where to where, and what no queue has yet; nothing is written."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    go_on(store, lake)
    writer = StoreWriter(store, 1 << 15)
    for number in range(23):
        writer.append(message(number))
    writer.append(Stored(topic="late"), dispatched=False)
    writer.close()
    before = sorted(lake.rglob("*"))
    plan = plan_to(store, lake, incremental=True)
    assert [str(each) for each in plan.ranges] == [
        "%RETRY%billing store:0 [3, 4)",
        "orders store:1 [3, 4)",
        "orders store:2 [3, 4)",
    ]
    assert plan.messages == 3 and 0 < plan.bytes < 2000
    assert plan.stores[0].undispatched_bytes > 0
    assert sorted(lake.rglob("*")) == before


def test_readers_can_skip_by_time_and_offset(tmp_path: Path) -> None:
    """Row groups tell the least and the greatest of what queries narrow by, and nothing long."""
    store = grown(tmp_path / "store", 40)
    go_on(store, tmp_path / "lake", compression="zstd")
    paths = list((tmp_path / "lake").rglob("*.zstd.parquet"))
    assert paths
    for path in paths:
        group = pq.ParquetFile(path).metadata.row_group(0)
        columns = [group.column(at) for at in range(group.num_columns)]
        told = {column.path_in_schema: column.statistics for column in columns}
        for name in ("store_timestamp", "queue_id", "queue_offset", "commit_log_offset", "broker"):
            assert told[name].has_min_max, name
        for name in ("body", "keys", "properties.key_value.value"):
            assert told[name] is None, name
        assert {column.compression for column in columns} == {"ZSTD"}
        times = pq.ParquetFile(path).read(["store_timestamp"])["store_timestamp"].to_pylist()
        assert times == sorted(times)
        (order,) = group.sorting_columns
        assert columns[order.column_index].path_in_schema == "commit_log_offset"


def test_tasks_share_very_many_queues(tmp_path: Path) -> None:
    """More than one window holds."""
    store = grown(tmp_path / "store", 100, lambda number: Stored(queue_id=number))
    go_on(store, tmp_path / "lake")
    assert visible(tmp_path / "lake") == stored(store)
