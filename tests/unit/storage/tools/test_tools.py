"""Dump and verify: what they print, what they find, how they exit."""

import errno
import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.disks.logs import append, opened, send, small
from support.disks.stores import Stored, StoreWriter, properties

from aerobee.storage import dump, repair, verify
from aerobee.storage.tools.guessing import store_settings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A clean store of 60 messages in two topics."""
    store = opened(small(tmp_path))
    for number in range(60):
        append(store, "orders" if number % 2 else "bills", body=b"%d" % number + bytes(400),
               tags=f"t{number % 3}")  # fmt: skip
        store.commit_log.commit()
        store.poll()
    store.close()
    return tmp_path


def log_path(root: Path) -> Path:
    """The first log file."""
    return root / "commitlog" / f"{0:020d}"


def queue_path(root: Path) -> Path:
    """The queue file of topic orders."""
    return root / "consumequeue" / "orders" / "0" / f"{0:020d}"


def edit(path: Path, at: int, data: bytes) -> None:
    """Overwrite a few bytes."""
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)


def problems(root: Path) -> list[str]:
    """What the verifier says."""
    report = verify.verify(store_settings(root))
    assert (report.problem_count > 0) == bool(report.problems)
    return report.problems


def test_a_clean_store_is_clean(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and one line of figures."""
    assert verify.main([str(root)]) == 0
    out = capsys.readouterr().out
    assert "60 records" in out and "2 queues, 60 entries; 0 problems" in out


def test_a_store_of_java_is_clean(tmp_path: Path) -> None:
    """With spare files, long topics, IPv6 and delayed messages."""
    writer = StoreWriter(tmp_path, 1 << 16)
    for number in range(300):
        writer.append(
            Stored(
                topic=("orders", "x" * 200)[number % 2], queue_id=number % 3,
                body=bytes(number * 3), properties=properties({"TAGS": f"t{number % 4}"}),
                born_host=("::1", 5) if number % 5 else ("1.2.3.4", 5),
                store_host=("::1", 5) if number % 3 else ("1.2.3.4", 5),
            )
        )  # fmt: skip
    writer.close(spare_segments=1)
    report = verify.verify(store_settings(tmp_path))
    assert report.problems == []
    assert (report.records, report.entries, report.end) == (300, 300, writer.position)


@pytest.mark.parametrize(
    ("at", "data", "says"),
    [
        (100, b"\xff", "wrong body crc"),
        (4, b"\1\2\3\4", "magic"),
        (28, b"\1", "a record of position"),
        (0, b"\0\0\0\5", "record size 5"),
    ],
)
def test_a_damaged_record_is_found(root: Path, at: int, data: bytes, says: str) -> None:
    """File, place and reason are named, and the entries that lost their records."""
    edit(log_path(root), at, data)
    found = problems(root)
    assert any(says in problem and str(log_path(root)) in problem for problem in found)
    assert any("bills-0 offset 0 to 0 lost" in problem for problem in found)


@pytest.mark.parametrize(
    ("at", "data", "says"),
    [
        (40, struct.pack(">q", 3), "no queue entry"),
        (40, struct.pack(">q", 2528), "at 2528"),
        (48, struct.pack(">i", 77), "77 bytes"),
        (52, struct.pack(">q", 123), "tags code 123"),
        (40, bytes(20), "no queue entry"),
        (600, struct.pack(">qiq", 1 << 40, 99, 0), "the log has"),
    ],
)
def test_a_damaged_entry_is_found(root: Path, at: int, data: bytes, says: str) -> None:
    """Whatever is wrong with an entry is said with topic, queue and offset."""
    edit(queue_path(root), at, data)
    found = problems(root)
    assert any(says in problem and problem.startswith("orders-0 offset") for problem in found), (
        found
    )


def sent(root: Path, steps: list[tuple[str, int, int]]) -> None:
    """Do (topic, queue number, messages) in turn in a store; no messages: the topic is deleted."""
    store = opened(small(root))
    for topic, queue_id, count in steps:
        if not count:
            assert store.delete_topic(topic)
        for number in range(count):
            send(store, topic, queue_id, body=b"%d" % number)
            store.poll()
    store.close()


