"""A wrong bit in an index hides no message in silence: it is mended, or whoever asks is told."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.disks.indexes import SHAPE, agrees, found, indexed, said_by_log, store_keyed
from support.disks.logs import NOW_MS, opened, small

from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.files import index_files
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.features.index.keys import IndexType
from aerobee.storage.features.index.sums import (
    DamagedIndexError,
    read_sums,
    remove_sums,
    sums_path,
)
from aerobee.storage.layout import INDEX, INDEX_SUMS
from aerobee.storage.store import MessageStore

MESSAGES = 150  # two full files and a third one


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    """A store, and the index that it was left with."""
    store = opened(small(tmp_path_factory.mktemp("kept")))
    store_keyed(store, 0, MESSAGES)
    indexer = indexed(store)
    indexer.sync()
    indexer.close()
    assert len(index_files(Files(), store.settings.root, SHAPE)) == 3
    yield store
    store.close()


def copied(store: MessageStore, to: Path) -> Path:
    """Another copy of its index."""
    for name in (INDEX, INDEX_SUMS):
        shutil.copytree(store.settings.root / name, to / name)
    shutil.copy(store.settings.root / "aerobee.index", to)
    return to


def asked(indexer: Indexer, store: MessageStore) -> tuple[int, int]:
    """Ask for each key; return how many were found whole, and how many were refused."""
    whole = refused = 0
    for text, places in said_by_log(store).items():
        topic, _, key = text.partition("#")
        kind: IndexType = "T" if key.startswith("T#") else "K"
        key = key.removeprefix("T#") if kind == "T" else key
        times = {"earliest_ms": NOW_MS, "latest_ms": NOW_MS + MESSAGES * 1000}
        try:
            assert found(indexer, store, key, kind, topic, **times) == sorted(places), text
            whole += 1
        except DamagedIndexError as error:
            assert "repair" in str(error)
            refused += 1
    return whole, refused


def flip(path: Path, at: int, bit: int) -> None:
    """Have one bit of a file be wrong."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


FIELDS = {"hash": (0, 4), "position": (4, 12), "seconds": (12, 16), "previous": (16, 20)}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("file", [0, 1, 2])
@pytest.mark.parametrize("part", ["head", "slot", *FIELDS, "sums"])
def test_no_bit_hides_a_message(
    kept: MessageStore, tmp_path: Path, part: str, file: int, *, clean: bool
) -> None:
    """Of a full file, of the first one, of the newest; behind a clean stop and a kill."""
    dice = random.Random(f"{part} {file} {clean}")
    for number in range(2):
        root = copied(kept, tmp_path / str(number))
        path = index_files(Files(), root, SHAPE)[file].path
        last = index_files(Files(), root, SHAPE)[file].header.count
        if part == "sums":
            path = sums_path(path)
            at = dice.randrange(path.stat().st_size)
        elif part in FIELDS:
            entry = SHAPE.entries_at + 20 * dice.randrange(1, last)
            at = entry + dice.randrange(*FIELDS[part])
        else:
            at = dice.randrange(40) if part == "head" else dice.randrange(40, SHAPE.entries_at)
        flip(path, at, dice.randrange(8))
        indexer = Indexer(Files(), root, SHAPE)
        indexer.open(kept.commit_log.snapshot(), clean=clean)
        while indexer.advance(kept.commit_log.snapshot(), 1 << 30):
            pass
        whole, refused = asked(indexer, kept)
        if file == 2:
            assert not refused, "what is written on is mended at the start"
        elif part == "previous":
            assert refused
            assert whole + refused == len(said_by_log(kept))
        indexer.close()


