"""Manifests: text and values agree, damage is refused, and of two runs one makes a version."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from aerobee.spark.errors import ExportFailed, ExportRefused
from aerobee.spark.lake.manifest import ExportedFile, Gap, Manifest
from aerobee.spark.lake.manifest_log import ManifestLog
from aerobee.spark.offsets import BrokerQueue, QueueRange

KEY = BrokerQueue("broker-a", "%RETRY%billing", 3)
FILE = ExportedFile("topic=a/date=2026-11-21/p", "0/1.parquet", "a", "2026-11-21", 5, 9, 1, 2)


def manifest(version: int = 1, **more: Any) -> Manifest:
    """A version with something of everything."""
    values: dict[str, Any] = {
        "run": f"run{version}",
        "made": "2026-11-21T12:00:00+00:00",
        "format": "parquet",
        "stores": {"broker-a": "/data/1"},
        "offsets": {KEY: 23},
        "positions": {KEY: 4711},
        "stamps": {KEY: 1_760_000_000_000},
        "files": (FILE,),
        "gaps": (Gap(QueueRange(KEY, 3, 9), "gone"),),
        "unnumbered": ("old",),
    }
    return Manifest(version=version, **(values | more))


def commit(root: Path, wanted: Manifest) -> bool:
    """Prepare a version and try to commit it."""
    log = ManifestLog(root)
    staged = log.folder / wanted.run / f"manifest-{wanted.version:010d}.json"
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(wanted.encode())
    return log.commit(staged)


def test_manifest_survives_its_text() -> None:
    """Every value comes back, names with percent signs and colons too."""
    assert Manifest.decode(manifest().encode(), "m") == manifest()
    of_log = manifest(gaps=(Gap.of_log("broker-a", 7, 99, "damaged"),))
    assert Manifest.decode(of_log.encode(), "m") == of_log


def test_manifests_of_early_versions_have_no_stamps() -> None:
    """Nobody knows then of when their last messages are."""
    values = json.loads(manifest().encode())
    del values["stamps"], values["crc32"]
    assert Manifest.decode(json.dumps(values).encode(), "m") == manifest(stamps={})


@pytest.mark.parametrize(
    "more",
    [
        {"offsets": {BrokerQueue("a", "t", 10**11): 1}},
        {"offsets": {BrokerQueue("a", "t", 1): -5}},
        {"files": (ExportedFile("../x", "0/1", "a", "2026-11-21", 5, 9, 1, 2),)},
        {"files": (ExportedFile("x" * 300, "0/1", "a", "2026-11-21", 5, 9, 1, 2),)},
    ],
)
def test_manifest_that_would_not_come_back_is_not_written(more: dict[str, Any]) -> None:
    """The export fails while it can still fail for nothing."""
    with pytest.raises(ExportFailed, match="cannot be read back, so nothing is exported"):
        manifest(**more).encode()


def test_gaps_say_what_is_known() -> None:
    """Offsets of a queue, places of a log, or from where on a queue is another one."""
    queue = BrokerQueue("b", "t", 0)
    for gap, text, lost in (
        (Gap(QueueRange(queue, 3, 9), "gone"), "t b:0 [3, 9): gone", True),
        (Gap(QueueRange(queue, 3, 3), "made anew"), "t b:0 from 3 on: made anew", False),
        (Gap.of_log("b", 10, 99, "bad"), "log positions [10, 99) of b: bad", True),
    ):
        assert (str(gap), gap.lost) == (text, lost)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"aerobee_export": 9}, "later version of this program"),
        ({"offsets": {"t": {"b:0": "x"}}}, "is damaged"),
        ({"files": [{"path": "x"}]}, "is damaged"),
        ({"stores": []}, "is damaged"),
        ({"files": [{**json.loads(manifest().encode())["files"][0], "path": "../x"}]}, "outside"),
        ({"files": [{**json.loads(manifest().encode())["files"][0], "staged": "/x"}]}, "outside"),
        ({"run": "../x"}, "not ours"),
    ],
)
def test_damaged_or_hostile_manifest_is_refused(change: dict[str, Any], message: str) -> None:
    """Its paths decide what is moved and deleted."""
    values = {**json.loads(manifest().encode()), **change}
    del values["crc32"]
    with pytest.raises(ExportRefused, match=message):
        Manifest.decode(json.dumps(values).encode(), "m")


def test_flipped_bit_is_damage() -> None:
    """One in a queue's offset or name would export messages twice, or never."""
    text = manifest().encode()
    for at in range(len(text)):
        for bit in range(8):
            flipped = bytearray(text)
            flipped[at] ^= 1 << bit
            try:
                assert Manifest.decode(bytes(flipped), "m") == manifest(), flipped
            except ExportRefused:
                continue
            assert not text[at : at + 1].strip(), "only a blank may become another one"