@pytest.mark.parametrize(
    ("steps", "deleted"),
    [
        ([("orders", 0, 5), ("orders", 0, 0)], 5),
        ([("bills", 0, 3), ("orders", 0, 5), ("bills", 0, 2), ("orders", 0, 0)], 5),
        ([("orders", 0, 5), ("bills", 0, 2), ("orders", 0, 0), ("orders", 0, 2)], 5),
        ([("orders", 0, 5), ("orders", 0, 0), ("orders", 0, 9)], 5),
        ([("orders", 0, 5), ("orders", 1, 2), ("orders", 0, 0), ("orders", 0, 2)], 7),
        ([("orders", 0, 3), ("orders", 0, 0), ("orders", 0, 2), ("orders", 0, 0),
          ("orders", 0, 1)], 5),
    ],
)  # fmt: skip
def test_records_of_a_deleted_topic_are_no_problem(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    steps: list[tuple[str, int, int]],
    deleted: int,
) -> None:
    """Gone for good, or made again with fewer or more messages: a note, and exit code 0."""
    sent(tmp_path, steps)
    assert verify.main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"{deleted} records of deleted topics" in out
    assert "0 problems" in out


@pytest.mark.parametrize("entry", [0, 1, 3, 4])
def test_lost_entries_are_found_beside_deleted_topics(tmp_path: Path, entry: int) -> None:
    """An entry that is gone from a queue is a problem, also in a topic's second life."""
    sent(tmp_path, [("orders", 0, 5), ("bills", 0, 2), ("orders", 0, 0), ("orders", 0, 5)])
    edit(queue_path(tmp_path), entry * 20, bytes(20))
    assert any(problem.startswith("orders-0 offset") for problem in problems(tmp_path))


def test_a_lost_queue_is_found_where_its_topic_has_others(tmp_path: Path) -> None:
    """The others tell that the topic was there all the time; so does a store with no queues."""
    sent(tmp_path, [("orders", 1, 2), ("orders", 0, 5), ("orders", 1, 2)])
    shutil.rmtree(tmp_path / "consumequeue" / "orders" / "0")
    assert len(problems(tmp_path)) == 5
    shutil.rmtree(tmp_path / "consumequeue")
    assert len(problems(tmp_path)) == 9


