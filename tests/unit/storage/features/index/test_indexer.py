"""The index says what the log says, however the process that wrote it has ended."""

import logging
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from support.disks.indexes import (
    SHAPE,
    agrees,
    catch_up,
    found,
    indexed,
    properties,
    store_keyed,
)
from support.disks.logs import append, opened, small

from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.files import (
    IndexShape,
    WrongIndexSizeError,
    index_files,
    next_name,
)
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.features.index.note import read_index_note
from aerobee.storage.layout import INDEX


def test_every_key_is_found(tmp_path: Path) -> None:
    """Over several files of log and index, with slots that many keys share."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 300)
    indexer = indexed(store)
    assert len(indexer.newest_first()) > 3, "1,200 keys do not fit into files of 255"
    agrees(indexer, store)
    assert found(indexer, store, "k-none") == []
    indexer.close()
    store.close()


@pytest.mark.parametrize("bytes_max", [1, 64 << 10, 8 << 20])
def test_a_record_larger_than_a_slice_is_indexed(tmp_path: Path, bytes_max: int) -> None:
    """Also one that would fit into what is read at once, of which a slice in Python is a part."""
    store = opened(small(tmp_path, segment_bytes=1 << 20, window_bytes=1 << 20))
    for number, size in enumerate((10, 70_000, 10, 200_000, 300_000, 10)):
        text = properties(f"U{number}", f"k{number}", "A")
        append(store, properties=text, tags="A", body=bytes(size))
    store.commit_log.commit()
    indexer = indexed(store, bytes_max=bytes_max)
    assert indexer.entries == 6 * 3
    agrees(indexer, store)
    indexer.close()
    store.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("entries", [2, 5, 9])
def test_a_record_in_many_files_is_gone_on_with(tmp_path: Path, entries: int, clean: bool) -> None:
    """No key of it comes twice, wherever among them the process has ended."""
    shape = IndexShape(7, entries)
    store = opened(small(tmp_path))
    for number in range(2):
        keys = " ".join(f"k{number}-{key}" for key in range(14))
        append(store, properties=properties(f"U{number}", keys, "A"), tags="A")
    store.commit_log.commit()
    log = store.commit_log.snapshot()
    before = Indexer(Files(), tmp_path, shape)
    before.open(log, clean=True)
    for _ in range(3):  # each fills a file
        before.advance(log, 1 << 20)
    before.sync()
    before.close()
    after = indexed(store, shape, clean=clean)
    agrees(after, store)
    after.sync()
    after.close()
    assert sum(file.header.count - 1 for file in index_files(Files(), tmp_path, shape)) == 2 * 16
    store.close()


def test_a_clean_stop_goes_on_where_it_was(tmp_path: Path) -> None:
    """Nothing is read or linked again, and nothing comes twice."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 20)
    indexer = indexed(store)
    indexer.sync()
    position = indexer.position
    indexer.close()
    store_keyed(store, 20, 20)
    again = Indexer(Files(), tmp_path, SHAPE)
    again.open(store.commit_log.snapshot(), clean=True)
    assert again.position == position
    catch_up(again, store)
    agrees(again, store)
    again.close()
    store.close()


@pytest.mark.parametrize("synced", [0, 1, 30, 63, 64, 70, 200])
def test_a_kill_at_any_size_loses_nothing(tmp_path: Path, synced: int) -> None:
    """What came since the last sync is indexed again; a file may have been begun meanwhile."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, synced)
    indexer = indexed(store)
    indexer.sync()
    store_keyed(store, synced, 90)
    catch_up(indexer, store)
    indexer.close()  # without a sync
    note = read_index_note(Files(), tmp_path)
    assert note is not None
    again = indexed(store, clean=False)
    agrees(again, store)
    entries = sum(each.header.count - 1 for each in again.newest_first())
    assert entries == (synced + 90) * 4, "nothing twice"
    again.close()
    store.close()


def test_files_of_another_size_are_refused_by_name(tmp_path: Path) -> None:
    """With other settings nothing is read, and nothing changed."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 5)
    indexed(store).close()
    other = Indexer(Files(), tmp_path, IndexShape(64, 512))
    with pytest.raises(WrongIndexSizeError, match="maxIndexNum=512"):
        other.open(store.commit_log.snapshot(), clean=True)
    store.close()


