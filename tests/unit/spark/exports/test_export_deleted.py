"""Topics that were deleted before they were exported, and stores that are away: told, once."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.disks.stores import Stored, StoreWriter
from support.lake.exports import Inline, go_on, grown, message, stored, visible

from aerobee.cli.export import EXIT_LOST
from aerobee.cli.main import main
from aerobee.spark import export
from aerobee.spark.errors import DataLost, StoreUnreadable
from aerobee.spark.exports.exporter import plan_to
from aerobee.spark.lake.lake import Lake
from aerobee.spark.lake.manifest import Manifest

pytestmark = pytest.mark.usefixtures("inline")


def two_topics(number: int) -> Stored:
    """Messages of orders and of pay, one after the other, each in one queue."""
    return replace(message(number, ("orders", "pay")), queue_id=0)


def without(store: Path, topic: str = "pay") -> Path:
    """The store after its broker was told to delete a topic: its records stay in the log."""
    shutil.rmtree(store / "consumequeue" / topic)
    return store


def last(lake: Path) -> Manifest:
    """The lake's last version."""
    found = Lake(lake).log.last()
    assert found is not None
    return found


def test_messages_of_a_deleted_topic_are_counted_and_told_once(tmp_path: Path) -> None:
    """By queue and offsets, whatever topics are asked for; going on notes them in the manifest."""
    store, lake = grown(tmp_path / "store", 30, two_topics), tmp_path / "lake"
    go_on(store, lake)
    without(grown(store, 60, two_topics))
    told = r"15 messages of 1 queues are lost.*pay store:0 \[15, 30\): their queue was deleted"
    for topics in (None, ["pay"]):
        with pytest.raises(DataLost, match=told):
            go_on(store, lake, topics=topics)
        with pytest.raises(DataLost, match=told):
            plan_to(store, lake, incremental=True, topics=topics)
    assert go_on(store, lake, topics=["orders"]).messages == 15, "nobody asked for the other"
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert [(str(gap.missing), gap.lost) for gap in summary.gaps] == [
        ("pay store:0 [15, 30)", True)
    ]
    assert summary.added and last(lake).gaps == summary.gaps
    assert go_on(store, lake).added is False
    assert len(visible(lake)) == 45


def test_topic_that_was_exported_to_its_end_may_be_deleted(tmp_path: Path) -> None:
    """Nothing is lost with it, also where retention took its last message meanwhile."""
    store, lake = tmp_path / "store", tmp_path / "lake"

    def early(number: int) -> Stored:
        return two_topics(number if number < 20 else number - number % 2)

    go_on(grown(store, 500, early), lake)
    first, second, *_ = sorted((store / "commitlog").iterdir())
    first.unlink()
    exported = max(at for key, at in last(lake).positions.items() if key.topic == "pay")
    assert exported < int(second.name) < last(lake).covered["store"]
    summary = go_on(without(store), lake)
    assert not summary.gaps and not summary.added


def test_deletion_behind_which_retention_was_is_told_without_a_number(tmp_path: Path) -> None:
    """Nobody knows what of the queue went with the log's files."""
    store, lake = tmp_path / "store", tmp_path / "lake"
    go_on(grown(store, 20, two_topics), lake, topics=["pay"])
    without(grown(store, 800, two_topics))
    for path in sorted((store / "commitlog").iterdir())[:2]:
        path.unlink()
    with pytest.raises(DataLost, match=r"1 queues were deleted, perhaps .*pay store:0 from 10 on"):
        go_on(store, lake)
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert [str(gap).split(":")[0] for gap in summary.gaps] == ["pay store"]
    assert go_on(store, lake).added is False


def test_what_a_time_left_out_is_lost_with_its_topic(tmp_path: Path) -> None:
    """A run with `until` has not come to the end of any queue."""
    store, lake = grown(tmp_path / "store", 40, two_topics), tmp_path / "lake"
    go_on(store, lake, until=two_topics(20).store_timestamp)
    with pytest.raises(DataLost, match=r"10 messages .*pay store:0 \[10, 20\)"):
        go_on(without(store), lake)


