"""The verifier and the dump know the files of copies."""

from pathlib import Path

from support.disks.logs import small

from aerobee.remoting.message.record import Record, encode_record
from aerobee.storage.disk.files import Files
from aerobee.storage.dump import dump
from aerobee.storage.features.compaction.at_rest import problems_of_copies
from aerobee.storage.features.compaction.copied_queue import CopiedQueue
from aerobee.storage.features.compaction.pairs import Folders
from aerobee.storage.features.compaction.units import CompactionSettings
from aerobee.storage.features.compaction.writing import Copy
from aerobee.storage.layout import COMPACTION_LOG, COMPACTION_QUEUE
from aerobee.storage.log.snapshot import LogSnapshot


def test_rocketmqs_sizes_of_files() -> None:
    """Its default settings make files of 104,857,460 and 10,485,746 bytes."""
    default = CompactionSettings()
    assert (default.file_bytes, default.unit_file_bytes) == (104_857_460, 10_485_746)
    small = CompactionSettings(file_bytes_wanted=1, unit_file_bytes_wanted=100)
    assert (small.file_bytes, small.unit_file_bytes) == (460, 92)


def test_what_is_wrong_with_copies_is_said(tmp_path: Path) -> None:
    """A record that is another, and a file without its counterpart; a whole one has none."""
    folders = Folders(tmp_path / COMPACTION_LOG / "T/0", tmp_path / COMPACTION_QUEUE / "T/0")
    settings = CompactionSettings(file_bytes_wanted=2300, unit_file_bytes_wanted=460)
    queue = CopiedQueue(Files(), folders, settings, tmp_path / "aside")
    queue.load(0, 30)
    copies = [
        Copy(offset, 5, 1000 + offset, encode_record(Record(
            topic="T", queue_offset=offset, body=b"body", properties=b"KEYS\x01k\x02")))
        for offset in range(30)
    ]  # fmt: skip
    queue.append(copies, 30)
    log = LogSnapshot(tmp_path / "commitlog", 0, 0, 1 << 20)
    assert list(problems_of_copies(Files(), small(tmp_path), log)) == []
    first, second, *_ = sorted(folders.records.iterdir())
    units = folders.units / first.name
    assert next(dump(units)).startswith("         0  offset 0 at 0, 103 bytes, stored 1970")
    assert "T-0 offset 0 " in next(dump(first))
    data = bytearray(first.read_bytes())
    data[88] ^= 1
    first.write_bytes(data)
    second.unlink()
    found = list(problems_of_copies(Files(), small(tmp_path), log))
    assert found == [
        f"{first}: no sound record of offset 0 at 0",
        f"{second}: missing, its other file is there",
    ]