@pytest.mark.parametrize("more", [40, 63, 64, 65])
def test_a_file_of_rocketmq_is_gone_on_with(tmp_path: Path, more: int) -> None:
    """Without our note its last message is indexed anew, and no key comes twice.

    Of 64 messages the last one has keys in two files.
    """
    store = opened(small(tmp_path))
    store_keyed(store, 0, more)
    indexer = indexed(store)
    indexer.sync()
    indexer.close()
    (tmp_path / "aerobee.index").unlink()
    store_keyed(store, more, 10)
    again = indexed(store)
    agrees(again, store)
    assert again.begin > store.commit_log.begin, "how whole it was before nobody knows"
    assert sum(each.header.count - 1 for each in again.newest_first()) == (more + 10) * 4
    again.close()
    store.close()


def test_a_flipped_entry_is_indexed_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A start after a kill sees that the entries do not agree, and says so."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 50)
    indexer = indexed(store)
    indexer.sync()
    indexer.close()
    (file,) = index_files(Files(), tmp_path, SHAPE)
    data = bytearray(file.path.read_bytes())
    data[SHAPE.entries_at + 20 * 77 + 3] ^= 1
    file.path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        again = indexed(store, clean=False)
    assert "index_cut" in caplog.text
    agrees(again, store)
    again.close()
    store.close()


def test_what_the_log_has_lost_goes(tmp_path: Path) -> None:
    """An index that is ahead of the log is cut, and files wholly behind its end are moved away."""
    store = opened(small(tmp_path / "a"))
    store_keyed(store, 0, 40)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    store_keyed(store, 40, 160)
    indexer = indexed(store)
    indexer.sync()
    indexer.close()
    store.close()
    shutil.copytree(tmp_path / "a" / INDEX, tmp_path / "b" / INDEX)
    shutil.copy(tmp_path / "a" / "aerobee.index", tmp_path / "b")
    short = opened(small(tmp_path / "b"))
    again = indexed(short, clean=False)
    store_keyed(short, 500, 10)
    catch_up(again, short)
    agrees(again, short)
    assert list((tmp_path / "b" / "damaged" / "index").iterdir())
    again.close()
    short.close()


def test_files_go_with_the_log_but_the_last(tmp_path: Path) -> None:
    """Those whose messages are all gone, and no other."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 300)
    indexer = indexed(store)
    files = index_files(Files(), tmp_path, SHAPE)
    assert indexer.expire(files[1].header.end_position) == 1
    assert indexer.expire(1 << 60) == len(files) - 2
    assert len(index_files(Files(), tmp_path, SHAPE)) == 1
    indexer.close()
    store.close()


@pytest.mark.parametrize("before", [0, 30, 90])
def test_a_file_that_a_crash_left_empty_is_begun_anew(tmp_path: Path, before: int) -> None:
    """Killed between the file's name and its size; it is no file of another size."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, before)
    indexer = indexed(store)
    indexer.sync()
    indexer.close()
    (tmp_path / INDEX).mkdir(exist_ok=True)
    (tmp_path / INDEX / "99991231235959998").touch()
    store_keyed(store, before, 90)
    again = indexed(store, clean=False)
    agrees(again, store)
    again.close()
    store.close()


@pytest.mark.parametrize(
    ("last", "following"),
    [
        ("20231114221320000", "20231114221320001"),  # the clock stands, or was set back
        ("20991231235959999", "21000101000000000"),
        ("99991231235959999", "99991231235960000"),  # no moment comes behind it
        ("20239914221320000", "20239914221320001"),  # no moment at all
    ],
)
def test_names_go_on_whatever_the_clock_says(last: str, following: str) -> None:
    """A new file's name is behind all that there are."""
    assert next_name(datetime(2020, 1, 1), [last]) == following
