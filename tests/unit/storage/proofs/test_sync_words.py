"""The words that say which syncs are under way: when they stand, where, and what they outlive."""

import errno
import struct
from pathlib import Path

import pytest
from support.disks.held_syncs import HeldBackend
from support.disks.logs import ForgetfulFiles, bodies, opened, send, small

from aerobee.storage.disk.files import Files
from aerobee.storage.dump import dump
from aerobee.storage.errors import LogBusy
from aerobee.storage.layout import BOOT_NOTE, DOUBT
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.proofs.syncs import SYNCS_AT, Syncs, Unheard
from aerobee.storage.settings import ASYNC_FLUSH, SYNC_FLUSH
from aerobee.storage.upkeep import queue_rounds
from aerobee.storage.upkeep.flush import LOG_ROUND
from aerobee.storage.upkeep.queue_rounds import SLICE_S


def test_words_are_kept_from_one_page_to_the_next(tmp_path: Path) -> None:
    """A doubt ends while a sync of the log is under way: the fresh page says so, too."""
    files = ForgetfulFiles()
    boot_note = BootNote(files, tmp_path)
    boot_note.syncs.log_begins(100)
    boot_note.open(300)
    assert BootNote(files, tmp_path).unheard() == Unheard(100, None)
    boot_note.syncs.queues_begin(50)
    assert BootNote(files, tmp_path).unheard() == Unheard(100, 50)
    boot_note.syncs.log_ended()
    assert BootNote(files, tmp_path).unheard() == Unheard(None, 50)
    boot_note.open(400)
    assert BootNote(files, tmp_path).unheard() == Unheard(None, 50)
    boot_note.syncs.queues_ended()
    assert BootNote(files, tmp_path).unheard() is None
    boot_note.syncs.log_begins(400)
    assert BootNote(files, tmp_path).unheard() is None, "all that was written lies before"
    boot_note.note(500)
    assert BootNote(files, tmp_path).unheard() == Unheard(400, None)


