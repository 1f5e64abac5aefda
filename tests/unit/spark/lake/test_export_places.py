"""Where the files of exports go: long names, places that are taken, versions that wait."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.exports import go_on, grown, staged, stored, visible

from aerobee.spark import export, exported_files
from aerobee.spark.errors import ExportFailed, ExportRefused
from aerobee.spark.lake.folders import (
    NAME_BYTES_MAX,
    cut_topic,
    escape_path,
    fitting,
    topic_folder,
    unescape_path,
)
from aerobee.spark.lake.lake import Lake

pytestmark = pytest.mark.usefixtures("inline")

LONG = "%RETRY%" + "g" * 240


def long_store(root: Path, count: int = 5) -> Path:
    """A store with messages of a topic whose escaped name is too long, and of another one."""
    topics = (LONG, "orders")
    return grown(root, 2 * count, lambda number: Stored(topic=topics[number % 2]))


@pytest.mark.parametrize("format", ["parquet", "json", "delta"])
def test_topic_with_a_long_name_is_exported(tmp_path: Path, format: str) -> None:
    """Its folder has a shorter name; whoever reads the manifest gets the right one."""
    if format == "delta":
        pytest.importorskip("deltalake")
    store, lake = long_store(tmp_path / "store"), tmp_path / "lake"
    assert go_on(store, lake, format=format).messages == 10
    assert go_on(long_store(store, 6), lake, format=format).messages == 2
    rows = {file.topic: 0 for file in exported_files(lake)}
    for file in exported_files(lake):
        assert (lake / file.path).stat().st_size == file.bytes
        rows[file.topic] += file.rows
    assert rows == {LONG: 6, "orders": 6} and staged(lake) == []
    if format == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(str(lake)).to_pyarrow_table(columns=["topic"])
        assert sorted(table["topic"].to_pylist()) == [LONG] * 6 + ["orders"] * 6


@pytest.mark.parametrize("topic", ["%" * 81, "%" * 82, "a" + "%" * 90, "é" * 150, LONG, "x" * 999])
def test_folder_names_fit(topic: str) -> None:
    """Cut between signs, however they are written; readers of folders unescape what is left."""
    folder = topic_folder(topic)
    assert len(folder.encode()) <= NAME_BYTES_MAX and fitting(folder) == folder
    cut = cut_topic(topic)
    assert (cut is None) == (unescape_path(folder.removeprefix("topic=")) == topic)
    if cut is not None:
        begun, mark, number = cut.rpartition("~")
        assert topic.startswith(begun) and mark and len(number) == 32
        assert escape_path(cut) == folder.removeprefix("topic=")
        assert topic_folder(topic + "b") != folder


def test_lake_that_was_blocked_by_a_long_name_is_mended(tmp_path: Path) -> None:
    """An early version committed a folder name that nobody can make; its files get their places."""
    store, lake = long_store(tmp_path / "store"), tmp_path / "lake"
    go_on(store, lake)
    path = lake / "_aerobee" / "manifest-0000000001.json"
    values = json.loads(path.read_bytes())
    run = lake / "_aerobee" / "staging" / values["run"]
    for file in values["files"]:
        (run / file["staged"]).parent.mkdir(parents=True, exist_ok=True)
        (lake / file["path"]).rename(run / file["staged"])
        *_, date, name = file["path"].split("/")
        file["path"] = f"topic={escape_path(file['topic'])}/{date}/{name}"
    del values["crc32"]
    text = json.dumps(values)
    path.write_text(text)
    (run / path.name).write_text(text)
    assert not go_on(store, lake).added and staged(lake) == []
    assert len(visible(lake)) == 10


def test_place_that_cannot_be_made_is_told_before_the_commit(tmp_path: Path) -> None:
    """A file stands where a folder should be: nothing counts, and nothing is left."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    go_on(store, lake)
    grown(store, 60)
    (lake / "topic=orders" / "date=2025-10-11").write_text("mine")
    with pytest.raises(ExportFailed, match=r"cannot write below .*date=2025-10-11"):
        go_on(store, lake)
    assert Lake(lake).log.versions() == [1] and staged(lake) == []
    assert [
        path for path in lake.rglob("date=*") if path.is_dir() and not any(path.iterdir())
    ] == []
    (lake / "topic=orders" / "date=2025-10-11").unlink()
    go_on(store, lake)
    assert visible(lake) == stored(store)


def refuse_renames(monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    """Let files not get to places whose paths hold a text."""
    rename = os.rename

    def refusing(source: Any, target: Any) -> None:
        if to in str(target):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refusing)


