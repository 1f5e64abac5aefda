"""What an export is asked for: topics that there are, exact times, stores by any path, options."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.disks.stores import Stored, StoreWriter
from support.lake.exports import go_on, grown, message, stored, visible

from aerobee.cli.export import export as command
from aerobee.spark import export, exported_files
from aerobee.spark.errors import ExportRefused, OptionError
from aerobee.spark.exports.exporter import plan_to
from aerobee.spark.exports.options import milliseconds

pytestmark = pytest.mark.usefixtures("inline")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def call(*arguments: object) -> tuple[int, str]:
    """The exit code of the command and what it said."""
    done = CliRunner().invoke(command, list(map(str, arguments)))
    return done.exit_code, done.output


def test_one_topic_may_be_given_as_a_text(tmp_path: Path) -> None:
    """And not taken for the collection of its letters."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    assert export(store, lake, topics="orders").messages == 10
    assert {place[1] for place in visible(lake)} == {"orders"}


@pytest.mark.parametrize("topics", [[""], "", [7], b"orders"])
def test_names_that_are_none_are_refused(tmp_path: Path, topics: Any) -> None:
    """An empty text too: it is no wish for all topics."""
    with pytest.raises(OptionError, match="is no name of a topic"):
        export(grown(tmp_path / "store", 2), tmp_path / "lake", topics=topics)


@pytest.mark.parametrize("more", [{}, {"incremental": True}, {"overwrite": True}])
def test_unknown_topic_is_refused_with_the_nearest_name(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """Before anything is written; one that is known does not make up for it."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    for call_it in (export, plan_to):
        with pytest.raises(OptionError, match="no store has a topic 'ordres'; did you mean orders"):
            call_it(store, lake, topics=["ordres", "orders"], **more)
    assert not lake.exists()
    wanted = ["--store", store, "--to", lake, "--topic", "ordres"]
    for arguments in (wanted, [*wanted, "--dry-run"]):
        code, text = call(*arguments)
        assert code == 2 and "did you mean orders?" in text
    assert not lake.exists()


def test_topics_that_have_no_messages_now_are_known(tmp_path: Path) -> None:
    """Those of the lake, those that a broker was told of, those that may be in no queue yet."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    go_on(store, lake)
    shutil.rmtree(store / "consumequeue" / "orders")
    assert go_on(store, lake, topics=["orders"]).added is False
    (store / "config").mkdir()
    table = {"topicConfigTable": {"soon": {"readQueueNums": 4, "writeQueueNums": 4}}}
    (store / "config" / "topics.json").write_text(json.dumps(table))
    assert go_on(store, lake, topics=["soon"]).added is False
    writer = StoreWriter(tmp_path / "behind", 1 << 15)
    writer.append(Stored())
    writer.append(Stored(topic="late"), dispatched=False)
    behind = writer.close()
    assert go_on(behind, tmp_path / "other", topics=["late"]).undispatched_bytes > 0


@pytest.mark.parametrize(
    ("microseconds", "expected"),
    [(0, 0), (1, 1), (400, 1), (999, 1), (1000, 1), (1001, 2), (-1, 0), (-1000, -1)],
)
def test_moments_are_the_next_whole_millisecond(microseconds: int, expected: int) -> None:
    """Exactly, whatever the year and the zone."""
    first = milliseconds(NOON)
    assert first is not None
    assert milliseconds(NOON + timedelta(microseconds=microseconds)) == first + expected
    far = datetime.max.replace(tzinfo=UTC)
    assert milliseconds(far) == 253402300800000
    assert milliseconds(datetime(1970, 1, 1)) == 0
    assert milliseconds(17) == 17 and milliseconds(None) is None


def test_times_with_microseconds_part_messages_exactly(tmp_path: Path) -> None:
    """One stored before a moment is not after it."""
    first_ms = milliseconds(NOON)
    assert first_ms is not None
    store = grown(tmp_path / "s", 3, lambda number: Stored(store_timestamp=first_ms + number))
    moment = NOON + timedelta(microseconds=400)
    assert plan_to(store, tmp_path / "x", until=moment).messages == 1
    assert plan_to(store, tmp_path / "x", since=moment).messages == 2
    text = moment.isoformat()
    for option, count in (("--until", 1), ("--since", 2)):
        code, told = call("--store", store, "--to", tmp_path / "x", option, text, "--dry-run")
        assert code == 0 and f"would read {count} messages" in told


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--format", "json", "--compression", "snappy"], "not one of gzip, zstd, none"),
        (["--file-bytes", "1k"], "1024 is less than 65536"),
        (["--format", "json"], "holds an export as parquet"),
        (["--topic", "orders", "--topic-pattern", "o.*"], "exclude each other"),
    ],
)
def test_dry_run_refuses_what_the_run_refuses(
    tmp_path: Path, arguments: list[str], text: str
) -> None:
    """With the same words and exit code."""
    store, lake = grown(tmp_path / "store", 4), tmp_path / "lake"
    go_on(store, lake)
    wanted = ["--store", store, "--to", lake, "--incremental", *arguments]
    run, dry = call(*wanted), call(*wanted, "--dry-run")
    assert run == dry and run[0] == 2 and text in run[1]


