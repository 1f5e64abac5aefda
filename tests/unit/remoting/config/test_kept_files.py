"""Kept files survive a crash at any step."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from aerobee.remoting.config.kept_files import KeptFileDamaged, load_kept_file, replace_file


def as_number(data: bytes) -> int:
    """Decode a file that holds one number."""
    return int(data)


class Killed(BaseException):
    """Stands for the end of the process."""


def killed_at(step: int) -> Callable[[Path, Path], Path]:
    """Return a rename that ends the process before its `step`-th call."""
    rename, calls = Path.replace, 0

    def replace(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == step:
            raise Killed
        return rename(self, target)

    return replace


@pytest.mark.parametrize(("step", "found"), [(1, 1), (2, 1), (3, 2)])
def test_a_crash_at_each_step_leaves_a_readable_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, found: int
) -> None:
    """Before the renames and between them the old table is read, after them the new one."""
    file = tmp_path / "table.json"
    replace_file(file, b"1")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed_at(step))
        if step <= 2:
            with pytest.raises(Killed):
                replace_file(file, b"2")
        else:
            replace_file(file, b"2")
    assert load_kept_file(file, as_number) == found


@pytest.mark.parametrize("damage", [b"", b"\0\0\0\0", b"{", None])
def test_the_backup_is_read_where_the_file_is_damaged(tmp_path: Path, damage: bytes | None) -> None:
    """Empty, zeroed, torn and missing files are passed over."""
    file = tmp_path / "table.json"
    replace_file(file, b"1")
    replace_file(file, b"2")
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    assert load_kept_file(file, as_number) == 1


def test_two_damaged_files_are_an_error_that_names_both(tmp_path: Path) -> None:
    """An empty table in their place would forget for good what they still may hold."""
    file = tmp_path / "table.json"
    file.write_bytes(b"x")
    (tmp_path / "table.json.bak").write_bytes(b"y")
    with pytest.raises(KeptFileDamaged) as damaged:
        load_kept_file(file, as_number)
    assert "table.json:" in str(damaged.value) and "table.json.bak:" in str(damaged.value)
    assert load_kept_file(tmp_path / "other.json", as_number) is None


@pytest.mark.parametrize("call", [(Path, "open"), (os, "fsync")])
def test_a_crash_while_it_is_written_leaves_the_old_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[object, str]
) -> None:
    """The new content is not under the file's name before all of it is on the disk."""
    file = tmp_path / "table.json"
    replace_file(file, b"1")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*call, killed)
        with pytest.raises(Killed):
            replace_file(file, b"2")
    assert load_kept_file(file, as_number) == 1


@pytest.mark.parametrize("rights", [0o600, 0o664])
def test_who_may_read_a_file_stays_as_it_was(tmp_path: Path, rights: int) -> None:
    """A settings file with a password does not become everybody's, nor one of a group its owner's.

    Nor does a file that a crash has left beside it lend its own rights.
    """
    file, left = tmp_path / "broker.conf", tmp_path / "broker.conf.tmp"
    file.write_bytes(b"1")
    file.chmod(rights)
    left.write_bytes(b"0")
    left.chmod(0o666)
    replace_file(file, b"2")
    assert file.read_bytes() == b"2"
    found = [path.stat().st_mode & 0o777 for path in (file, tmp_path / "broker.conf.bak")]
    assert found == [rights, rights]


@pytest.mark.parametrize("name", ["table.json", "table.json.bak"])
def test_a_missing_right_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The other file holds an older table, and nobody is told to remove what is sound."""
    file = tmp_path / "table.json"
    replace_file(file, b"1")
    replace_file(file, b"2")
    if name == "table.json.bak":
        file.unlink()
    read = Path.read_bytes

    def refused(path: Path) -> bytes:
        if path.name == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(KeptFileDamaged) as told:
        load_kept_file(file, as_number)
    assert str(told.value).startswith(f"cannot read {tmp_path / name}: Permission denied for user ")
    assert "remove" not in str(told.value)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_goes_on_leading_to_the_file(tmp_path: Path, there: bool) -> None:
    """As from /etc to a folder of its own; also where its file has yet to be made."""
    target, link = tmp_path / "of" / "target", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(Path("of", "target"))
    if there:
        target.write_bytes(b"1")
    replace_file(link, b"2")
    assert link.is_symlink()
    assert target.read_bytes() == b"2"
    assert [each.name for each in tmp_path.iterdir() if each.name != "of"] == ["link"]


def test_a_crash_behind_a_link_leaves_a_readable_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup lies beside the file, not beside the link."""
    target, link = tmp_path / "of" / "target", tmp_path / "link"
    replace_file(target, b"1")
    link.symlink_to(target)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "replace", killed_at(2))
        replace_file(link, b"2")
    assert load_kept_file(link, as_number) == 1


def test_a_link_to_itself_is_told(tmp_path: Path) -> None:
    """Nothing of it can be read, and nothing is made in its place."""
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(KeptFileDamaged, match="Too many levels of symbolic links"):
        load_kept_file(link, as_number)


def test_a_file_stays_whose_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what root has changed could not be read by the user whose broker starts with it."""
    file, given = tmp_path / "file", []
    file.write_bytes(b"1")
    status = file.stat()
    monkeypatch.setattr(os, "fchown", lambda fd, *ids: given.append(ids))
    replace_file(file, b"2")
    assert given == [(status.st_uid, status.st_gid)]

    def refuse(fd: int, *ids: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    replace_file(file, b"3")
    assert file.read_bytes() == b"3"


def test_a_private_file_is_closed_to_others_whatever_it_was(tmp_path: Path) -> None:
    """Made, replaced, or put there by an operator who left it open; its backup, too."""
    file = tmp_path / "users.json"
    file.write_bytes(b"open")
    file.chmod(0o644)
    for data in (b"one", b"two"):
        replace_file(file, data, private=True)
        for each in (file, tmp_path / "users.json.bak"):
            assert stat.S_IMODE(each.stat().st_mode) == 0o600, each
    replace_file(tmp_path / "new.json", b"x", private=True)
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o600
    assert file.read_bytes() == b"two"
