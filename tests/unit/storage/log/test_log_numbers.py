"""A file of the log that cannot be opened just now: the message is refused, nothing else harmed."""

import errno
from pathlib import Path

import pytest
from support.disks.logs import ForgetfulFiles, append, bodies, opened, send, small

from aerobee.storage.errors import LogUnavailable
from aerobee.storage.verify import verify


class OutOfNumbers(ForgetfulFiles):
    """Opens a file of the log no more while there are no numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = ""

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Open, or find no number for one name; a file that is made needs one, too."""
        path = Path(path)
        if path.name == self.refused and not create:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().open(path, create=create, write=write)


def test_the_next_log_file_cannot_be_opened(tmp_path: Path) -> None:
    """Messages are refused until it can be; what was accepted is there, and nothing besides."""
    files, settings = OutOfNumbers(), small(tmp_path)
    store = opened(settings, files)
    store.allocator.prepare_now(settings.segment_bytes, settings.segment_bytes)
    store.segments.items[1].let_go()
    files.refused = f"{settings.segment_bytes:020d}"
    sent = 0
    with pytest.raises(LogUnavailable, match=f"{settings.segment_bytes:020d} cannot be opened"):
        while sent < 100:
            send(store, body=b"%03d" % sent + bytes(500))
            sent += 1
    assert 0 < sent < 100
    with pytest.raises(LogUnavailable):
        append(store, body=bytes(500))
    assert store.commit_log.position == store.commit_log.committed
    assert store.commit_log.refusal is None
    files.refused = ""
    for number in range(sent, sent + 10):
        send(store, body=b"%03d" % number + bytes(500))
    assert [int(body[:3]) for body in bodies(store)] == list(range(sent + 10))
    store.close()
    assert not verify(settings).problems


def test_a_store_whose_log_cannot_be_opened_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens, refuses messages with the reason, and takes them as soon as there is a number."""
    files, settings = OutOfNumbers(), small(tmp_path)
    files.refused = f"{0:020d}"
    store = opened(settings, files)
    with pytest.raises(LogUnavailable, match="Too many open files"):
        append(store)
    files.refused = ""
    monkeypatch.setattr("aerobee.storage.recovery.writing_start.RETRY_INTERVAL_S", 0.0)
    store.tick()
    send(store)
    assert bodies(store) == [b"hello"]
    store.close()
    assert not verify(settings).problems