def test_stores_may_have_commas_in_their_paths(tmp_path: Path) -> None:
    """Alone, repeated or labelled; one text may still list several."""
    a, b = grown(tmp_path / "a,b", 4), grown(tmp_path / "c", 6)
    expected = stored(a, "x") + stored(b, "c")
    named = [[f"x={a}", str(b)], [f"x={a}", f"c={b}"]]
    for number, stores in enumerate(named):
        options = [word for store in stores for word in ("--store", store)]
        code, told = call(*options, "--to", tmp_path / f"lake-{number}")
        assert code == 0, told
        assert visible(tmp_path / f"lake-{number}") == sorted(expected)
        assert export(stores, tmp_path / f"l{number}").messages == 10
    for alone in (f"x={a}", a):
        code, told = call("--store", alone, "--to", tmp_path / "y", "--dry-run")
        assert code == 0 and "would read 4 messages" in told
    assert export(f"x={a}", tmp_path / "w").messages == 4
    c = grown(tmp_path / "d", 3)
    code, told = call("--store", f"{b},{c}", "--to", tmp_path / "z", "--dry-run")
    assert code == 0 and "would read 9 messages" in told


def test_versions_that_are_not_there_are_told_as_such(tmp_path: Path) -> None:
    """Those to come, those that were replaced, and those that there never are."""
    store, lake = grown(tmp_path / "store", 10), tmp_path / "lake"
    export(store, lake)
    go_on(grown(store, 20), lake)
    assert sum(file.rows for file in exported_files(lake, 1)) == 10
    export(store, lake, overwrite=True)
    go_on(grown(store, 24), lake)
    for version in (0, -1, 99):
        with pytest.raises(ExportRefused, match=f"has no version {version} .* 1 to 4"):
            exported_files(lake, version)
    for version in (1, 2):
        with pytest.raises(ExportRefused, match=rf"version {version} .* replaced by version 3"):
            exported_files(lake, version)
    assert sum(file.rows for file in exported_files(lake, 3)) == 20
    assert sum(file.rows for file in exported_files(lake)) == 24


def test_folders_that_are_no_queues_do_not_matter(tmp_path: Path) -> None:
    """Another spelling of a queue's number, a name that is not UTF-8."""
    store, lake = grown(tmp_path / "store", 6, lambda _: Stored()), tmp_path / "lake"
    queue = store / "consumequeue" / "orders" / "0"
    shutil.copytree(queue, queue.with_name("00"))
    shutil.copytree(queue, store / "consumequeue" / os.fsdecode(b"b\xff") / "0")
    assert go_on(store, lake).messages == 6
    assert visible(lake) == stored(store)
    assert go_on(store, lake, topics=["orders"]).added is False
    assert message(0).topic == "orders"