def remade(root: Path, count: int, at: int) -> Path:
    """A store whose topic pay was deleted and made again before one of its messages."""
    writer = StoreWriter(root, 1 << 15)
    for number in range(count):
        if number == at:
            writer.entries["pay", 0].clear()
        writer.append(two_topics(number))
    return writer.close()


def test_topic_that_comes_back_is_exported_from_its_beginning(tmp_path: Path) -> None:
    """One of the same name is another one; as its forerunner was told, nothing more is."""
    store, lake = grown(tmp_path / "store", 40, two_topics), tmp_path / "lake"
    go_on(store, lake, until=two_topics(20).store_timestamp)
    assert go_on(without(store), lake, fail_on_data_loss=False).gaps and last(lake).deleted
    summary = go_on(remade(store, 60, 40), lake)
    assert (summary.messages, summary.gaps) == (20, ()) and last(lake).deleted == frozenset()
    assert [place for place in visible(lake) if place[1] == "pay"] == sorted(
        ("store", "pay", 0, offset) for offset in (*range(10), *range(10))
    )
    assert go_on(store, lake).added is False


def test_topic_whose_folder_was_only_away_goes_on(tmp_path: Path) -> None:
    """Its last exported message is where it was: nothing comes twice, what was missed comes now."""
    store, lake = grown(tmp_path / "store", 20, two_topics), tmp_path / "lake"
    go_on(store, lake)
    without(grown(store, 40, two_topics))
    assert go_on(store, lake, fail_on_data_loss=False).gaps
    grown(store, 50, two_topics)
    summary = go_on(store, lake)
    assert not summary.gaps and last(lake).deleted == frozenset()
    assert visible(lake) == stored(store)


def out_of_descriptors(
    real: Callable[..., object], refuses: Callable[[str], bool], path: object, *more: object
) -> object:
    """A call of `os` as a process meets it that has too much open."""
    if refuses(os.fsdecode(path)):  # type: ignore[arg-type]
        raise OSError(errno.EMFILE, "Too many open files", path)
    return real(path, *more)


def test_folder_that_cannot_be_looked_at_is_no_deleted_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk error, or a process out of file descriptors, must not pass for a deletion."""
    store, lake = grown(tmp_path / "store", 20, two_topics), tmp_path / "lake"
    go_on(store, lake)
    grown(store, 40, two_topics)
    broken: list[Callable[[str], bool]] = [
        lambda path: path.endswith("consumequeue/pay"),
        lambda path: path.endswith("consumequeue/pay/0"),
        lambda path: path.endswith("consumequeue/pay/0/" + "0" * 20),
    ]
    for refuses in broken:
        with monkeypatch.context() as patch:
            for name in ("open", "scandir", "listdir"):
                patch.setattr(os, name, partial(out_of_descriptors, getattr(os, name), refuses))
            with pytest.raises(StoreUnreadable, match="Too many open files"):
                go_on(store, lake, fail_on_data_loss=False)
    assert go_on(store, lake).messages == 20


def test_two_runs_tell_of_a_deleted_topic_once(tmp_path: Path, inline: Inline) -> None:
    """Who is second plans again, and finds that it was told."""
    store, lake = grown(tmp_path / "store", 20, two_topics), tmp_path / "lake"
    go_on(store, lake)
    without(grown(store, 40, two_topics))
    inline.before = lambda: go_on(store, lake, fail_on_data_loss=False)
    summary = go_on(store, lake, fail_on_data_loss=False)
    manifests = [Lake(lake).log.read(version) for version in Lake(lake).log.versions()]
    assert sum(len(each.gaps) for each in manifests) == 1 and summary.version == 2
    assert len(visible(lake)) == 30


def test_runs_side_by_side_cover_what_both_have(tmp_path: Path, inline: Inline) -> None:
    """A version that follows another run's does not vouch for the queues of that one."""
    store, lake = grown(tmp_path / "store", 20, two_topics), tmp_path / "lake"
    inline.before = lambda: go_on(store, lake, topics=["pay"], until=two_topics(10).store_timestamp)
    go_on(store, lake, topics=["orders"])
    assert last(lake).version == 2
    with pytest.raises(DataLost, match=r"5 messages .*pay store:0 \[5, 10\)"):
        go_on(without(store), lake)


