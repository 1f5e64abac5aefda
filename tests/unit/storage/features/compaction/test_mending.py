"""`verify` names what is damaged of copies; `repair` makes it anew of the rest, and of the log."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, opened, send, small

from aerobee.remoting.message.record import decode_record
from aerobee.storage import repair
from aerobee.storage.disk.files import Files
from aerobee.storage.features.compaction.copied_queue import CopiedQueue
from aerobee.storage.features.compaction.copies import Copies
from aerobee.storage.features.compaction.mending import CopiesMender
from aerobee.storage.features.compaction.rounds import compact
from aerobee.storage.features.compaction.source import CopySource
from aerobee.storage.features.compaction.units import UNIT_BYTES, CompactionSettings
from aerobee.storage.layout import COMPACTION_LOG, COMPACTION_QUEUE
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify

SIZES = CompactionSettings(file_bytes_wanted=4600, unit_file_bytes_wanted=920)  # 20 units
COUNT = 300
KEYS = 6
ONCE = 7  # one message in so many has a key of its own

Found = dict[int, bytes]


def key(number: int) -> str:
    """The key of a message."""
    return f"only-{number}" if number % ONCE == 5 else f"k{number % KEYS}"


LATEST = {key(number): number for number in range(COUNT)}


def queue_of(copies: Copies) -> CopiedQueue:
    """The copy of the queue."""
    return copies.queue("T", 0)


Made = Callable[[Path], tuple[StoreSettings, Found]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What makes a store at rest with a copy that a round has been over; says what the copy has."""
    first = tmp_path_factory.mktemp("store")
    before = make(first)

    def copy(root: Path) -> tuple[StoreSettings, Found]:
        shutil.copytree(first, root, dirs_exist_ok=True)
        return small(root), before

    return copy


def make(root: Path, life: bytes = b"v") -> Found:
    """Send messages, copy them, and compact."""
    settings = small(root)
    store = opened(settings)
    for number in range(COUNT):
        text = f"KEYS\x01{key(number)}\x02TAGS\x01a\x02".encode()
        body, now_ms = b"%b%d" % (life, number), NOW_MS + number
        send(store, "T", body=body, properties=text, tags="a", now_ms=now_ms)
    stored = store.find_queue("T", 0)
    assert stored is not None
    store.flusher.flush_all(5)
    source = CopySource(store.files, store.commit_log.snapshot(), stored.snapshot())
    copies = Copies(store.files, root, SIZES)
    queue = queue_of(copies)
    queue.load(0, COUNT)
    for begin in range(0, COUNT, 40):
        queue.append([copy for copy, _, _ in source.copies(begin, begin + 40)], begin + 40)
        if begin == 160:
            result = compact(queue, -1, 1000, lambda: None)
            copies.note_compacted(queue, ("T", 0), result.compacted_to)
    copies.note_copied({("T", 0): queue.sync()})
    before = read(queue)
    store.close()
    assert set(LATEST.values()) <= before.keys() and len(before) < COUNT
    assert not verify(settings).problems
    return before


def read(queue: CopiedQueue) -> Found:
    """Bodies by offset."""
    taken = queue.read(0, 1000, 1 << 20)
    assert not taken.passed_over
    return {offset: decode_record(data).body for offset, data in taken.records}


def found(settings: StoreSettings) -> Found:
    """What a broker finds after its start."""
    store = opened(settings)
    stored = store.find_queue("T", 0)
    assert stored is not None
    source = CopySource(store.files, store.commit_log.snapshot(), stored.snapshot())
    copies = Copies(store.files, settings.root, SIZES)
    queue = queue_of(copies)
    queue.load(stored.min_offset, stored.max_offset, source)
    again = [copy for copy, _, _ in source.copies(queue.end, stored.max_offset)]
    queue.append(again, stored.max_offset)
    store.close()
    return read(queue)


def files_of(root: Path) -> tuple[list[Path], list[Path]]:
    """The files of records, and of units."""
    records, units = (sorted((root / kind / "T/0").iterdir()) for kind in _BOTH)
    assert len(records) == len(units) > 5
    return records, units


_BOTH = (COMPACTION_LOG, COMPACTION_QUEUE)


def change(path: Path, at: int, data: bytes) -> None:
    """Write over a place of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def damage(root: Path, what: str) -> None:
    """Do to a store at rest what is said."""
    records, units = files_of(root)
    match what:
        case "record":
            change(records[1], 88, b"\xff")
        case "head of a record":
            change(records[0], 0, b"\x7f")
        case "page of records":
            change(records[1], 0, bytes(512))
        case "unit":
            change(units[1], 3 * UNIT_BYTES, b"\xff")
        case "page of units":
            change(units[2], 2 * UNIT_BYTES, bytes(512))
        case "last units":
            change(units[-1], 3 * UNIT_BYTES, bytes(UNIT_BYTES))
        case "units":
            units[1].unlink()
        case "records":
            records[1].unlink()
        case "short units":
            os.truncate(units[2], 5 * UNIT_BYTES + 7)
        case "short records":
            os.truncate(records[2], 700)
        case "long records":
            os.truncate(records[2], 9200)
        case "empty files":
            os.truncate(records[1], 0)
            os.truncate(units[3], 0)
        case "pair":
            units[2].unlink()
            records[2].unlink()
        case "last pair's units":
            units[-1].unlink()


DAMAGES = {
    "record": "no sound record of offset",
    "head of a record": "no sound record of offset",
    "page of records": "no sound record of offset",
    "unit": "no units from 3 up to 4",
    "page of units": "no units from 2 up to",
    "last units": "no units from 3 up to 4",
    "units": "missing, its other file is there",
    "records": "missing, its other file is there",
    "short units": "237 bytes, it should have 920",
    "short records": "700 bytes, it should have 5520",
    "long records": "9200 bytes, it should have 5520",
    "empty files": "0 bytes, it should have",
    "pair": "messages are missing that the log has",
    "last pair's units": "missing, its other file is there",
}


@pytest.mark.parametrize(("what", "named"), DAMAGES.items(), ids=DAMAGES)
def test_what_is_damaged_is_made_anew(
    what: str, named: str, made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing sound is removed, what the log has comes back, and no latest message is lost."""
    settings, before = made(tmp_path)
    damage(tmp_path, what)
    assert any(named in each for each in verify(settings).problems), verify(settings).problems
    assert repair.main([str(tmp_path)]) == 1
    assert repair.main(["--write", str(tmp_path)]) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert "the copy of T-0 was made anew" in told and " 0 are lost" in told, told
    after = {path: path.stat().st_ino for each in files_of(tmp_path) for path in each}
    assert repair.main(["--write", str(tmp_path)]) == 0
    assert after == {path: path.stat().st_ino for each in files_of(tmp_path) for path in each}
    have = found(settings)
    if what != "pair":
        assert have == before
    assert have.items() <= before.items() and set(LATEST.values()) <= have.keys()
    aside = tmp_path / "damaged/compaction/T/0"
    assert aside.exists() == (what not in ("pair", "units", "records", "last pair's units"))


