"""Queues with entries lost, or one too many: every message is served, at its offset."""

import os
import shutil
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.log.damage import Damage, write_damage
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.queues.mending_note import MendingNote
from aerobee.storage.repair import repair
from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify


def settings_of(root: Path) -> StoreSettings:
    """One log file, one file for each queue."""
    return small(root, segment_bytes=256 * 1024, queue_file_entries=1000)


def queue_file(root: Path, topic: str) -> Path:
    """The only file of queue 0 of a topic."""
    return root / "consumequeue" / topic / "0" / f"{0:020d}"


def edit(path: Path, offset: int, entry: tuple[int, int, int]) -> None:
    """Put another entry at an offset."""
    with path.open("r+b") as file:
        file.seek(offset * ENTRY.size)
        file.write(ENTRY.pack(*entry))


@pytest.mark.parametrize("lost", ["folder", "last noted entry", "end of its file"])
def test_a_lost_queue_has_what_came_since_the_last_checkpoint(tmp_path: Path, lost: str) -> None:
    """Killed between two checkpoints, and the queue is lost: its newest messages are there, too.

    Their offsets would be given a second time otherwise.
    """
    store = opened(settings_of(tmp_path))
    for number in range(40):
        if number == 20:
            settle(store)
        send(store, "a", body=b"%d" % number)
        send(store, "b", body=b"%d" % number)
    store.abandon()
    file = queue_file(tmp_path, "a")
    if lost == "folder":
        shutil.rmtree(file.parent)
    elif lost == "end of its file":
        os.truncate(file, 19 * ENTRY.size)
    else:
        edit(file, 19, (1 << 40, 100, 0))
    store = opened(settings_of(tmp_path))
    assert bodies(store, "a") == bodies(store, "b") == [b"%d" % number for number in range(40)]
    assert store.damage == ()
    send(store, "a", body=b"40")
    assert store.queue("a", 0).max_offset == 41
    store.close()
    assert not verify(settings_of(tmp_path)).problems


def test_lost_queues_are_not_held_against_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the folder of all queues is gone, each and its records are looked up, not searched."""
    names = [f"t{number}" for number in range(100)]
    store = opened(settings_of(tmp_path))
    for name in names * 3:
        send(store, name, body=name.encode())
    store.close()
    shutil.rmtree(tmp_path / "consumequeue")
    compared = []

    def is_same(one: ConsumeQueue, other: object) -> bool:
        compared.append(one)
        return one is other

    monkeypatch.setattr(ConsumeQueue, "__eq__", is_same)
    store = opened(settings_of(tmp_path))
    monkeypatch.undo()
    assert len(compared) < len(names), "one by one they are 5,000, and half of that for each record"
    assert all(bodies(store, name) == [name.encode()] * 3 for name in names)
    store.close()


@pytest.mark.parametrize("position", [-1, -(1 << 60), 1 << 60])
@pytest.mark.parametrize("size", [100, -100])
def test_no_offset_is_given_twice_behind_junk(tmp_path: Path, position: int, size: int) -> None:
    """Where the last entries lead to is no place of a log, before its first one neither."""
    store = opened(settings_of(tmp_path))
    for number in range(40):
        send(store, "a", body=b"%d" % number)
    store.close()
    for offset in range(37, 43):
        edit(queue_file(tmp_path, "a"), offset, (position, size, 7))
    store = opened(settings_of(tmp_path))
    assert bodies(store, "a") == [b"%d" % number for number in range(40)]
    send(store, "a", body=b"40")
    assert store.queue("a", 0).max_offset == 41
    store.close()
    assert not verify(settings_of(tmp_path)).problems


def test_a_wrong_first_entry_does_not_make_messages_old(tmp_path: Path) -> None:
    """It points far behind its message: what lies before that is no deleted topic's, and mended."""
    store = opened(settings_of(tmp_path))
    for number in range(40):
        send(store, "a", body=b"%d" % number)
    store.close()
    edit(queue_file(tmp_path, "a"), 0, (2000, 100, 0))
    assert verify(settings_of(tmp_path)).deleted_records == 0
    repair(settings_of(tmp_path))
    assert not verify(settings_of(tmp_path)).problems
    store = opened(settings_of(tmp_path))
    assert bodies(store, "a") == [b"%d" % number for number in range(40)]
    store.close()


def test_a_flipped_byte_behind_the_end_of_a_queue_is_no_message(tmp_path: Path) -> None:
    """The notes say how many there are; one more would be bytes of anybody's."""
    store = opened(settings_of(tmp_path))
    for number in range(5):
        send(store, "a", body=b"%d" % number)
        send(store, "b", body=b"%d" % number)
    store.close()
    edit(queue_file(tmp_path, "a"), 5, (0, 300, 0))
    store = opened(settings_of(tmp_path))
    assert store.queue("a", 0).max_offset == 5
    send(store, "a", body=b"5")
    store.close()
    assert not verify(settings_of(tmp_path)).problems