def test_a_flip_while_the_file_is_written_is_seen(tmp_path: Path) -> None:
    """The system's copy of the newest file has a wrong bit; others' keys are found."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 40)
    indexer = indexed(store)
    (file,) = indexer.newest_first()
    assert file.path is not None
    flip(file.path, SHAPE.entries_at + 20 * 100 + 19, 2)
    assert asked(indexer, store)[1]
    store_keyed(store, 2000, 30)
    indexer.close()
    store.close()


def test_nothing_is_refused_of_what_is_sound(kept: MessageStore, tmp_path: Path) -> None:
    """After a clean stop and after another one, and of a store that is only read."""
    for clean in (True, False):
        indexer = Indexer(Files(), copied(kept, tmp_path / str(clean)), SHAPE)
        indexer.open(kept.commit_log.snapshot(), clean=clean)
        assert asked(indexer, kept)[1] == 0
        indexer.close()
    reader = Indexer(Files(), tmp_path / "True", SHAPE)
    reader.look()
    assert asked(reader, kept)[1] == 0


def test_full_files_without_sums_get_them(kept: MessageStore, tmp_path: Path) -> None:
    """Of RocketMQ, or of an earlier version; the newest one when it is gone on with."""
    root = copied(kept, tmp_path)
    before = {path.name: path.read_bytes() for path in (root / INDEX_SUMS).iterdir()}
    shutil.rmtree(root / INDEX_SUMS)
    indexer = Indexer(Files(), root, SHAPE)
    indexer.open(kept.commit_log.snapshot(), clean=True)
    indexer.sync()
    end = kept.commit_log.committed
    assert len(list((root / INDEX_SUMS).iterdir())) == 1
    assert indexer.sum_next(end, lambda: False), "it was told to leave off"
    assert len(list((root / INDEX_SUMS).iterdir())) == 1
    again = Indexer(Files(), root, SHAPE)
    again.open(kept.commit_log.snapshot(), clean=True)
    while again.sum_next(end, lambda: True):
        pass
    assert {path.name: path.read_bytes() for path in (root / INDEX_SUMS).iterdir()} == before
    indexer.close()
    again.close()


def test_a_file_that_is_not_sound_gets_none(
    kept: MessageStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its sums would say that it is; the log says why."""
    root = copied(kept, tmp_path)
    first, second, _ = index_files(Files(), root, SHAPE)
    remove_sums(Files(), first.path)
    flip(first.path, SHAPE.entries_at + 20 * 50 + 19, 0)
    indexer = Indexer(Files(), root, SHAPE)
    indexer.open(kept.commit_log.snapshot(), clean=True)
    while indexer.sum_next(kept.commit_log.committed, lambda: True):
        pass
    assert "index_file_has_no_sums" in caplog.text
    assert read_sums(Files(), first.path, SHAPE) is None
    assert read_sums(Files(), second.path, SHAPE) is not None
    indexer.close()


def test_sums_go_with_their_files(kept: MessageStore, tmp_path: Path) -> None:
    """With the log's files, and where RocketMQ has removed some."""
    root = copied(kept, tmp_path)
    first, second, _ = index_files(Files(), root, SHAPE)
    first.path.unlink()
    indexer = Indexer(Files(), root, SHAPE)
    indexer.open(kept.commit_log.snapshot(), clean=True)
    assert not sums_path(first.path).exists()
    indexer.expire(second.header.end_position + 1)
    assert not sums_path(second.path).exists()
    assert len(list((root / INDEX_SUMS).iterdir())) == 1
    indexer.close()


def test_a_wrong_head_has_no_file_removed(kept: MessageStore, tmp_path: Path) -> None:
    """Retention goes by the end of a file, which stands in its last entry, too."""
    root = copied(kept, tmp_path)
    first, *_ = index_files(Files(), root, SHAPE)
    data = bytearray(first.path.read_bytes())
    data[24:32] = (1).to_bytes(8, "big")  # the end's position
    first.path.write_bytes(data)
    indexer = Indexer(Files(), root, SHAPE)
    indexer.open(kept.commit_log.snapshot(), clean=True)
    assert indexer.expire(first.header.end_position) == 0
    assert indexer.expire(first.header.end_position + 1) == 1
    indexer.close()


def test_a_wrong_begin_of_the_newest_file_is_mended(kept: MessageStore, tmp_path: Path) -> None:
    """Times of entries count from there."""
    for clean in (True, False):
        root = copied(kept, tmp_path / str(clean))
        flip(index_files(Files(), root, SHAPE)[-1].path, 3, 0)
        indexer = Indexer(Files(), root, SHAPE)
        indexer.open(kept.commit_log.snapshot(), clean=clean)
        agrees(indexer, kept)
        assert asked(indexer, kept)[1] == 0
        indexer.close()
