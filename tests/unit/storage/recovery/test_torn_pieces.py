"""Records written by several calls, of which some were made: kills, losses of power, full disks."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from support.disks.logs import bodies, opened, other_problems, send, settle, small
from support.disks.stores import Stored, pack_record

from aerobee.storage.disk.files import WRITE_BYTES_MAX, Files
from aerobee.storage.errors import LogUnavailable
from aerobee.storage.layout import BOOT_NOTE
from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify

SEGMENT = 4 << 20
BODY_BYTES = 5 * WRITE_BYTES_MAX // 2  # three calls, with what is around it


class Killed(BaseException):
    """Stands for the end of the process."""


class Fast(Files):
    """A disk that need not keep anything."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class Pieces(Fast):
    """Makes only the pieces of a large write that are wanted, then ends the process or fails."""

    def __init__(self, made: set[int], error: int = 0) -> None:
        self._made = made
        self._error = error
        self.large = 0

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        if len(data) <= WRITE_BYTES_MAX:
            super().write(fd, data, at)
            return
        self.large += 1
        for number, begin in enumerate(range(0, len(data), WRITE_BYTES_MAX)):
            if number in self._made:
                super().write(fd, memoryview(data)[begin : begin + WRITE_BYTES_MAX], at + begin)
            elif self._error:
                raise OSError(self._error, os.strerror(self._error))
        raise Killed


def settings_of(root: Path) -> StoreSettings:
    """Return what a store with room for large records is opened with."""
    changes: dict[str, Any] = {"segment_bytes": SEGMENT, "window_bytes": 1 << 20}
    return small(root, **changes, message_bytes_max=4 << 20, first_window_bytes=1 << 20)


def with_picture(position: int) -> bytes:
    """Return a body that holds what could be a message of another topic, where it would lie."""
    body_at = 84 + 4  # of a record with addresses of IPv4
    first = b"x" * 1000
    message = Stored(topic="forged", body=b"forged", store_timestamp=1_900_000_000_000)
    picture = pack_record(message, 0, position + body_at + len(first))
    return (first + picture).ljust(BODY_BYTES, b"y")


def torn(root: Path, made: set[int], error: int = 0) -> None:
    """Leave a store with three messages, and pieces of a fourth."""
    files = Pieces(made, error)
    store = opened(settings_of(root), files)
    for number in range(3):
        send(store, body=b"%d" % number)
    settle(store)
    body = with_picture(store.commit_log.position)
    with pytest.raises(LogUnavailable if error else Killed):
        send(store, body=body)
    assert files.large == 1
    store.abandon()


def check(root: Path) -> None:
    """The three are there, nothing else is, and what is sent next is served after any stop."""
    settings = settings_of(root)
    for turn in range(3):
        store = opened(settings, Fast())
        expected = [b"0", b"1", b"2", *(b"after %d" % each for each in range(turn))]
        assert bodies(store) == expected
        assert store.find_queue("forged", 0) is None
        assert not list(store.damage)
        rest = store.segments.items[-1].read(store.commit_log.position, SEGMENT)
        assert not any(rest), "zeros follow the end"
        send(store, body=b"after %d" % turn)
        if turn == 1:
            store.abandon()
        else:
            store.close()
    assert not other_problems(settings)
    assert not verify(settings).problem_count


@pytest.mark.parametrize("boot_known", [True, False])
@pytest.mark.parametrize("made", [set(), {0}, {0, 1}, {1, 2}, {0, 2}])
def test_an_end_between_the_pieces(tmp_path: Path, made: set[int], boot_known: bool) -> None:
    """By a kill or a loss of power: the message was never answered, and is not there."""
    torn(tmp_path, made)
    if not boot_known:
        (tmp_path / BOOT_NOTE).unlink()
    check(tmp_path)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("made", [set(), {0}, {0, 1}])
def test_a_disk_that_refuses_a_piece(tmp_path: Path, made: set[int], error: int) -> None:
    """The send fails, nothing more is taken, and a start finds the log without it."""
    torn(tmp_path, made, error)
    check(tmp_path)
