"""The repair tool by its command, and repairs and recoveries that are killed at any step."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.disks.logs import lost, opened, other_problems, read_all, send, small, write_queues

from aerobee.storage import repair
from aerobee.storage import verify as verify_store
from aerobee.storage.disk.files import Files
from aerobee.storage.settings import StoreSettings
from aerobee.storage.tools.guessing import store_settings
from aerobee.storage.tools.repairing import Repairer
from aerobee.storage.verify import verify

SEGMENT = 16 * 1024
COUNT = 60
HIT = 7


def settings_of(root: Path) -> StoreSettings:
    """Several files of each kind."""
    return small(root, segment_bytes=SEGMENT)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A killed store: a flipped body, a lost file, a lost queue, a torn end, no notes."""
    root = tmp_path / "store"
    store = opened(settings_of(root))
    send(store, "other", 1, body=b"beside")
    send(store, "other", body=b"alone")
    places = []
    for number in range(COUNT):
        places.append(send(store, "t", body=b"%04d" % number + bytes(500)))
        store.poll()
    store.close()
    (root / "abort").write_text("4711")
    for name in ("aerobee.written", "aerobee.progress", "checkpoint"):
        (root / name).unlink()
    edit(root, places[HIT] + 300, b"\xff")
    edit(root, places[-1] + 604, b"half a record")
    (root / "commitlog" / f"{SEGMENT:020d}").unlink()
    shutil.rmtree(root / "consumequeue" / "other" / "0")
    return root


def edit(root: Path, position: int, data: bytes) -> None:
    """Overwrite a few bytes of the log."""
    path = root / "commitlog" / f"{position // SEGMENT * SEGMENT:020d}"
    with path.open("r+b") as file:
        file.seek(position % SEGMENT)
        file.write(data)


