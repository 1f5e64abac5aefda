"""Whatever way a read takes, along the log or led by the queues, it finds the same messages."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from support.disks.stores import Stored, StoreWriter, properties, read_log, tag_hash
from support.lake.plans import planned_pieces

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.errors import DataLost, OptionError
from aerobee.spark.options.query import parse_options
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.planning.store_pieces import StorePiece
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.damage import DamagePolicy
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.selection import Limits, Selection

ALONE = ["topic", "queue_id", "queue_offset", "commit_log_offset", "record_bytes", "tags_code"]
RECORDS = [*ALONE, "body", "tags"]


def write(root: Path, *, first: int = 0, messages: int = 400) -> Path:
    """A store of several files; `rare` is a small part of it."""
    chance = random.Random(str(root.name))
    writer = StoreWriter(root, 8192, first)
    for number in range(messages):
        topic = "rare" if number % 20 == 0 else chance.choice(["orders", "payments", "%RETRY%g"])
        writer.append(
            Stored(
                topic=topic,
                queue_id=number % 3,
                body=chance.randbytes(chance.randrange(300)),
                properties=properties({"TAGS": "ab"[number % 2]}),
                store_timestamp=1_700_000_000_000 + number,
                sys_flag=16 if number % 7 == 0 else 0,
                born_host=("2001:db8::7", 4) if number % 7 == 0 else ("10.0.0.7", 1),
            )
        )
    return writer.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """One store that has lost its first files to retention long ago."""
    return write(tmp_path / "s", first=8192 * 100)


def plan(store: Path, names: list[str], selection: Any = None, **options: str) -> Any:
    """The pieces of a query."""
    parsed = parse_options({"path": str(store), "partitionBytes": "64k", **options})
    return planned_pieces(parsed, names, selection or parsed.selection)


def rows(
    store: Path, names: list[str], selection: Any = None, **options: str
) -> list[dict[str, Any]]:
    """What a query reads, in the order of the log."""
    parsed = parse_options({"path": str(store), "partitionBytes": "64k", **options})
    return read(plan(store, names, selection, **options), names, parsed, selection)


def read(
    pieces: list[StorePiece], names: list[str], options: Any, selection: Selection | None = None
) -> list[dict[str, Any]]:
    """What the tasks of a plan read."""
    found = []
    for store_piece in pieces:
        decoder = Decoder(arrow_schema(names), broker=store_piece.broker)
        for batch in piece_batches(
            store_piece.piece,
            selection or options.selection,
            decoder,
            DamagePolicy(options.mode, fail_on_data_loss=options.fail_on_data_loss),
        ):
            batch.validate(full=True)
            found += batch.to_pylist()
    return sorted(found, key=lambda row: row["commit_log_offset"])


def truth(store: Path, names: list[str], **wanted: Any) -> list[dict[str, Any]]:
    """The same from the struct loop, without retries."""
    found = []
    for row in read_log(store):
        row["tags_code"] = tag_hash(row["raw_properties"])
        if row["topic"] != "%RETRY%g" and all(row[name] == wanted[name] for name in wanted):
            found.append({name: row[name] for name in names})
    return found


@pytest.mark.parametrize("names", [ALONE, RECORDS], ids=["queues alone", "records"])
@pytest.mark.parametrize("partitions", ["1", "7"])
def test_all_topics_of_users_are_read(store: Path, names: list[str], partitions: str) -> None:
    """The queues alone are counted where they tell enough; else the log is gone through."""
    pieces = plan(store, names, minPartitions=partitions)
    kinds = {type(store_piece.piece) for store_piece in pieces}
    assert kinds == ({EntryPiece} if names is ALONE else {Piece})
    assert len(pieces) >= int(partitions)
    assert rows(store, names, minPartitions=partitions) == truth(store, names)


def test_counting_opens_no_file_of_the_log(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once planned, the ConsumeQueues tell everything."""
    pieces = plan(store, ALONE, subscribe="orders")
    monkeypatch.setattr(OpenSegment, "__init__", lambda *_: pytest.fail("the log was opened"))
    found = read(pieces, ALONE, parse_options({"path": "s"}))
    assert found == truth(store, ALONE, topic="orders")