def test_manifests_of_early_versions_count_from_the_last_message(tmp_path: Path) -> None:
    """They do not say how far they cover a log; what they have of each queue is enough."""
    store, lake = grown(tmp_path / "store", 30, two_topics), tmp_path / "lake"
    go_on(store, lake)
    for path in (lake / "_aerobee").glob("manifest-*.json"):
        values = json.loads(path.read_bytes())
        del values["covered"], values["deleted"], values["crc32"]
        path.write_text(json.dumps(values))
    with pytest.raises(DataLost, match=r"pay store:0 \[15, 30\)"):
        go_on(without(grown(store, 60, two_topics)), lake)


def test_store_of_a_pattern_that_is_away_is_an_error(tmp_path: Path) -> None:
    """A disk that is not mounted; going on tells of it, and what retention takes is seen later."""
    data, lake = tmp_path / "data", tmp_path / "lake"
    b = data / "broker-b" / "store"
    grown(data / "broker-a" / "store", 10)
    grown(b, 10)
    path = f"{data}/broker-*/store"
    assert go_on(path, lake).messages == 20
    b.rename(tmp_path / "elsewhere")
    b.mkdir()  # where it was mounted
    with pytest.raises(StoreUnreadable, match=r"not there: broker-b \(.*no-fail-on-data-loss"):
        go_on(path, lake)
    with pytest.raises(StoreUnreadable, match="broker-b"):
        plan_to(path, lake, incremental=True)
    grown(data / "broker-a" / "store", 15)
    summary = go_on(path, lake, fail_on_data_loss=False)
    assert (summary.messages, summary.away) == (5, ("broker-b",))
    assert go_on([f"broker-a={data}/broker-a/store"], lake).added is False
    b.rmdir()
    grown((tmp_path / "elsewhere"), 900).rename(b)
    min((b / "commitlog").iterdir()).unlink()
    with pytest.raises(DataLost, match="the broker's retention deleted them"):
        go_on(path, lake)
    assert go_on(path, lake, fail_on_data_loss=False).away == ()


def test_command_ends_with_the_code_for_losses(tmp_path: Path) -> None:
    """3 for deleted messages, 1 for a store that is away; both are told on going on."""
    data, lake = tmp_path / "data", tmp_path / "lake"
    a = grown(data / "a" / "store", 20, two_topics)
    grown(data / "b" / "store", 20, two_topics)
    export(f"{data}/*/store", lake)
    args = ["export", "--store", f"{data}/*/store", "--to", str(lake), "--incremental"]
    shutil.rmtree(data / "b" / "store")
    found = CliRunner().invoke(main, args)
    assert found.exit_code == 1 and "b (" in found.stderr and "not mounted" in found.stderr
    without(grown(a, 40, two_topics))
    assert CliRunner().invoke(main, [*args, "--dry-run"]).exit_code == 1
    args[2] = f"a={a}"
    found = CliRunner().invoke(main, args)
    assert found.exit_code == EXIT_LOST and "pay a:0 [10, 20)" in found.stderr
    args[2] = f"{data}/*/store"
    found = CliRunner().invoke(main, [*args, "--no-fail-on-data-loss"])
    assert found.exit_code == 0
    assert "lost: pay a:0 [10, 20): their queue was deleted" in found.stderr
    assert "away: store b" in found.stderr
