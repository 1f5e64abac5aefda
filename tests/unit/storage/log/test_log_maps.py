"""A file of the log that cannot be mapped just now: the message is refused, nothing else harmed."""

import errno
import mmap
from pathlib import Path

import pytest
from support.disks.logs import ForgetfulFiles, append, bodies, opened, send, small

from aerobee.storage.errors import LogUnavailable
from aerobee.storage.verify import verify


class Unmapped(ForgetfulFiles):
    """Maps nothing of a file's size while there is no memory."""

    def __init__(self) -> None:
        super().__init__()
        self.refused_bytes = 0

    def map(self, fd: int, size: int, *, write: bool) -> mmap.mmap:
        """Map, or find no memory for files of one size."""
        if size == self.refused_bytes:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return super().map(fd, size, write=write)


def test_the_next_log_file_cannot_be_mapped(tmp_path: Path) -> None:
    """Messages are refused until it can be; what was accepted is there, and nothing besides."""
    files, settings = Unmapped(), small(tmp_path)
    store = opened(settings, files)
    files.refused_bytes = settings.segment_bytes
    sent = 0
    with pytest.raises(LogUnavailable, match=f"{settings.segment_bytes:020d} cannot be mapped"):
        while sent < 100:
            send(store, body=b"%03d" % sent + bytes(500))
            sent += 1
    assert 0 < sent < 100
    with pytest.raises(LogUnavailable):
        append(store, body=bytes(500))
    assert store.commit_log.position == store.commit_log.committed
    assert store.commit_log.refusal is None
    files.refused_bytes = 0
    for number in range(sent, sent + 10):
        send(store, body=b"%03d" % number + bytes(500))
    assert [int(body[:3]) for body in bodies(store)] == list(range(sent + 10))
    store.close()
    assert not verify(settings).problems


def test_a_store_whose_log_cannot_be_mapped_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens, refuses messages with the reason, and takes them as soon as there is memory."""
    files, settings = Unmapped(), small(tmp_path)
    files.refused_bytes = settings.segment_bytes
    store = opened(settings, files)
    with pytest.raises(LogUnavailable, match="Cannot allocate memory"):
        append(store)
    files.refused_bytes = 0
    monkeypatch.setattr("aerobee.storage.recovery.writing_start.RETRY_INTERVAL_S", 0.0)
    store.tick()
    send(store)
    assert bodies(store) == [b"hello"]
    store.close()
    assert not verify(settings).problems
