"""Damage by the hundred, and senders who forge: what is sound is found, in bounded time."""

import struct
from pathlib import Path

from support.disks.logs import append, opened, read_all, send, small

from aerobee.remoting.message.layout import MAGIC_V1
from aerobee.storage.disk.files import Files
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

SEGMENT = 4 << 20
BODY_AT = 88
PICTURE = struct.Struct(">iIiiiqqi")


def settings_of(root: Path) -> StoreSettings:
    """One file of 4 MiB."""
    return small(root, segment_bytes=SEGMENT, queue_file_entries=1000)


def spoil(root: Path, position: int) -> None:
    """Overwrite the magic of a record."""
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(position + 4)
        file.write(b"\xff")


def kill(store: MessageStore, root: Path) -> None:
    """Stop without a word, and without our notes."""
    store.close()
    (root / "abort").write_text("4711")
    for name in ("aerobee.progress", "aerobee.written", "checkpoint"):
        (root / name).unlink()


class Counting(Files):
    """Counts what is read, and how often the names of a folder are brought to the disk."""

    bytes_read = 0
    folders_synced = 0

    def read(self, fd: int, count: int, offset: int) -> bytes:
        """Read and count."""
        data = super().read(fd, count, offset)
        self.bytes_read += len(data)
        return data

    def sync_directory(self, path: Path) -> None:
        """Sync and count."""
        super().sync_directory(path)
        self.folders_synced += 1


def test_pictures_of_records_do_not_hide_what_lies_behind(tmp_path: Path) -> None:
    """A damaged message is full of forged headers that name their positions and great sizes.

    More of them than are tried; every message behind is served all the same.
    """
    store = opened(settings_of(tmp_path))
    send(store, "t", body=b"before")
    place = store.commit_log.position
    pictures = b"".join(
        PICTURE.pack(SEGMENT - at, MAGIC_V1, 0, 0, 0, 1, at, 0)
        for at in range(place + BODY_AT, place + BODY_AT + 1000 * PICTURE.size, PICTURE.size)
    )
    assert send(store, "t", body=pictures) == place
    for number in range(20):
        send(store, "t", body=b"%d" % number)
    kill(store, tmp_path)
    spoil(tmp_path, place)
    store = opened(settings_of(tmp_path))
    sound = [b"before", *(b"%d" % number for number in range(20))]
    assert [record.body for record in read_all(store, "t")] == sound
    (span,) = store.damage
    assert span.queues == (("t", 0, 1, 1),)
    store.close()


def test_hundreds_of_spans_cost_no_more_than_their_number(tmp_path: Path) -> None:
    """Every other message is damaged; each span costs its surroundings, not the whole log.

    The next start knows them all, with what each has taken.
    """
    store = opened(settings_of(tmp_path))
    places = [append(store, "t", number % 3, body=b"%d" % number + bytes(3000))
              for number in range(601)]  # fmt: skip
    store.commit_log.commit()
    kill(store, tmp_path)
    for place in places[1::2]:
        spoil(tmp_path, place)
    files = Counting()
    store = opened(settings_of(tmp_path), files)
    spans = store.damage
    assert len(spans) == 300
    assert files.bytes_read < 300 * (256 << 10)
    assert files.folders_synced < 30
    taken = [lost for span in spans for lost in span.queues]
    assert taken == [("t", n % 3, n // 3, n // 3) for n in range(1, 600, 2)]
    kept = [r.body for q in range(3) for r in read_all(store, "t", q)]
    assert len(kept) == 301
    store.abandon()
    files = Counting()
    store = opened(settings_of(tmp_path), files)
    assert store.damage == spans
    assert files.bytes_read < 300 * (256 << 10)
    store.close()