@pytest.mark.parametrize(
    ("what", "lost"),
    [("units", 0), ("short units", 0),
     ("head of a record", 1), ("record", 1), ("page of records", 2), ("records", 2)],
)  # fmt: skip
def test_what_the_log_has_no_more(
    what: str, lost: int, made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest of the copy stays; what is lost is said."""
    settings, before = made(tmp_path)
    first, *_ = sorted((tmp_path / "commitlog").iterdir())
    first.unlink()
    assert repair.main(["--write", str(tmp_path)]) == 0
    damage(tmp_path, what)
    assert repair.main(["--write", str(tmp_path)]) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert f" {lost} are lost" in told, told
    have = found(settings)
    assert have.items() <= before.items() and len(before) - len(have) == lost


def test_sizes_that_nothing_tells(made: Made, tmp_path: Path) -> None:
    """Nothing is changed where every file of units is gone, of settings that are not the usual."""
    made(tmp_path)
    records, units = files_of(tmp_path)
    for path in units:
        path.unlink()
    assert repair.main(["--write", str(tmp_path)]) == 1
    assert sorted(records[0].parent.iterdir()) == records


def test_another_topics_copy_is_left_to_the_start(made: Made, tmp_path: Path) -> None:
    """What a topic has left that was made again since: nothing of it is put among the new one's."""
    settings, _ = made(tmp_path)
    other = tmp_path / "other"
    make(other, b"w")
    for kind in _BOTH:
        (tmp_path / kind).rename(tmp_path / "aside")
        (other / kind).rename(tmp_path / kind)
        (tmp_path / "aside").rename(other / kind)
    records, _ = files_of(tmp_path)
    change(records[0], 40, b"\xff")
    assert repair.main(["--write", str(tmp_path)]) == 0
    have = found(settings)
    assert have.keys() >= set(LATEST.values()) and all(each[:1] == b"v" for each in have.values())


def test_a_copy_of_which_the_new_topic_has_no_offset_is_left_to_the_start(
    made: Made, tmp_path: Path
) -> None:
    """Nothing that both have says whose it is: put together, some day it would be believed."""
    made(tmp_path)
    young = tmp_path / "young"
    store = opened(small(young))
    for number in range(5):
        send(store, "T", body=b"w%d" % number, properties=b"KEYS\x01young-%d\x02" % number)
    store.close()
    (tmp_path / "compaction").rename(young / "compaction")
    before = [path.read_bytes() for paths in files_of(young) for path in paths]
    assert not verify(small(young)).problems
    assert repair.main(["--write", str(young)]) == 0
    assert [path.read_bytes() for paths in files_of(young) for path in paths] == before
    assert found(small(young)) == {number: b"w%d" % number for number in range(5)}


class Killed(Exception):
    """The end of a process."""


class Dying(Files):
    """A door to the disk that ends the process before some step."""

    def __init__(self, fuse: int) -> None:
        self.fuse = fuse

    def _burn(self) -> None:
        self.fuse -= 1
        if self.fuse == 0:
            raise Killed

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Write, or die."""
        self._burn()
        super().write(fd, data, at)

    def replace(self, source: Path, target: Path) -> None:
        """Rename, or die."""
        self._burn()
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove, or die."""
        self._burn()
        super().remove(path)


class Full(Dying):
    """A disk that is full from some step on."""

    def _burn(self) -> None:
        self.fuse -= 1
        if self.fuse <= 0:
            raise OSError(errno.ENOSPC, "full")


def mend(settings: StoreSettings, files: Files) -> list[str]:
    """Mend the copies alone."""
    report = verify(settings)
    log = LogSnapshot(settings.log_dir, report.begin, report.end, settings.segment_bytes)
    return list(CopiesMender(files, settings, log).run())


@pytest.mark.parametrize("kind", [Dying, Full])
def test_it_is_killed_or_the_disk_is_full(
    kind: Callable[[int], Dying], made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anywhere: the next one ends it, or begins it again."""
    for number in range(1, 400, 31):
        root = tmp_path / str(number)
        settings, before = made(root)
        damage(root, "record")
        damage(root, "short units")
        files = kind(number)
        try:
            mend(settings, files)
        except (Killed, OSError):
            pass
        else:
            assert found(settings) == before
            return
        mend(settings, Files())
        assert not verify(settings).problems
        assert found(settings) == before
    pytest.fail("it has more steps than this")