@pytest.mark.parametrize("queues_at_once", [64, 0], ids=["merged", "one by one"])
def test_small_share_is_gathered(
    store: Path, queues_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few records over the whole log, in as many tasks as asked for."""
    monkeypatch.setattr("aerobee.spark.planning.queue_pieces.QUEUES_PER_WINDOW", queues_at_once)
    monkeypatch.setattr("aerobee.spark.reading.queue_reads.QUEUES_PER_WINDOW", queues_at_once)
    monkeypatch.setattr("aerobee.spark.at_rest.gathering.GAP_BYTES", 700)
    for partitions in ("1", "4"):
        options = {"subscribe": "rare", "minPartitions": partitions}
        assert {type(store_piece.piece) for store_piece in plan(store, RECORDS, **options)} == {
            EntryPiece
        }
        assert rows(store, RECORDS, **options) == truth(store, RECORDS, topic="rare")
    pattern = {"subscribePattern": "ra.*|%RETRY%.*"}
    assert rows(store, RECORDS, **pattern) == truth(store, RECORDS, topic="rare")


@pytest.mark.parametrize("names", [ALONE, RECORDS], ids=["queues alone", "records"])
def test_queues_and_offsets_bound_a_read(store: Path, names: list[str]) -> None:
    """Offsets of one queue, all of the others; assigned queues only."""
    found = rows(
        store,
        names,
        assign='{"orders": ["0", "s:2"], "rare": [1]}',
        startingOffsets='{"orders": {"0": 5}}',
        endingOffsets='{"orders": {"0": 9, "2": -1}}',
    )
    expected = [
        row
        for row in truth(store, names)
        if (row["topic"], row["queue_id"]) in {("orders", 2), ("rare", 1)}
        or ((row["topic"], row["queue_id"]) == ("orders", 0) and 5 <= row["queue_offset"] < 9)
    ]
    assert len([row for row in expected if row["topic"] == "orders"]) > 10
    assert found == expected


def test_selection_prunes_every_way(store: Path) -> None:
    """Filters of a query: offsets, positions, times, tags."""
    every = truth(store, RECORDS)
    middle = every[len(every) // 2]["commit_log_offset"]
    choice = parse_options({"path": "s"}).selection.choice
    for names in (ALONE, RECORDS):
        for topics in (None, frozenset({"rare"})):
            selection = Selection(
                topics=topics,
                choice=choice,
                queue_ids=Limits(values=frozenset({0, 2})),
                queue_offsets=Limits(low=3),
                positions=Limits(high=middle),
            )
            assert rows(store, names, selection) == [
                {name: row[name] for name in names}
                for row in every
                if row["queue_id"] != 1
                and row["queue_offset"] >= 3
                and row["commit_log_offset"] < middle
                and (topics is None or row["topic"] in topics)
            ]
    tagged = Selection(choice=choice, tag_hashes=frozenset({ord("a")}))
    assert rows(store, RECORDS, tagged) == truth(store, RECORDS, tags="a")


def test_times_leave_files_out(store: Path) -> None:
    """Exactly those of the range, led by the queues too."""
    times = {"startingTimestamp": "1700000000100", "endingTimestamp": "1700000000200"}
    names = [*RECORDS, "store_timestamp"]
    mores: list[dict[str, str]] = [{}, {"subscribe": "rare"}]
    for more in mores:
        found = [row["commit_log_offset"] for row in rows(store, names, **times, **more)]
        assert found == [
            row["commit_log_offset"]
            for row in read_log(store)
            if 100 <= row["store_timestamp"] - 1_700_000_000_000 < 200
            and row["topic"] != "%RETRY%g"
            and (not more or row["topic"] == "rare")
        ]


def test_several_stores_are_one_table(tmp_path: Path) -> None:
    """Their names tell them apart, in a column and in offsets."""
    for name in ("broker-a", "broker-b"):
        write(tmp_path / name, messages=60)
    names = ["broker", *ALONE]
    path = tmp_path / "broker-*"
    found = rows(path, names)
    for name in ("broker-a", "broker-b"):
        mine = [row for row in found if row["broker"] == name]
        assert mine == [{"broker": name, **row} for row in truth(tmp_path / name, ALONE)]
    offsets = '{"orders": {"broker-b:0": 1}}'
    parsed = parse_options({"path": str(path)})
    pieces = plan(path, names, subscribe="orders", startingOffsets=offsets)
    counts = {name: 0 for name in ("broker-a", "broker-b")}
    for row in read(pieces, names, parsed):
        counts[row["broker"]] += 1
    assert counts == {
        "broker-a": len(truth(tmp_path / "broker-a", ALONE, topic="orders")),
        "broker-b": len(truth(tmp_path / "broker-b", ALONE, topic="orders")) - 1,
    }


def test_messages_that_the_queues_lack_are_read_from_the_log(tmp_path: Path) -> None:
    """A broker that was killed has written them to the log only."""
    writer = StoreWriter(tmp_path / "s", 8192)
    for number in range(60):
        body = b"x" * 200
        writer.append(
            Stored(topic="rare" if number % 9 else "a", body=body), dispatched=number < 40
        )
    store = writer.close()
    positions = [row["commit_log_offset"] for row in read_log(store)]
    assert [row["commit_log_offset"] for row in rows(store, ALONE)] == positions
    for path in (store / "consumequeue").glob("*/*/*"):
        path.unlink()
    assert [row["commit_log_offset"] for row in rows(store, ALONE)] == positions


def test_store_without_queues_knows_no_offsets(tmp_path: Path) -> None:
    """Other reads go along the log."""
    writer = StoreWriter(tmp_path / "s", 8192)
    writer.append(Stored())
    store = writer.close(queues=False)
    assert len(rows(store, ALONE, subscribe="orders")) == 1
    with pytest.raises(OptionError, match=r"need the broker's ConsumeQueues"):
        plan(store, ALONE, assign='{"orders": ["0"]}')


def test_offsets_of_queues_that_are_not_read_are_refused(store: Path) -> None:
    """Else they would be passed over in silence."""
    offsets = '{"payments": {"0": 1}}'
    with pytest.raises(OptionError, match="queue payments s:0 is not among those to read"):
        plan(store, ALONE, subscribe="orders", startingOffsets=offsets)
    with pytest.raises(OptionError, match="option assign: there is no queue orders s:9 in"):
        plan(store, ALONE, assign='{"orders": ["0", "9"]}')
    with pytest.raises(DataLost, match=r"payments s:0 \[7, 7777\)|payments s:0 \["):
        plan(store, ALONE, endingOffsets='{"payments": {"0": 7777}}')


@pytest.mark.parametrize("names", [ALONE, RECORDS], ids=["queues alone", "records"])
@pytest.mark.parametrize("subscribe", ["rare", "rare,orders,payments"])
def test_retention_under_a_query(
    store: Path, names: list[str], subscribe: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first files of log and queues go after planning: an error, or what is left."""
    options = {"path": str(store), "subscribe": subscribe, "partitionBytes": "64k"}
    pieces = plan(store, names, **{name: options[name] for name in options if name != "path"})
    whole = rows(store, names, subscribe=subscribe)
    log = sorted((store / "commitlog").iterdir())
    left_from = int(log[2].name)
    for path in log[:2]:
        path.unlink()
    if names is ALONE:  # as if each queue had a file per message
        for path in (store / "consumequeue").glob("*/*/*"):
            path.unlink()
    with pytest.raises(DataLost):
        read(pieces, names, parse_options(options))
    found = read(pieces, names, parse_options({**options, "failOnDataLoss": "false"}))
    expected = [row for row in whole if row["commit_log_offset"] >= left_from]
    assert found == ([] if names is ALONE else expected)
    assert "left out" in caplog.text


@pytest.mark.parametrize("subscribe", ["rare", "rare,orders,payments,%RETRY%g"])
def test_damage_is_told_or_passed_over(store: Path, subscribe: str) -> None:
    """A record's head overwritten, and the length of another one's properties."""
    logged = list(read_log(store))
    rare = [row for row in logged if row["topic"] == "rare"]
    head, tail = (row["commit_log_offset"] for row in (rare[2], rare[5]))
    for position, at, size in ((head, 0, 8), (tail, rare[5]["record_bytes"] - 9, 2)):
        path = store / "commitlog" / f"{position - position % 8192:020d}"
        data = bytearray(path.read_bytes())
        at += position % 8192
        data[at : at + size] = b"\x7f" * size
        path.write_bytes(data)
    names = [*RECORDS, "_corrupt"]
    wanted = subscribe.split(",")
    expected = [
        row["commit_log_offset"]
        for row in logged
        if row["topic"] in wanted and row["commit_log_offset"] not in (head, tail)
    ]
    for mode in ("DROPMALFORMED", "PERMISSIVE"):
        columns = ",".join(names if mode == "PERMISSIVE" else RECORDS)
        found = rows(store, names, subscribe=subscribe, mode=mode, columns=columns)
        whole = [row for row in found if row["_corrupt"] is None]
        found_at = [row["commit_log_offset"] for row in whole]
        assert found_at == expected
        told = [row["commit_log_offset"] for row in found if row["_corrupt"]]
        assert told == ([head, tail] if mode == "PERMISSIVE" else [])
    with pytest.raises(CorruptRecord, match=f"log position {head}"):
        rows(store, RECORDS, subscribe=subscribe)


def test_long_records_are_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than what is read at a time."""
    monkeypatch.setattr("aerobee.spark.at_rest.gathering.BLOCK_BYTES", 1000)
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for size in (10, 5000, 20, 999, 1000, 30000):
        writer.append(Stored(body=b"x" * size))
    store = writer.close()
    names = [*ALONE, "body", "tags"]
    assert rows(store, names, assign='{"orders": ["0"]}') == truth(store, names)


def test_wild_entries_are_passed_over_with_bounded_memory(tmp_path: Path) -> None:
    """Sizes that reach to the end of a large file, one over the other, and beyond it."""
    writer = StoreWriter(tmp_path / "s", 1 << 26)
    for number in range(300):
        writer.append(Stored(body=b"%d" % number * 9))
    queue = writer.entries["orders", 0]
    for number in range(1, 299):
        position, _, tag = queue[number]
        queue[number] = (position, (1 << 26) - position if number % 2 else 1 << 30, tag)
    store = writer.close()
    tracemalloc.start()
    found = rows(store, RECORDS, assign='{"orders": ["0"]}', mode="DROPMALFORMED")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row["queue_offset"] for row in found] == [0, 299]
    assert peak < 64 << 20
    with pytest.raises(CorruptRecord, match="a queue's entry for log position"):
        rows(store, RECORDS, assign='{"orders": ["0"]}')
