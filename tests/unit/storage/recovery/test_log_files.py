"""Log files of a wrong size, under another's name, or without their end: what is sound stays."""

import os
import shutil
from pathlib import Path

import pytest
from support.disks.logs import bodies, lost, opened, read_all, send, small

from aerobee.remoting.message.layout import BLANK_MAGIC
from aerobee.remoting.message.record import BLANK
from aerobee.storage import repair, verify
from aerobee.storage.errors import WrongFileSize
from aerobee.storage.recovery import quarantine
from aerobee.storage.settings import StoreSettings

SEGMENT = 16 * 1024
COUNT = 60


def settings_of(root: Path) -> StoreSettings:
    """Files of 16 KiB."""
    return small(root, segment_bytes=SEGMENT)


def written(root: Path, count: int = COUNT) -> list[int]:
    """A cleanly stopped store of messages of 512 bytes, three files with the usual count.

    Behind the last one in a file there are 76 bytes.
    """
    store = opened(settings_of(root))
    places = []
    for number in range(count):
        places.append(send(store, "t", body=b"%04d" % number + bytes(508)))
        store.poll()
    store.close()
    return places


def log_file(root: Path, number: int) -> Path:
    """The log's file with that number."""
    return root / "commitlog" / f"{number * SEGMENT:020d}"


def served(root: Path) -> list[int]:
    """The numbers of the messages that a broker serves, each at its own offset."""
    store = opened(settings_of(root))
    records = read_all(store, "t")
    assert all(int(record.body[:4]) == record.queue_offset for record in records)
    assert store.queue("t", 0).max_offset == COUNT or len(records) < COUNT
    store.close()
    return [record.queue_offset for record in records]


