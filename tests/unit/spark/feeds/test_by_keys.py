"""A filter on keys reads what the index names, and finds what a read of all finds."""

from __future__ import annotations

import random
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, In
from support.disks.stores import Stored, StoreWriter, properties
from support.examples import examples
from support.lake.plans import planned_pieces

from aerobee.spark.at_rest import key_index
from aerobee.spark.options.query import parse_options
from aerobee.spark.planning.key_pieces import KeyPiece
from aerobee.spark.planning.pushdown import push
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.planning.store_pieces import StorePiece
from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.decode import Decoder
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.files import IndexShape, WrongIndexSizeError
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.layout import INDEX, INDEX_NOTE, INDEX_SUMS
from aerobee.storage.log.snapshot import LogSnapshot

NAMES = ["topic", "queue_id", "queue_offset", "commit_log_offset", "keys", "body"]
SEGMENT_BYTES = 4096
SHAPE = IndexShape(slots=16, entries=64)


def stored(number: int, seed: int = 0) -> Stored:
    """A message; few of them have a key of few, some have none at all."""
    chance = random.Random(1000 * seed + number)
    keys = chance.choice(["", f"k{number}", "few", "few other", " few", f"m{number % 5} k{number}"])
    pairs = {"UNIQ_KEY": f"U{seed}-{number:06}", "KEYS": keys, "TAGS": "A"}
    pairs = {name: value for name, value in pairs.items() if value and chance.random() > 0.1}
    return Stored(
        topic=chance.choice(["orders", "orders", "payments", "%RETRY%g"]),
        queue_id=number % 2,
        body=chance.randbytes(chance.randrange(200)),
        properties=properties(pairs),
    )


def snapshot(writer: StoreWriter) -> LogSnapshot:
    """The log of a store that was written."""
    begin = min(writer.segments)
    return LogSnapshot(writer.root / "commitlog", begin, writer.position, SEGMENT_BYTES)


def index(
    writer: StoreWriter, *, synced: bool = True, clean: bool = True, shape: IndexShape = SHAPE
) -> None:
    """Index what the store has, as a broker would."""
    indexer = Indexer(Files(), writer.root, shape, lambda: 1_700_000_000.0)
    indexer.open(snapshot(writer), clean=clean)
    while indexer.advance(snapshot(writer), 1500):
        pass
    if synced:
        indexer.sync()
    indexer.close()


def write(writer: StoreWriter, first: int, count: int, seed: int = 0, **how: Any) -> None:
    """More messages, on the disk."""
    for number in range(first, first + count):
        writer.append(stored(number, seed), **how)
    writer.close()


def pieces(store: Path, *wanted: str, **options: str) -> list[StorePiece]:
    """The plan of a query for messages with one of some texts as keys; without any for all."""
    parsed = parse_options({"path": str(store), **options})
    filters = [In(("keys",), wanted) if len(wanted) > 1 else EqualTo(("keys",), wanted[0])]
    selection, _ = push(parsed.selection, filters)
    return planned_pieces(parsed, NAMES, selection)


def rows(planned: list[StorePiece], store: Path, *wanted: str, **options: str) -> list[Any]:
    """What Spark shows of them: it applies the filter again."""
    selection = parse_options({"path": str(store), **options}).selection
    found = []
    for each in planned:
        decoder = Decoder(arrow_schema(NAMES), broker=each.broker)
        for batch in piece_batches(each.piece, selection, decoder):
            found += [row for row in batch.to_pylist() if row["keys"] in wanted]
    return sorted(found, key=lambda row: row["commit_log_offset"])


def agree(store: Path, *wanted: str, **options: str) -> list[StorePiece]:
    """Assert that the index changes nothing but what is read; return the plan."""
    planned = pieces(store, *wanted, **options)
    parsed = parse_options({"path": str(store), **options})
    everything = planned_pieces(parsed, NAMES, parsed.selection)
    assert rows(planned, store, *wanted, **options) == rows(everything, store, *wanted, **options)
    return planned


def bytes_read(planned: list[StorePiece]) -> int:
    """How much of the log the tasks look at."""
    total = 0
    for each in planned:
        piece = each.piece
        if isinstance(piece, KeyPiece):
            total += sum(piece.sizes)
        elif isinstance(piece, EntryPiece):
            total += piece.log_end - piece.log_start
        else:
            total += piece.end - piece.start
    return total