def test_a_log_file_too_small_for_a_store_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message and exit code 2, which says that it cannot be read."""
    logs = tmp_path / "commitlog"
    logs.mkdir()
    (logs / f"{0:020d}").write_bytes(bytes(1000))
    assert verify.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert f"{logs / f'{0:020d}'} has 1000 bytes, a log file has 4096 or more" in error


@pytest.mark.parametrize("name", ["aerobee.progress", "aerobee.delayed"])
def test_a_damaged_note_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """File, colon, what is wrong."""
    (tmp_path / name).write_bytes(b"nonsense")
    assert dump.main([str(tmp_path / name)]) == 1
    assert capsys.readouterr().err.count(str(tmp_path / name)) == 1


def test_bytes_behind_the_end_are_found(root: Path) -> None:
    """What follows the last record has to be zeros."""
    last = max((root / "commitlog").iterdir())
    edit(last, 16_000, b"junk")
    assert any("bytes behind the last record" in problem for problem in problems(root))


def test_what_is_no_store_cannot_be_verified(tmp_path: Path) -> None:
    """Exit code 2, and 1 for problems."""
    assert verify.main([str(tmp_path / "none")]) == 2
    logs = tmp_path / "commitlog"
    logs.mkdir()
    (logs / f"{0:020d}").write_bytes(bytes(8192))
    (logs / f"{8192:020d}").write_bytes(bytes(8191))
    assert verify.main([str(tmp_path)]) == 1
    (logs / f"{8192:020d}").write_bytes(bytes(8193))
    assert verify.main([str(tmp_path)]) == 1
    (logs / f"{8192:020d}").rename(logs / f"{4000:020d}")
    assert verify.main([str(tmp_path)]) == 2
    (logs / f"{4000:020d}").unlink()
    assert verify.main([str(tmp_path)]) == 0
    edit(logs / f"{0:020d}", 8, b"x")
    assert verify.main([str(tmp_path)]) == 1


def test_dump_prints_records_and_entries(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each, and how the file ends."""
    assert dump.main([str(log_path(root))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "bills-0 offset 0" in lines[0] and "[TAGS=t0]" in lines[0]
    assert "body 401 b'0" in lines[0] and lines[0].endswith("...")
    assert "blank," in lines[-1]
    assert dump.main([str(queue_path(root))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 31
    assert lines[0].split()[:3] == ["0", "position", "505"]
    assert "the entries end here" in lines[-1]


def test_dump_prints_every_other_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checkpoints, notes, lock and configuration."""
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text('{"a": 1}')
    (root / "config" / "offsets.json").write_text("{0:1}")
    names = ("checkpoint", "aerobee.progress", "aerobee.written", "lock")
    paths = [str(root / name) for name in names]
    paths += [str(root / "config" / name) for name in ("topics.json", "offsets.json")]
    assert dump.main(paths) == 0
    out = capsys.readouterr().out
    for text in ("log until", "orders-0 max offset 30", "in this boot", "lock", '"a": 1', "{0:1}"):
        assert text in out


def test_dump_names_damage_and_strangers(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 for damage, 2 for what is no file of a store."""
    edit(log_path(root), 4, b"\1\2\3\4")
    assert dump.main([str(log_path(root))]) == 1
    assert "magic 0x01020304" in capsys.readouterr().err
    (root / "aerobee.progress").write_bytes(b"nonsense")
    assert dump.main([str(root / "aerobee.progress")]) == 1
    assert dump.main([str(root / "missing.txt"), str(root / "checkpoint")]) == 2
    assert dump.main([str(root / "checkpoint" / "x.json")]) == 2
    (root / "aerobee.written").write_bytes(bytes(4096))
    assert dump.main([str(root / "aerobee.written")]) == 0
    assert "proves nothing" in capsys.readouterr().out


def test_dump_of_large_records_and_hostile_bytes(tmp_path: Path) -> None:
    """Records larger than a chunk are read whole; random bytes end in a clear error."""
    store = opened(small(tmp_path, segment_bytes=32 << 20, message_bytes_max=20 << 20,
                         window_bytes=24 << 20, first_window_bytes=24 << 20))  # fmt: skip
    send(store, body=bytes(12 << 20))
    send(store, body=b"small")
    store.close()
    lines = list(dump.dump(log_path(tmp_path)))
    assert [line.split()[1:3] for line in lines[:2]] == [
        [str((12 << 20) + 97), "bytes"], ["102", "bytes"],
    ]  # fmt: skip
    chance = random.Random(3)
    for _ in range(50):
        log_path(tmp_path).write_bytes(chance.randbytes(300))
        assert dump.main([str(log_path(tmp_path))]) in (0, 1)


@pytest.mark.parametrize("module", ["dump", "verify"])
def test_both_run_as_modules(root: Path, module: str) -> None:
    """`python -m aerobee.storage.dump` and `verify`, with help."""
    for arguments in (["--help"], [str(root / "checkpoint" if module == "dump" else root)]):
        done = subprocess.run(
            [sys.executable, "-m", f"aerobee.storage.{module}", *arguments],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout


@pytest.mark.parametrize("tool", [verify, repair])
def test_a_folder_that_may_not_be_read_is_one_clear_line(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tool: ModuleType,
) -> None:
    """Another user's store says so, whose it is not, and what to do."""

    def refused(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refused)
    assert tool.main([str(root)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{root / 'commitlog'}: Permission denied for user ")
    assert told.count("\n") == 1