def exchange(one: Path, other: Path) -> None:
    """Let two files have each other's name."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize("mended_by", ["a start", "the tool"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_that_is_too_long_is_cut(tmp_path: Path, number: int, mended_by: str) -> None:
    """Nothing of it is lost, what it had too much is kept aside, and the tools are content."""
    written(tmp_path)
    whole = log_file(tmp_path, number).read_bytes()
    log_file(tmp_path, number).write_bytes(whole + b"too much")
    assert verify.main([str(tmp_path)]) == 1
    if mended_by == "a start":
        assert served(tmp_path) == list(range(COUNT))
    else:
        assert repair.main(["--write", str(tmp_path)]) == 0
    assert log_file(tmp_path, number).read_bytes() == whole
    (kept,) = (tmp_path / "damaged" / "commitlog").iterdir()
    assert kept.read_bytes() == b"too much"
    assert verify.main([str(tmp_path)]) == 0
    assert served(tmp_path) == list(range(COUNT))


@pytest.mark.parametrize("size", [5000, 8192])
@pytest.mark.parametrize("mended_by", ["a start", "the tool"])
def test_the_only_file_of_a_log_is_too_short(tmp_path: Path, size: int, mended_by: str) -> None:
    """It gets its size back; what it has is served, what it lacks is a span, offsets go on."""
    places = written(tmp_path, 20)
    os.truncate(log_file(tmp_path, 0), size)
    left = [number for number, place in enumerate(places[1:]) if place <= size]
    if mended_by == "the tool":
        command = ["--log-file-bytes", str(SEGMENT), str(tmp_path)]
        assert verify.main([str(tmp_path)]) == 2
        assert verify.main(command) == 1
        assert repair.main(["--write", *command]) == 0
        assert verify.main([str(tmp_path)]) == 0
    store = opened(settings_of(tmp_path))
    assert [record.queue_offset for record in read_all(store, "t") if record.body] == left
    assert store.queue("t", 0).max_offset == 20
    if mended_by == "a start":
        assert lost(store, "t") == set(range(20)) - set(left)
    send(store, "t", body=b"next")
    store.close()
    assert log_file(tmp_path, 0).stat().st_size == SEGMENT
    store = opened(settings_of(tmp_path))
    assert bodies(store, "t")[-1] == b"next"
    store.close()


def test_a_lone_file_that_may_be_of_other_settings_is_left_alone(tmp_path: Path) -> None:
    """Whole pages and nothing that names more: the error says what is to be done about either."""
    written(tmp_path, 5)
    os.truncate(log_file(tmp_path, 0), 8192)
    with pytest.raises(WrongFileSize, match="--log-file-bytes 16384"):
        opened(settings_of(tmp_path))
    assert log_file(tmp_path, 0).stat().st_size == 8192
    os.truncate(log_file(tmp_path, 0), 2 * SEGMENT)
    with pytest.raises(WrongFileSize, match="32768 bytes, the settings say 16384"):
        opened(settings_of(tmp_path))
    assert repair.main(["--write", "--log-file-bytes", str(SEGMENT), str(tmp_path)]) == 0
    assert log_file(tmp_path, 0).stat().st_size == SEGMENT
    store = opened(settings_of(tmp_path))
    assert len(bodies(store, "t")) == 5
    store.close()


def test_files_that_are_all_too_short_are_told_by_their_names(tmp_path: Path) -> None:
    """None has the size of the settings, yet the names are so far apart."""
    places = written(tmp_path)
    for number in range(4):
        if log_file(tmp_path, number).exists():
            os.truncate(log_file(tmp_path, number), 5000)
    ends = [*places[1:], places[-1] + places[1]]
    left = [at for at, end in enumerate(ends) if (end - 1) % SEGMENT < 5000]
    left = [at for at in left if ends[at] - places[at] < 700]
    copy = shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    assert served(tmp_path) == left
    assert repair.main(["--write", str(copy)]) == 0
    assert verify.main([str(copy)]) == 0


@pytest.mark.parametrize("mended_by", ["a start", "the tool"])
def test_two_files_with_each_others_names(tmp_path: Path, mended_by: str) -> None:
    """Long before what a stop has proven: each gets its own back, and nothing is served wrong."""
    written(tmp_path)
    exchange(log_file(tmp_path, 0), log_file(tmp_path, 1))
    assert verify.main([str(tmp_path)]) == 1
    if mended_by == "the tool":
        assert repair.main(["--write", str(tmp_path)]) == 0
    assert served(tmp_path) == list(range(COUNT))
    assert verify.main([str(tmp_path)]) == 0
    assert not (tmp_path / "damaged").exists()


def test_a_file_under_a_name_that_was_free(tmp_path: Path) -> None:
    """Renamed by hand, behind the others: it goes back to where its records belong."""
    written(tmp_path)
    log_file(tmp_path, 1).rename(log_file(tmp_path, 7))
    assert served(tmp_path) == list(range(COUNT))


def test_a_copy_over_another_file_is_damage(tmp_path: Path) -> None:
    """What stood there is lost, and the other file's messages are not served in its place."""
    places = written(tmp_path)
    shutil.copyfile(log_file(tmp_path, 0), log_file(tmp_path, 1))
    gone = {number for number, place in enumerate(places) if place // SEGMENT == 1}
    store = opened(settings_of(tmp_path))
    assert lost(store, "t") == gone
    assert [(span.begin, span.end) for span in store.damage] == [(SEGMENT, 2 * SEGMENT)]
    assert {record.queue_offset for record in read_all(store, "t")} == set(range(COUNT)) - gone
    store.close()
    assert repair.main(["--write", str(tmp_path)]) == 0
    assert verify.main([str(tmp_path)]) == 0


def test_a_flipped_position_moves_no_file(tmp_path: Path) -> None:
    """The first record of a file names the place of one that is missing; the second does not."""
    places = written(tmp_path)
    log_file(tmp_path, 1).unlink()
    with log_file(tmp_path, 0).open("r+b") as file:
        file.seek(28)
        file.write(SEGMENT.to_bytes(8, "big"))
    gone = {number for number, place in enumerate(places) if place // SEGMENT == 1} | {0}
    assert set(served(tmp_path)) == set(range(COUNT)) - gone


@pytest.mark.parametrize("mended_by", ["a start", "the tool"])
def test_a_lost_end_of_a_file_is_written_again(tmp_path: Path, mended_by: str) -> None:
    """RocketMQ would take the missing blank for the end of the log, and cut off the rest."""
    places = written(tmp_path)
    end = max(place for place in places if place < SEGMENT) + places[1] - places[0]
    with log_file(tmp_path, 0).open("r+b") as file:
        file.seek(end + 4)
        file.write(b"\0\0")
    assert verify.main([str(tmp_path)]) == 1
    if mended_by == "the tool":
        assert repair.main(["--write", str(tmp_path)]) == 0
    else:
        for name in ("aerobee.progress", "aerobee.written"):
            (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / "abort").write_text("4711")
        (tmp_path / "checkpoint").unlink()
        assert served(tmp_path) == list(range(COUNT))
    data = log_file(tmp_path, 0).read_bytes()
    assert BLANK.unpack_from(data, end) == (SEGMENT - end, BLANK_MAGIC)
    assert verify.main([str(tmp_path)]) == 0


def test_a_torn_end_is_copied_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind the end stands anything: the first part of it is kept, and the rest is told."""
    monkeypatch.setattr(quarantine, "COPY_BYTES_MAX", 4096)
    places = written(tmp_path, 5)
    end = places[-1] + places[1] - places[0]
    for name in ("aerobee.progress", "aerobee.written"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "abort").write_text("4711")
    with log_file(tmp_path, 0).open("r+b") as file:
        file.seek(end)
        file.write(b"\x55" * (SEGMENT - end))
    store = opened(settings_of(tmp_path))
    (kept,) = (tmp_path / "damaged" / "commitlog").iterdir()
    assert kept.read_bytes() == b"\x55" * 4096
    assert "log_tail_not_kept" in caplog.text
    assert len(bodies(store, "t")) == 5
    store.close()


def test_a_lone_file_of_a_killed_store_is_given_its_size(tmp_path: Path) -> None:
    """A loss of power may leave it as it was before it grew; nobody changed settings meanwhile."""
    written(tmp_path, 2)
    (tmp_path / "abort").touch()
    (tmp_path / "aerobee.progress").unlink()
    (tmp_path / "aerobee.written").unlink(missing_ok=True)
    os.truncate(log_file(tmp_path, 0), 8192)
    assert len(served(tmp_path)) == 2
    assert log_file(tmp_path, 0).stat().st_size == SEGMENT


@pytest.mark.parametrize("which", ["first of a file", "in the middle", "of the last file"])
@pytest.mark.parametrize("queues", ["there", "lost"])
def test_a_record_that_looks_like_the_end_of_its_file_hides_none(
    tmp_path: Path, which: str, queues: str
) -> None:
    """The magic of the blank that closes a file is one only with the size of what is left of it."""
    places = written(tmp_path)
    first = next(index for index, place in enumerate(places) if place == SEGMENT)
    hit = {"first of a file": first, "in the middle": first + 9, "of the last file": COUNT - 2}[
        which
    ]
    with log_file(tmp_path, places[hit] // SEGMENT).open("r+b") as file:
        file.seek(places[hit] % SEGMENT + 4)
        file.write(BLANK_MAGIC.to_bytes(4, "big"))
    for note in ("checkpoint", "aerobee.progress", "aerobee.written"):
        (tmp_path / note).unlink(missing_ok=True)
    (tmp_path / "abort").write_text("4711")
    if queues == "lost":
        shutil.rmtree(tmp_path / "consumequeue")
    store = opened(settings_of(tmp_path))
    read = [record.queue_offset for record in read_all(store, "t")]
    assert read == [number for number in range(COUNT) if number != hit]
    (span,) = store.damage
    assert (span.begin, span.end) == (places[hit], places[hit + 1])
    store.close()
    assert verify.verify(settings_of(tmp_path)).records == COUNT - 1