def test_manifest_that_is_written_anew_is_the_same() -> None:
    """By whoever restores it from a backup, with other blanks and in another order."""
    values = json.loads(manifest().encode())
    text = json.dumps(dict(reversed(values.items()))).encode()
    assert Manifest.decode(text, "m") == manifest()


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_what_is_no_manifest_is_refused(text: bytes) -> None:
    """With its name, and without a traceback."""
    with pytest.raises(ExportRefused, match=r"manifest-7 is damaged"):
        Manifest.decode(text, "manifest-7")


def test_one_of_two_runs_makes_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is told so; the same run again is told that it did."""
    log = ManifestLog(tmp_path)
    assert log.last() is None
    assert commit(tmp_path, manifest(1))
    assert not commit(tmp_path, manifest(1, run="rival"))
    assert commit(tmp_path, manifest(1)), "an answer that got lost on the way from a server"
    assert log.last() == manifest(1)
    assert commit(tmp_path, manifest(2))
    with monkeypatch.context() as patched:
        patched.setattr(ManifestLog, "versions", lambda self: [1])
        assert log.last() == manifest(2), "a listing that a file server gives may be an old one"


def test_files_count_from_the_last_version_that_replaced_all(tmp_path: Path) -> None:
    """In the order in which they were added."""
    for version in (1, 2, 3, 4):
        files = tuple(
            ExportedFile(f"t/{version}-{name}", "0/1", "t", "d", 1, 1, 1, 1) for name in "ab"
        )
        assert commit(tmp_path, manifest(version, files=files, replaces=version == 3))
    log = ManifestLog(tmp_path)
    assert [file.path for file in log.files(4)] == ["t/3-a", "t/3-b", "t/4-a", "t/4-b"]
    assert [file.path for file in log.files(2)] == ["t/1-a", "t/1-b", "t/2-a", "t/2-b"]
    (log.folder / "manifest-0000000003.json").unlink()
    with pytest.raises(ExportRefused, match=r"0000000003\.json is missing"):
        log.files(4)


def test_a_last_version_that_is_missing_is_told(tmp_path: Path) -> None:
    """What it has would be exported again; who put an earlier export back can say so."""
    assert commit(tmp_path, manifest(1)) and commit(tmp_path, manifest(2))
    log = ManifestLog(tmp_path)
    lost = (log.folder / "manifest-0000000002.json").rename(tmp_path / "aside")
    with pytest.raises(
        ExportRefused, match=r"manifest-0000000002\.json is missing.*remove .*/last"
    ):
        log.last()
    (log.folder / "manifest-0000000001.json").unlink()
    with pytest.raises(ExportRefused, match=r"manifest-0000000002\.json is missing"):
        log.last()
    assert commit(tmp_path, manifest(1))
    lost.rename(log.folder / "manifest-0000000002.json")
    assert log.last() == manifest(2), "a run that comes late does not take the number back"
    for torn in (b"", b"x\n", b"\xff"):
        (log.folder / "last").write_bytes(torn)
        assert log.last() == manifest(2)


def test_commit_says_what_keeps_it_from_being_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was taken for dead; a file system without links."""
    assert commit(tmp_path, manifest(1))
    log = ManifestLog(tmp_path)
    with pytest.raises(ExportFailed, match="took this one for dead"):
        log.commit(log.folder / "gone" / "manifest-0000000002.json")

    def link(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(ExportFailed, match="no hard links"):
        commit(tmp_path, manifest(2))
