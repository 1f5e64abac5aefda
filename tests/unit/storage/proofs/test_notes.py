"""Our own two notes beside RocketMQ's checkpoint: what they prove, and when they prove nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.disks.logs import ForgetfulFiles

from aerobee.storage.disk.files import Files
from aerobee.storage.proofs.boot_note import BOOT_NOTE_BYTES, BootNote
from aerobee.storage.proofs.progress import (
    Progress,
    decode_progress,
    encode_progress,
    read_progress,
    remove_progress,
    write_progress,
)

EXAMPLE = Progress(4711, 1_700_000_000_000, {("orders", 0): 12, ("%RETRY%grüße", 7): 0})


def test_progress_is_read_as_written(tmp_path: Path) -> None:
    """Through the file, twice, and gone after removal."""
    files = Files()
    assert read_progress(files, tmp_path) is None
    for sync in (True, False):
        write_progress(files, tmp_path, EXAMPLE, sync=sync)
        assert read_progress(files, tmp_path) == EXAMPLE
    assert files.names(tmp_path) == ["aerobee.progress"]
    remove_progress(files, tmp_path)
    assert read_progress(files, tmp_path) is None


@given(st.binary(max_size=200))
def test_hostile_progress_proves_nothing(data: bytes) -> None:
    """Random bytes are not believed, with and without the right magic."""
    assert decode_progress(data) is None
    assert decode_progress(b"AEROPRG1" + data) is None


@given(st.data())
def test_a_single_wrong_bit_is_noticed(data: st.DataObject) -> None:
    """As is a file that was cut off."""
    good = encode_progress(EXAMPLE)
    at = data.draw(st.integers(0, len(good) * 8 - 1))
    bad = bytearray(good)
    bad[at // 8] ^= 1 << at % 8
    assert decode_progress(bytes(bad)) is None
    assert decode_progress(good[: at // 8]) is None
    assert decode_progress(good) == EXAMPLE


def test_the_boot_note_counts_in_its_mount_only(tmp_path: Path) -> None:
    """A device that was mounted again may have lost what was in memory, without a reboot."""

    class Mounted(ForgetfulFiles):
        numbers = (7, 1)

        def mount(self, path: Path) -> tuple[int, int]:
            """As told."""
            return self.numbers

    files = Mounted()
    boot_note = BootNote(files, tmp_path)
    boot_note.open(100)
    assert boot_note.read() == 100
    files.numbers = (7, 2)
    assert boot_note.read() is None
    boot_note.doubt(50)
    assert boot_note.doubted() is None, "there is no page cache left to be doubted"
    files.numbers = (7, 1)
    assert (boot_note.read(), boot_note.doubted()) == (None, 50)


def test_a_mount_has_a_number() -> None:
    """Linux since 5.8 tells it; another file system has another."""
    device, number = Files().mount(Path("/proc"))
    other = Files().mount(Path(__file__).parent)
    assert (device, number) != other
    if number:
        assert Files().mount(Path("/proc/sys"))[1] > 0


def test_the_boot_note_counts_in_its_boot_only(tmp_path: Path) -> None:
    """Another boot id, and the position proves nothing."""
    boot_note = BootNote(ForgetfulFiles(1), tmp_path)
    assert boot_note.read() is None
    boot_note.open(100)
    assert boot_note.read() == 100
    for position in (200, 300, 450):
        boot_note.note(position)
        assert boot_note.read() == position
    boot_note.close()
    assert BootNote(ForgetfulFiles(1), tmp_path).read() == 450
    assert BootNote(ForgetfulFiles(2), tmp_path).read() is None
    boot_note.remove()
    assert BootNote(ForgetfulFiles(1), tmp_path).read() is None


@pytest.mark.parametrize("at", [*range(64, 96)])
def test_a_torn_note_leaves_the_one_before(tmp_path: Path, at: int) -> None:
    """Each note carries its complement, and the two places take turns."""
    boot_note = BootNote(ForgetfulFiles(), tmp_path)
    boot_note.open(0x0101010101010101)
    boot_note.note(0x0202020202020202)
    boot_note.close()
    path = tmp_path / "aerobee.written"
    data = bytearray(path.read_bytes())
    assert len(data) == BOOT_NOTE_BYTES
    data[at] ^= 0xFF
    path.write_bytes(data)
    torn_new = at < 80
    assert boot_note.read() == (0x0101010101010101 if torn_new else 0x0202020202020202)


def test_without_a_boot_id_nothing_is_proven(tmp_path: Path) -> None:
    """Systems without one recover from the progress file."""

    class Elsewhere(Files):
        def boot_id(self) -> bytes:
            return b""

    boot_note = BootNote(Elsewhere(), tmp_path)
    boot_note.open(100)
    boot_note.note(200)
    assert boot_note.read() is None
    boot_note.close()