@pytest.mark.parametrize("too_many", [60, 300, -40, 100_000])
def test_a_wrong_size_hides_nothing_of_a_lost_queue(tmp_path: Path, too_many: int) -> None:
    """The entry beside a lost one says that its message reaches further, or less far, than so."""
    store = opened(settings_of(tmp_path))
    places = []
    for number in range(10):
        send(store, "a", body=b"%d" % number + bytes(40))
        places.append(send(store, "b", body=b"%d" % number))
    size = store.queue("b", 0).entry(4)[1]
    store.close()
    edit(queue_file(tmp_path, "b"), 4, (places[4], size + too_many, 0))
    shutil.rmtree(queue_file(tmp_path, "a").parent)
    store = opened(settings_of(tmp_path))
    assert store.damage == ()
    assert [body[:1] for body in bodies(store, "a")] == [b"%d" % number for number in range(10)]
    store.close()
    repair(settings_of(tmp_path))
    assert not verify(settings_of(tmp_path)).problems
    store = opened(settings_of(tmp_path))
    assert bodies(store, "b") == [b"%d" % number for number in range(10)]
    store.close()


def test_a_wrong_size_before_damage_hides_no_sound_message(tmp_path: Path) -> None:
    """It covers the damaged message and a sound one that has lost its entry: that one is given."""
    store = opened(settings_of(tmp_path))
    first = send(store, "b", body=b"0")
    damaged = send(store, "b", body=b"1")
    for number in range(3):
        send(store, "a", body=b"%d" % number)
    size = store.queue("b", 0).entry(0)[1]
    store.close()
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(damaged)
        file.write(b"\xff" * 60)
    edit(queue_file(tmp_path, "b"), 0, (first, 2 * size + 30, 0))
    edit(queue_file(tmp_path, "b"), 1, (0, 0, 0))
    shutil.rmtree(queue_file(tmp_path, "a").parent)
    (tmp_path / "aerobee.progress").unlink()
    (tmp_path / "abort").write_text("4711")
    store = opened(settings_of(tmp_path))
    assert bodies(store, "a") == [b"0", b"1", b"2"]
    assert [(span.begin, span.end) for span in store.damage] == [(damaged, damaged + size)]
    store.close()


@pytest.mark.parametrize("end", ["within", "behind"])
def test_a_noted_span_takes_nothing_of_a_sound_message(tmp_path: Path, end: str) -> None:
    """A note that is wrong, of a version that believed a wrong entry: a repair fills no message."""
    store = opened(settings_of(tmp_path))
    places = [send(store, "a", body=b"%d" % number) for number in range(9)]
    store.close()
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(places[6])
        file.write(bytes(places[7] - places[6]))
    noted = Damage(places[5] + 50, places[5] + 70 if end == "within" else places[7], "magic")
    write_damage(Files(), tmp_path, [noted])
    result = repair(settings_of(tmp_path))
    assert [(span.begin, span.end) for span in result.spans] == [(places[6], places[7])]
    assert not verify(settings_of(tmp_path)).problems
    store = opened(settings_of(tmp_path))
    assert bodies(store, "a") == [b"%d" % number for number in range(9) if number != 6]
    store.close()


def test_a_topic_that_has_a_folder_was_not_deleted(tmp_path: Path) -> None:
    """All its queue files are lost, all notes, and the broker's table: a repair serves it all."""
    store = opened(settings_of(tmp_path))
    for number in range(5):
        send(store, "a", number % 2, body=b"%d" % number)
        send(store, "b", body=b"%d" % number)
    store.close()
    queue_file(tmp_path, "a").unlink()
    shutil.rmtree(tmp_path / "consumequeue" / "a" / "1")
    (tmp_path / "aerobee.progress").unlink()
    repair(settings_of(tmp_path))
    assert verify(settings_of(tmp_path)).deleted_records == 0
    store = opened(settings_of(tmp_path))
    assert bodies(store, "a") == [b"0", b"2", b"4"]
    assert bodies(store, "a", 1) == [b"1", b"3"]
    store.close()


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("killed", [True, False])
def test_the_last_message_behind_a_filled_one_is_no_damage(
    tmp_path: Path, progress: bool, killed: bool
) -> None:
    """A repair has filled the message before it, and its queue is written again afterwards.

    Since its folder is lost; or since the repair was killed before its last step.
    """
    store = opened(settings_of(tmp_path))
    places = [send(store, "a", body=b"%d" % number + bytes(50)) for number in range(9)]
    send(store, "b", body=b"beside")
    store.close()
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(places[7] + 90)
        file.write(b"\xff" * 20)
    repair(settings_of(tmp_path))
    kept = [b"%d" % number for number in range(9) if number != 7]
    if killed:
        mending = MendingNote(Files(), tmp_path)
        mending.begin([ConsumeQueue(QueueAccess(Files(), 1000), tmp_path, "a", 0)])
        edit(queue_file(tmp_path, "a"), 8, (0, 0, 0))
    else:
        shutil.rmtree(queue_file(tmp_path, "a").parent)
    if not progress:
        for name in ("aerobee.progress", "checkpoint"):
            (tmp_path / name).unlink()
        (tmp_path / "abort").write_text("4711")
    store = opened(settings_of(tmp_path))
    assert store.damage == ()
    assert [body[:1] for body in bodies(store, "a")] == kept
    assert store.queue("a", 0).max_offset == 9
    store.close()
    repair(settings_of(tmp_path))
    assert not verify(settings_of(tmp_path)).problems
    store = opened(settings_of(tmp_path))
    assert [body[:1] for body in bodies(store, "a")] == kept
    store.close()