def hindered(store: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Export a version whose files of one topic do not get to their places."""
    refuse_renames(monkeypatch, "topic=orders/")
    with pytest.raises(ExportFailed, match=r"version 1 of the export counts.*Permission denied"):
        go_on(store, lake, **more)


def test_runs_get_past_a_version_that_cannot_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told each time, keeps its files, and gets its places once that is possible."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    with monkeypatch.context() as patched:
        hindered(store, lake, patched)
        summary = go_on(grown(store, 40), lake, topics=["%RETRY%billing"])
        assert (summary.messages, summary.version) == (10, 2)
        assert len(summary.waiting) == 1 and "version 1 of the export counts" in summary.waiting[0]
        assert len([place for place in visible(lake) if place[1] == "%RETRY%billing"]) >= 10
        with pytest.raises(ExportFailed, match=r"version 1 .* next run tries again"):
            exported_files(lake)
    assert go_on(store, lake).waiting == ()
    assert visible(lake) == stored(store) and staged(lake) == []


def test_a_version_that_cannot_be_published_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files do not count any more, and never appear."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    with monkeypatch.context() as patched:
        hindered(store, lake, patched)
        summary = export(store, lake, topics=["%RETRY%billing"], overwrite=True)
        assert summary.messages == 10 and staged(lake) == []
    again = [place for place in stored(store) if place[1] == "%RETRY%billing"]
    assert visible(lake) == again
    assert go_on(store, lake, topics=["%RETRY%billing"]).added is False
    assert visible(lake) == again


def test_lake_that_lost_staged_files_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Going on is refused, for messages are lost; exporting all of them again is not."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    with monkeypatch.context() as patched:
        hindered(store, lake, patched)
    for path in (lake / "_aerobee" / "staging").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(ExportFailed, match="the lake has lost"):
        go_on(store, lake)
    assert export(store, lake, overwrite=True).messages == 20
    assert visible(lake) == stored(store) and staged(lake) == []


def test_versions_stay_in_order_in_deltas_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows a version that waits is exported, waits too, and comes after it."""
    deltalake = pytest.importorskip("deltalake")
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    with monkeypatch.context() as patched:
        hindered(store, lake, patched, format="delta")
        summary = go_on(grown(store, 40), lake, format="delta")
        assert summary.messages == 20 and len(summary.waiting) == 2
        assert not deltalake.DeltaTable.is_deltatable(str(lake))
    assert go_on(store, lake, format="delta").waiting == ()
    table = deltalake.DeltaTable(str(lake))
    assert table.to_pyarrow_table(columns=["topic"]).num_rows == 40
    assert [each["aerobeeVersion"] for each in table.history()[::-1]] == [1, 2]
    assert staged(lake) == []


def test_folders_of_a_run_that_lost_its_commit_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were made before it."""
    store, lake = grown(tmp_path / "store", 5), tmp_path / "lake"
    monkeypatch.setattr(os, "link", _refuse_links)
    with pytest.raises(ExportFailed, match="no hard links"):
        go_on(store, lake)
    assert list(lake.glob("topic=*")) == [] and staged(lake) == []


def _refuse_links(source: Any, target: Any) -> None:
    raise OSError(errno.EPERM, "not permitted")


def test_queue_with_a_large_number_is_exported_or_refused_at_once(tmp_path: Path) -> None:
    """No version comes into being that nobody can read back."""
    writer = StoreWriter(tmp_path / "store", 1 << 15)
    for queue_id in (0, 1_234_567_890):
        writer.append(Stored(queue_id=queue_id))
    store, lake = writer.close(), tmp_path / "lake"
    for _ in range(2):
        go_on(store, lake)
        assert visible(lake) == stored(store)


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue"])
def test_lake_within_a_store_is_refused(tmp_path: Path, folder: str) -> None:
    """Its broker would take it for a topic, or remove it; by a link as well."""
    store = grown(tmp_path / "store", 10)
    (tmp_path / "link").symlink_to(store / folder)
    for lake in (store / folder / "lake", tmp_path / "link" / "lake"):
        with pytest.raises(ExportRefused, match="which is the broker's own"):
            go_on(store, lake)
    assert not (store / folder / "lake").exists()


def test_lake_behind_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    """Its disk is not mounted; through a link that leads somewhere, or moved, it goes on."""
    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    lake.symlink_to(tmp_path / "disk")
    with pytest.raises(ExportRefused, match="is its disk mounted"):
        go_on(store, lake)
    (tmp_path / "disk").mkdir()
    assert go_on(store, lake).messages == 10
    (tmp_path / "disk").rename(tmp_path / "moved")
    grown(store, 20)
    assert go_on(store, tmp_path / "moved").messages == 10
    assert visible(tmp_path / "moved") == stored(store)


def test_delta_table_that_lost_its_log_is_not_begun_in_the_middle(tmp_path: Path) -> None:
    """Readers would miss all earlier versions; restored, the table gets what waits for it."""
    import deltalake

    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    go_on(store, lake, format="delta")
    (lake / "_delta_log").rename(tmp_path / "kept")
    grown(store, 20)
    for _ in range(2):
        with pytest.raises(ExportFailed, match="_delta_log is gone"):
            go_on(store, lake, format="delta")
    (tmp_path / "kept").rename(lake / "_delta_log")
    grown(store, 30)
    go_on(store, lake, format="delta")
    assert deltalake.DeltaTable(str(lake)).to_pyarrow_table().num_rows == 30