def content(root: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def served(root: Path) -> tuple[list[int], set[int], int, list[bytes]]:
    """What a store has and has lost; opened as a broker does."""
    store = opened(settings_of(root))
    found = (
        [record.queue_offset for record in read_all(store, "t")],
        lost(store, "t"),
        store.queue("t", 0).max_offset,
        [record.body for record in read_all(store, "other")],
    )
    write_queues(store)
    store.abandon()
    return found


def test_a_look_changes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --write it says what is wrong, and what would be done; exit code 1."""
    before = content(root)
    assert repair.main([str(root)]) == 1
    out = capsys.readouterr().out
    assert "wrong body crc" in out and "is missing" in out and "nothing has been changed" in out
    assert content(root) == before


def test_a_broken_store_is_mended(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, a line for each span with what it took; then there is nothing to mend."""
    sound = served(shutil.copytree(root, root.with_name("other")))
    assert repair.main(["--write", str(root)]) == 0
    out = capsys.readouterr().out
    assert f"t-0 offset {HIT} to {HIT}" in out and "damaged/commitlog" in out
    assert list((root / "damaged" / "commitlog").glob("*.torn"))
    assert repair.main([str(root)]) == 0
    assert "nothing to mend" in capsys.readouterr().out
    store = opened(settings_of(root))
    assert store.damage == () and store.recovered.proof == "flushed"
    kept = [record.queue_offset for record in read_all_but_blanks(store)]
    assert kept == sound[0] and store.queue("t", 0).max_offset == COUNT
    assert [record.body for record in read_all(store, "other")] == [b"alone"]
    send(store, "t", body=b"next")
    store.close()
    assert not verify(settings_of(root)).problems


def read_all_but_blanks(store: Any) -> list[Any]:
    """The records of topic t, as a consumer gets them."""
    from aerobee.remoting.message.record import decode_record

    queue, found, offset = store.queue("t", 0), [], 0
    while offset < queue.max_offset:
        result = store.read(queue, offset, 1, 1 << 20)
        found += [decode_record(part) for part in result.parts]
        offset = max(offset + 1, result.next_offset)
    return found


def test_a_mended_store_is_left_as_it_is(root: Path) -> None:
    """A second repair changes no byte of log and queues."""
    repair.repair(settings_of(root))
    before = content(root)
    again = repair.repair(settings_of(root))
    assert (again.entries_written, again.entries_blanked, again.spans) == (0, 0, [])
    assert content(root) == before


def test_a_store_in_use_is_not_touched(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and who is in the way."""
    store = opened(settings_of(root))
    assert repair.main(["--write", str(root)]) == 2
    assert "already open" in capsys.readouterr().err
    store.close()
    assert repair.main([str(root / "none")]) == 2


class Killed(BaseException):
    """The process ends here."""


class DyingFiles(Files):
    """A door that dies before its n-th change of the disk."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


def _dying(name: str) -> Callable[..., Any]:
    real = getattr(Files, name)

    def call(self: DyingFiles, *arguments: Any, **more: Any) -> Any:
        if name != "open" or more.get("create"):
            self._change()
        return real(self, *arguments, **more)

    return call


for _name in ("open", "resize", "prepare", "clear", "write", "sync", "sync_directory", "replace",
              "remove", "make_directory"):  # fmt: skip
    setattr(DyingFiles, _name, _dying(_name))


def test_a_recovery_that_is_killed_anywhere_is_done_again(root: Path, tmp_path: Path) -> None:
    """Whatever the step, the next start finds the same messages, offsets and damage."""
    expected = served(shutil.copytree(root, tmp_path / "whole"))
    step, died = 0, True
    while died:
        copy = shutil.copytree(root, tmp_path / f"killed{step}")
        store = None
        try:
            store = opened(settings_of(copy), DyingFiles(step))
            died = False
            store.abandon()
        except Killed:
            pass
        assert served(copy) == expected, step
        assert not other_problems_but_lost_files(copy), step
        shutil.rmtree(copy)
        step += 1
    assert step > 20


def other_problems_but_lost_files(root: Path) -> list[str]:
    """What is wrong beyond what is lost."""
    return [problem for problem in other_problems(settings_of(root)) if "missing" not in problem]


def test_a_repair_that_is_killed_anywhere_is_done_again(root: Path, tmp_path: Path) -> None:
    """A broker that starts in between loses nothing, and the next repair ends it."""
    whole = shutil.copytree(root, tmp_path / "whole")
    repair.repair(settings_of(whole))
    expected = served(whole)[2:], [r.body for r in all_of(whole)]
    step, died = 0, True
    while died:
        copy = shutil.copytree(root, tmp_path / f"killed{step}")
        try:
            Repairer(settings_of(copy), DyingFiles(step)).run()
            died = False
        except Killed:
            pass
        if step % 2:
            served(copy)
        repair.repair(settings_of(copy))
        assert not verify(store_settings(copy)).problems, step
        assert (served(copy)[2:], [r.body for r in all_of(copy)]) == expected, step
        shutil.rmtree(copy)
        step += 1
    assert step > 20


def all_of(root: Path) -> list[Any]:
    """What a consumer of topic t gets."""
    store = opened(settings_of(root))
    found = read_all_but_blanks(store)
    store.abandon()
    return found


def test_a_lost_queue_whose_messages_came_first_is_whole_again(tmp_path: Path) -> None:
    """The topic's other queue began later, and no note names the lost one: it was not deleted."""
    store = opened(settings_of(tmp_path))
    for number in range(6):
        send(store, "t", 0 if number < 2 else number % 2, body=b"%d" % number)
    store.close()
    shutil.rmtree(tmp_path / "consumequeue" / "t" / "0")
    (tmp_path / "aerobee.progress").write_bytes(b"")
    assert repair.main(["--write", str(tmp_path)]) == 0
    store = opened(settings_of(tmp_path))
    assert [record.body for record in read_all(store, "t")] == [b"0", b"1", b"2", b"4"]
    store.close()


def test_a_lone_queue_file_that_was_cut_has_the_size_that_is_said(tmp_path: Path) -> None:
    """Nothing else tells it: without that the file would stay as short as it is."""
    store = opened(settings_of(tmp_path))
    for number in range(6):
        send(store, "t", body=b"%d" % number)
    store.close()
    path = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:60])
    assert verify_store.main([str(tmp_path), "--queue-file-bytes", "1001"]) == 2
    size = ["--queue-file-bytes", "1000"]
    assert verify_store.main([str(tmp_path), *size]) == 1
    assert repair.main(["--write", str(tmp_path), *size]) == 0
    assert path.stat().st_size == 1000
    store = opened(settings_of(tmp_path))
    assert [int(record.body) for record in read_all(store, "t")] == list(range(6))
    store.close()