@pytest.mark.parametrize("options", [{}, {"subscribe": "orders"}, {"subscribePattern": "pay.*"}])
def test_only_what_has_the_key_is_read(tmp_path: Path, options: dict[str, str]) -> None:
    """Over several files of log and index, along the log and led by the queues."""
    writer = StoreWriter(tmp_path / "s", SEGMENT_BYTES, SEGMENT_BYTES * 7)
    write(writer, 0, 300)
    index(writer)
    whole = writer.position - SEGMENT_BYTES * 7
    assert len(list((tmp_path / "s" / INDEX).iterdir())) > 5
    for wanted in ("few", "k17", "few other", " few", "none"):
        planned = agree(tmp_path / "s", wanted, **options)
        assert bytes_read(planned) < whole // 3, wanted
    assert bytes_read(agree(tmp_path / "s", "k17", "k18", "few", **options)) < whole // 3
    assert not any(
        isinstance(each.piece, KeyPiece) for each in agree(tmp_path / "s", "", **options)
    )


def test_what_the_index_lacks_is_read(tmp_path: Path) -> None:
    """Behind the note, and behind what the queues have: a broker that runs."""
    writer = StoreWriter(tmp_path / "s", SEGMENT_BYTES)
    write(writer, 0, 100)
    index(writer)
    write(writer, 100, 30)
    index(writer, synced=False)
    write(writer, 130, 10)
    write(writer, 140, 10, dispatched=False)
    planned = agree(tmp_path / "s", "few")
    assert any(isinstance(each.piece, KeyPiece) for each in planned)
    assert bytes_read(planned) < writer.position * 3 // 4


def test_a_store_without_queues_needs_the_topics_names(tmp_path: Path) -> None:
    """A key's hash has its topic in it."""
    writer = StoreWriter(tmp_path / "s", SEGMENT_BYTES)
    write(writer, 0, 100)
    index(writer)
    shutil.rmtree(tmp_path / "s" / "consumequeue")
    assert not any(isinstance(each.piece, KeyPiece) for each in agree(tmp_path / "s", "few"))
    planned = agree(tmp_path / "s", "few", subscribe="orders,other")
    assert bytes_read(planned) < writer.position // 2


def test_deleted_topics_stay_deleted(tmp_path: Path) -> None:
    """The index has their messages until the log's files go."""
    writer = StoreWriter(tmp_path / "s", SEGMENT_BYTES)
    write(writer, 0, 200)
    writer.append(Stored(topic="orders"))  # behind the last one with an entry, all are read
    writer.close()
    index(writer)
    shutil.rmtree(tmp_path / "s" / "consumequeue" / "payments")
    assert {row["topic"] for row in rows(agree(tmp_path / "s", "few"), tmp_path / "s", "few")} == {
        "orders"
    }
    agree(tmp_path / "s", "few", subscribe="orders")