@pytest.mark.parametrize("slice_s", [SLICE_S, 0.0], ids=["at once", "piece by piece"])
@pytest.mark.parametrize("mode", [SYNC_FLUSH, ASYNC_FLUSH])
def test_a_word_stands_until_all_syncs_of_its_round_are_heard(
    tmp_path: Path, mode: str, slice_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files of the log and two of queues, side by side, in any order of their ends.

    The round may have a slice of the loop's time for each file, as on a busy machine.
    """
    monkeypatch.setattr(queue_rounds, "SLICE_S", slice_s)
    files, held = ForgetfulFiles(), HeldBackend()
    store = opened(small(tmp_path, flush_mode=mode), files)
    store.flusher._backend = store.flusher._rounds._backend = held

    def said() -> Unheard | None:
        return BootNote(files, tmp_path).unheard()

    def fill(count: int) -> int:
        for number in range(count):
            while True:
                try:
                    send(store, queue_id=number % 2, body=bytes(900))
                except LogBusy:
                    store.allocator.on_readable()
                else:
                    break
        return store.commit_log.committed

    first = fill(20)
    assert first > 16 * 1024, "a second file has begun"
    store.flusher.flush_log()
    assert said() == Unheard(0, None)
    store.flusher.flush_queues()
    assert said() == Unheard(0, 0)
    held.hear(store.flusher)  # its files are made
    assert len(held.waiting) == 4
    one, other = [token for token in held.waiting if token > LOG_ROUND]
    held.complete(store.flusher, LOG_ROUND)
    held.complete(store.flusher, one)
    assert said() == Unheard(0, 0), "of each one is still to come"
    held.complete(store.flusher, other)
    assert said() == Unheard(0, None)
    second = fill(1)
    held.complete(store.flusher, LOG_ROUND)
    assert store.commit_log.flushed_position == first
    assert said() == (Unheard(first, None) if mode == SYNC_FLUSH else None)
    assert not store.flusher.busy, "the checkpoint is written"
    store.flusher.flush_queues()
    assert said() == Unheard(first if mode == SYNC_FLUSH else None, first)
    held.complete(store.flusher, held.waiting[0])
    assert said() == Unheard(first, None), "the round's checkpoint waits for the log"
    held.complete(store.flusher, LOG_ROUND)
    assert store.commit_log.flushed_position == second and said() is None
    store.abandon()


def test_a_failure_that_was_heard_is_noted_as_before(tmp_path: Path) -> None:
    """A queue's sync fails: the doubt is noted, and the fresh page of its end has no word of it."""
    files, held = ForgetfulFiles(), HeldBackend()
    store = opened(small(tmp_path), files)
    store.flusher._backend = store.flusher._rounds._backend = held
    send(store)
    store.flusher.flush_log()
    held.complete(store.flusher, LOG_ROUND)
    store.flusher.flush_queues()
    held.hear(store.flusher)  # its files are made
    held.complete(store.flusher, held.waiting[0], errno.EIO)
    assert (tmp_path / DOUBT).exists() and not (tmp_path / BOOT_NOTE).exists()
    store.flusher.flush_queues()
    held.complete(store.flusher, held.waiting[0])
    assert not (tmp_path / DOUBT).exists()
    assert BootNote(files, tmp_path).read() == store.commit_log.committed
    assert BootNote(files, tmp_path).unheard() is None
    store.abandon()


def test_words_lie_where_earlier_versions_do_not_look(tmp_path: Path) -> None:
    """Those read the first 112 bytes; and each word is one aligned store, which no kill tears."""
    plain, told = BootNote(Files(), tmp_path / "a"), BootNote(Files(), tmp_path / "b")
    for name, boot_note in (("a", plain), ("b", told)):
        (tmp_path / name).mkdir()
        boot_note.open(300)
    told.syncs.log_begins(100)
    told.syncs.queues_begin(50)
    pages = [(tmp_path / name / BOOT_NOTE).read_bytes() for name in "ab"]
    assert pages[0][:48] == pages[1][:48] and pages[0][64:112] == pages[1][64:112]
    assert pages[1][112:136] == b"SYNCSAID" + struct.pack(">qq", ~100, ~50)
    assert SYNCS_AT % 8 == 0
    assert list(dump(tmp_path / "b" / BOOT_NOTE))[-2:] == [
        "log on the disk to 100; what follows was under way, or may have been",
        "queues on the disk to 50; what follows was under way, likewise",
    ]


def test_words_without_a_page_go_nowhere() -> None:
    """Before the first page, and after the last, they are only remembered."""
    first, second = Syncs(), Syncs()
    first.log_begins(7)
    assert second.pack() == Syncs().pack() != first.pack()


def test_a_sync_that_fails_for_a_deleted_queue_touches_no_successor(tmp_path: Path) -> None:
    """What the dead queue had is not written anew: that place has another queue's entries."""
    files, held = ForgetfulFiles(), HeldBackend()
    store = opened(small(tmp_path), files)
    store.flusher._backend = store.flusher._rounds._backend = held
    for _ in range(3):
        send(store, body=b"of the first")
    store.flusher.flush_queues()
    held.hear(store.flusher)  # its files are made
    (token,) = [token for token in held.waiting if token > LOG_ROUND]
    assert store.delete_topic("orders")
    send(store, body=b"of the second")
    held.complete(store.flusher, token, errno.EIO)
    assert bodies(store) == [b"of the second"]
    assert not store.flusher._rounds.lost, "checkpoints are still written"
    store.abandon()
    store = opened(small(tmp_path))
    assert bodies(store) == [b"of the second"]
    store.close()


def test_entries_that_cannot_be_read_after_a_failed_sync_are_written_anew_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No round begins before that, or its sync would call a success what the kernel dropped."""
    files, held = ForgetfulFiles(), HeldBackend()
    store = opened(small(tmp_path), files)
    store.flusher._backend = store.flusher._rounds._backend = held
    send(store)
    store.queue("orders", 0).close()  # else memory has the entry, and nothing has to be read
    store.flusher.flush_queues()
    read = files.read

    def fails(fd: int, count: int, at: int) -> bytes:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patched:
        patched.setattr(files, "read", fails)
        (token,) = [token for token in held.waiting if token > LOG_ROUND]
        held.complete(store.flusher, token, errno.EIO)
        send(store)
        store.flusher.flush_queues()
        assert not [token for token in held.waiting if token > LOG_ROUND]
    assert files.read == read
    store.flusher.flush_queues()
    assert [token for token in held.waiting if token > LOG_ROUND], "the disk reads again"
    store.abandon()
