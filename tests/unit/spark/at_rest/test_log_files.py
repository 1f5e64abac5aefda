"""A store's files: found, checked, and read without ever being mapped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import BLANK_MAGIC
from aerobee.spark.at_rest.blocks import read_records
from aerobee.spark.at_rest.log_files import LogSegment, StorePath, list_segments
from aerobee.spark.at_rest.open_segment import OpenSegment
from aerobee.spark.errors import StoreUnreadable
from aerobee.spark.records.damage import DROPMALFORMED, DamagePolicy


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three files of records."""
    writer = StoreWriter(tmp_path / "store", 4096)
    while len(writer.segments) < 3:
        writer.append(Stored(body=b"x" * 300))
    return writer.close()


def test_store_is_found_by_root_or_log_folder(store: Path) -> None:
    """Both spellings, as a URI too, lead to log and queues."""
    expected = StorePath(str(store / "commitlog"), str(store / "consumequeue"))
    for path in (store, store / "commitlog", f"file://{store}"):
        assert StorePath.find(str(path)) == expected


@pytest.mark.parametrize("made", [False, True])
def test_path_without_a_store_is_refused(tmp_path: Path, made: bool) -> None:
    """The text says what a store looks like."""
    path = tmp_path / "other"
    if made:
        path.mkdir()
    expected = "is no RocketMQ store" if made else "there is no folder"
    with pytest.raises(StoreUnreadable, match=expected):
        StorePath.find(str(path))


def test_missing_file_between_others_is_told(store: Path) -> None:
    """A gap would lose messages silently."""
    (store / "commitlog" / f"{4096:020d}").unlink()
    with pytest.raises(StoreUnreadable, match=r"the log is not whole.*4096.*8192"):
        list_segments(str(store / "commitlog"))


def test_other_names_and_empty_last_files_do_not_count(store: Path) -> None:
    """Editors and brokers leave things behind."""
    (store / "commitlog" / ".DS_Store").write_bytes(b"x")
    (store / "commitlog" / f"{3 * 4096:020d}").write_bytes(b"")
    assert [segment.base for segment in list_segments(str(store / "commitlog"))] == [0, 4096, 8192]


def test_deleted_file_is_a_clear_error_and_an_open_one_reads_on(store: Path) -> None:
    """Retention deletes files under a reader."""
    segment = list_segments(str(store / "commitlog"))[0]
    with OpenSegment(segment) as file:
        Path(segment.path).unlink()
        assert sum(len(records) for records in read_records(file, 0, 4096)) > 5
    with pytest.raises(StoreUnreadable, match="is gone: the broker's retention deleted it"):
        OpenSegment(segment)


def test_file_cut_while_being_read_is_a_clear_error(store: Path) -> None:
    """Where a mapped file would end the process with SIGBUS."""
    segment = list_segments(str(store / "commitlog"))[0]
    with OpenSegment(segment) as file:
        with Path(segment.path).open("r+b") as other:
            other.truncate(1000)
        with pytest.raises(StoreUnreadable, match="ends at log position 1000"):
            list(read_records(file, 0, 4096))


@pytest.mark.parametrize("damage", [b"\xff" * 50, bytes(50)])
def test_damage_inside_the_log_names_file_and_position(store: Path, damage: bytes) -> None:
    """No record goes missing without a word."""
    segment = list_segments(str(store / "commitlog"))[1]
    with Path(segment.path).open("r+b") as other:
        other.seek(398)  # the second record's head
        other.write(damage)
    with (
        OpenSegment(segment) as file,
        pytest.raises(CorruptRecord, match=re.escape(f"{segment.path}: at log position")),
    ):
        list(read_records(file, segment.base, segment.end))


@pytest.mark.parametrize("which", [0, 3])
def test_a_record_that_looks_like_the_end_of_its_file_hides_none(store: Path, which: int) -> None:
    """The magic of the blank that closes a file is one only with the size of what is left of it."""
    segment = list_segments(str(store / "commitlog"))[1]
    with OpenSegment(segment) as file:
        whole = [
            records.base + start
            for records in read_records(file, segment.base, segment.end)
            for start in records.starts.tolist()
        ]
    with Path(segment.path).open("r+b") as other:
        other.seek(whole[which] - segment.base + 4)
        other.write(BLANK_MAGIC.to_bytes(4, "big"))
    with OpenSegment(segment) as file:
        with pytest.raises(CorruptRecord, match=f"at log position {whole[which]} "):
            list(read_records(file, segment.base, segment.end))
        found = [
            records.base + start
            for records in read_records(
                file, segment.base, segment.end, DamagePolicy(DROPMALFORMED)
            )
            for start in records.starts.tolist()
        ]
    assert found == whole[:which] + whole[which + 1 :]


def test_record_larger_than_a_block_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages of several MiB are rare but legal."""
    monkeypatch.setattr("aerobee.spark.at_rest.blocks.BLOCK_BYTES", 1000)
    writer = StoreWriter(tmp_path, 1 << 16)
    sizes = [10, 5000, 20, 999, 30000]
    for size in sizes:
        writer.append(Stored(body=b"x" * size))
    writer.close()
    segment = LogSegment(str(tmp_path / "commitlog" / f"{0:020d}"), 0, 1 << 16)
    with OpenSegment(segment) as file:
        found = [
            size
            for records in read_records(file, 0, writer.position)
            for size in records.sizes.tolist()
        ]
    assert found == [size + 97 for size in sizes]


def test_damage_all_over_a_file_is_read_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other record has another head: what lies behind is not read anew for each of them."""
    writer = StoreWriter(tmp_path, 1 << 20)
    starts = [writer.append(Stored(body=b"x" * 900)) for _ in range(1000)]
    writer.close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    for start in starts[1::2]:
        data[start + 4 : start + 8] = b"\x11" * 4
    path.write_bytes(data)
    read = 0
    read_into = OpenSegment.read_into

    def counted(file: OpenSegment, target: memoryview, position: int) -> None:
        nonlocal read
        read += len(target)
        read_into(file, target, position)

    monkeypatch.setattr(OpenSegment, "read_into", counted)
    with OpenSegment(LogSegment(str(path), 0, 1 << 20)) as file:
        found = [
            records.base + start
            for records in read_records(file, 0, writer.position, DamagePolicy(DROPMALFORMED))
            for start in records.starts.tolist()
        ]
    assert found == starts[::2]
    assert read < 40 << 20


def test_wild_length_is_refused_not_allocated(tmp_path: Path) -> None:
    """A record that claims to go past the planned end is damage."""
    writer = StoreWriter(tmp_path, 1 << 16)
    writer.append(Stored())
    writer.append(Stored())
    writer.close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[0:4] = (0x7FFFFFFF).to_bytes(4, "big")
    path.write_bytes(data)
    with (
        OpenSegment(LogSegment(str(path), 0, 1 << 16)) as file,
        pytest.raises(CorruptRecord, match="at log position 0"),
    ):
        list(read_records(file, 0, writer.position))