@pytest.mark.parametrize("limit", ["LOOKUPS_MAX", "ENTRIES_MAX", "RECORDS_MAX"])
def test_what_costs_too_much_is_read_from_the_log(
    tmp_path: Path, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends messages makes chains as long as he likes."""
    writer = StoreWriter(tmp_path / "s", SEGMENT_BYTES)
    write(writer, 0, 100)
    index(writer)
    monkeypatch.setattr(key_index, limit, 3)
    assert not any(isinstance(each.piece, KeyPiece) for each in agree(tmp_path / "s", "few"))


def test_another_log_in_the_same_folder(tmp_path: Path) -> None:
    """A store that was made anew, or cut and written on, beside an index that was left."""
    writer = StoreWriter(tmp_path / "s", SEGMENT_BYTES)
    write(writer, 0, 100)
    index(writer)
    shutil.rmtree(tmp_path / "s" / "commitlog")
    shutil.rmtree(tmp_path / "s" / "consumequeue")
    other = StoreWriter(tmp_path / "s", SEGMENT_BYTES)
    write(other, 0, 110, seed=1)
    assert not any(isinstance(each.piece, KeyPiece) for each in agree(tmp_path / "s", "few"))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 40)),
        st.tuples(st.just("index"), st.booleans()),
        st.tuples(st.just("retain"), st.integers(1, 3)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("flip"), st.tuples(st.floats(0, 0.999), st.integers(0, 7))),
        st.tuples(st.just("zero"), st.floats(0, 0.999)),
        st.tuples(st.just("cut"), st.floats(0, 0.999)),
        st.tuples(st.just("other"), st.integers(1, 60)),
    ),
    min_size=2,
    max_size=7,
)


@pytest.mark.parametrize("size", [SHAPE, IndexShape(slots=3000, entries=5000)])
@pytest.mark.parametrize("part", ["slot", "previous", "hash", "position", "sums"])
def test_no_bit_of_an_index_hides_a_message(tmp_path: Path, part: str, size: IndexShape) -> None:
    """Where it was not seen, the chain of a key ended early, or led past it."""
    dice = random.Random(part)
    writer = StoreWriter(tmp_path / "s", SEGMENT_BYTES)
    write(writer, 0, 250)
    index(writer, shape=size)
    places = {
        "slot": (-size.slots * 4, 0),
        "hash": (0, 4),
        "position": (4, 12),
        "previous": (16, 20),
    }
    for number in range(5):
        names = sorted((tmp_path / "s" / INDEX).iterdir())
        path = dice.choice(names)
        if part == "sums":
            path = tmp_path / "s" / INDEX_SUMS / path.name
            at = dice.randrange(path.stat().st_size)
        else:
            entry = dice.randrange(1, 500 if path == names[-1] else size.entries) % size.entries
            at = size.entries_at + (0 if part == "slot" else 20 * max(1, entry))
            at += dice.randrange(*places[part])
        sound = path.read_bytes()
        data = bytearray(sound)
        data[at] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        agree(tmp_path / "s", "few", "few other", f"m{number % 5}")
        path.write_bytes(sound)
    planned = agree(tmp_path / "s", "few")
    assert any(isinstance(each.piece, KeyPiece) for each in planned)


def test_a_file_without_sums_is_read_around(tmp_path: Path) -> None:
    """RocketMQ's, and those of an earlier version: of such a one the log is read."""
    writer = StoreWriter(tmp_path / "s", SEGMENT_BYTES)
    write(writer, 0, 300)
    index(writer)
    whole = bytes_read(agree(tmp_path / "s", "few"))
    names = sorted((tmp_path / "s" / INDEX_SUMS).iterdir())
    names[3].unlink()
    part = bytes_read(agree(tmp_path / "s", "few"))
    assert whole < part < writer.position // 2
    shutil.rmtree(tmp_path / "s" / INDEX_SUMS)
    assert not any(isinstance(each.piece, KeyPiece) for each in agree(tmp_path / "s", "few"))


@settings(max_examples=examples(12), deadline=None)
@example(first=88, steps=[("write", 1), ("flip", (1131 / 2048, 0))], wanted="few other")
@example(first=88, steps=[("write", 1), ("flip", (1172 / 2048, 0))], wanted="few other")
@example(first=88, steps=[("write", 1), ("flip", (1196 / 2048, 0))], wanted="few other")
@given(
    first=st.integers(1, 150), steps=STEPS, wanted=st.sampled_from(["few", "few other", "m2 k7"])
)
def test_whatever_became_of_the_index_nothing_is_missed(
    first: int, steps: list[tuple[str, Any]], wanted: str
) -> None:
    """Files removed, cut, zeroed; bits flipped; a log gone on with, retained, made anew."""
    with tempfile.TemporaryDirectory() as folder:
        store, seed, count = Path(folder) / "s", 0, first
        writer = StoreWriter(store, SEGMENT_BYTES)
        write(writer, 0, first)
        index(writer)
        for what, how in steps:
            files = [*sorted((store / INDEX).iterdir()), store / INDEX_NOTE]
            if (store / INDEX_SUMS).exists():
                files += sorted((store / INDEX_SUMS).iterdir())
            files = [each for each in files if each.exists()]
            if what == "write":
                write(writer, count, how, seed)
                count += how
            elif what == "index":
                with suppress(WrongIndexSizeError):
                    index(writer, synced=how, clean=not how)
            elif what == "retain":
                for base in sorted(writer.segments)[: min(how, len(writer.segments) - 1)]:
                    del writer.segments[base]
                    (store / "commitlog" / f"{base:020}").unlink()
            elif what == "other":
                shutil.rmtree(store / "commitlog")
                shutil.rmtree(store / "consumequeue")
                writer, seed, count = StoreWriter(store, SEGMENT_BYTES), seed + 1, how
                write(writer, 0, how, seed)
            elif files:
                _harm(files, what, how)
            agree(store, wanted)
            agree(store, wanted, subscribePattern="pay.*")


def _harm(files: list[Path], what: str, how: Any) -> None:
    """Do something to the index files and the note."""
    if what == "remove":
        files[how % len(files)].unlink()
        return
    place = int((how[0] if what == "flip" else how) * sum(each.stat().st_size for each in files))
    for path in files:
        data = bytearray(path.read_bytes())
        if place >= len(data):
            place -= len(data)
            continue
        if what == "flip":
            data[place] ^= 1 << how[1]
        elif what == "zero":
            data[place : place + 512] = bytes(len(data[place : place + 512]))
        else:
            del data[place:]
        path.write_bytes(data)
        return
