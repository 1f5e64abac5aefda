"""The door to the operating system, and what it does where a system lacks a call."""

import ctypes
import errno
import fcntl
import os
import random
import resource
from pathlib import Path

import pytest

from aerobee.storage.disk import files as files_module
from aerobee.storage.disk.files import WRITE_BYTES_MAX, Files, memory_bytes, raise_open_files_limit


@pytest.fixture
def fd(tmp_path: Path) -> int:
    """An open file of 10,000 bytes of x."""
    number = Files().open(tmp_path / "file", create=True)
    Files().write(number, b"x" * 10_000, 0)
    return number


def test_prepared_space_is_zero_and_has_blocks(tmp_path: Path) -> None:
    """`resize` makes a hole, `prepare` fills a part of it with real zeros."""
    files = Files()
    fd = files.open(tmp_path / "file", create=True)
    files.resize(fd, 10 << 20)
    assert os.fstat(fd).st_blocks == 0
    files.prepare(fd, 4096, 200_000)
    assert 200_000 <= os.fstat(fd).st_blocks * 512 < 400_000
    assert files.read(fd, 300_000, 0) == bytes(300_000)
    assert files.next_data(fd, 0) == 4096
    assert files.next_data(fd, 5 << 20) is None
    assert files.size(tmp_path / "file") == 10 << 20


@pytest.mark.parametrize("missing", ["absent", "unsupported"])
def test_preparing_without_posix_fallocate(
    fd: int, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zeros are written all the same; a disk that is full still says so."""
    if missing == "absent":
        monkeypatch.delattr(os, "posix_fallocate")
    else:

        def unsupported(fd: int, at: int, count: int) -> None:
            raise OSError(errno.EOPNOTSUPP, "not here")

        monkeypatch.setattr(os, "posix_fallocate", unsupported)
    Files().prepare(fd, 100, 9_000)
    assert Files().read(fd, 10_000, 0) == b"x" * 100 + bytes(9_000) + b"x" * 900

    def full(fd: int, at: int, count: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="full"):
        Files().prepare(fd, 0, 10)


@pytest.mark.parametrize("way", ["punch", "write", "write without holes"])
def test_clearing_leaves_zeros(fd: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a hole, or by writing, the same bytes."""
    if way != "punch":
        monkeypatch.setattr(files_module, "punch_hole", lambda fd, at, count: False)
    if way == "write without holes":
        monkeypatch.delattr(os, "SEEK_DATA")
    Files().clear(fd, 50, 9_000)
    assert Files().read(fd, 10_000, 0) == b"x" * 50 + bytes(9_000) + b"x" * 950


def test_no_hole_can_be_punched_without_the_call(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another C library lacks it."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name, **options: object())
    assert not files_module.punch_hole(fd, 0, 10)
    assert not Files().allocate(fd, 0, 10)


def test_syncing_on_other_systems(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has no fdatasync and needs F_FULLFSYNC; elsewhere fsync does."""
    called: list[str] = []
    Files().sync(fd)
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(os, "fsync", lambda fd: called.append("fsync"))
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    Files().sync(fd)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, number: called.append(f"fcntl {number}"))
    Files().sync(fd)
    assert called == ["fsync", "fcntl 51"]


def test_short_writes_are_finished(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes a part is called again for the rest."""
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    Files().write(fd, b"0123456789", 5)
    assert Files().read(fd, 12, 4) == b"x0123456789x"


def test_what_is_large_is_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For which Linux takes memory that a virtual machine still has, and it all arrives."""
    real, sizes = os.pwrite, list[int]()

    def write(fd: int, data: bytes, at: int) -> int:
        sizes.append(len(data))
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", write)
    data = random.Random(7).randbytes((4 << 20) + 12345)
    files = Files()
    fd = files.open(tmp_path / "file", create=True)
    files.write(fd, data, 100)
    files.close(fd)
    assert (tmp_path / "file").read_bytes() == bytes(100) + data
    assert max(sizes) <= WRITE_BYTES_MAX


def test_small_helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, missing files, removal, disk ratio, boot id, memory."""
    files = Files()
    assert files.names(tmp_path / "none") == []
    assert files.read_all(tmp_path / "none", 10) is None
    files.remove(tmp_path / "none")
    files.make_directory(tmp_path / "a" / "b")
    (tmp_path / "a" / "file").write_bytes(b"0123456789")
    assert files.names(tmp_path / "a") == ["b", "file"]
    assert files.read_all(tmp_path / "a" / "file", 4) == b"0123"
    files.remove_directory(tmp_path / "a")
    files.remove_directory(tmp_path / "a" / "b")
    assert files.names(tmp_path / "a") == ["file"]
    assert 0 < files.disk_used_ratio(tmp_path) <= 1
    assert files.modified(tmp_path / "a" / "file") > 1.7e9
    monkeypatch.setattr(files_module, "BOOT_ID", tmp_path / "none")
    assert files.boot_id() == b""
    assert memory_bytes() > 1 << 26
    monkeypatch.setattr(os, "sysconf", lambda name: int("no number"))
    assert memory_bytes() == 4 << 30


def test_the_limit_of_open_files_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the hard limit, and never lowered."""
    limits = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.append(pair))
    assert raise_open_files_limit(65_536) == 4096
    assert limits[-1] == (4096, 4096)
    assert raise_open_files_limit(100) == 100
    assert limits[-1] == (4096, 4096)
