"""Settings and layout: defaults are RocketMQ's, nonsense is refused, paths are its paths."""

from pathlib import Path
from typing import Any

import pytest
from support.disks.logs import opened, send, small

from aerobee.storage.layout import file_name, file_spans, is_file_name, log_files, queue_paths
from aerobee.storage.settings import DELAY_LEVELS_MS, GIB, StoreSettings


def test_defaults_are_rocketmqs() -> None:
    """File sizes, limits and the 18 delay levels."""
    settings = StoreSettings(Path("/store"))
    assert settings.log_dir == Path("/store/commitlog")
    assert (settings.segment_bytes, settings.queue_file_entries) == (GIB, 300_000)
    assert (settings.transfer_count_memory, settings.transfer_bytes_memory) == (32, 262_144)
    assert not settings.sync_flush
    assert len(DELAY_LEVELS_MS) == 18
    assert DELAY_LEVELS_MS[:5] == (1000, 5000, 10_000, 30_000, 60_000)
    assert DELAY_LEVELS_MS[12:] == (540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000)


@pytest.mark.parametrize(
    "change",
    [{"flush_mode": "SOMETIMES"}, {"segment_bytes": 100}, {"queue_file_entries": 0},
     {"disk_ratio_max": 0}, {"memory_ratio": 1.5}, {"flush_interval_ms": 0}],
)  # fmt: skip
def test_nonsense_is_refused_with_its_name(change: dict[str, Any]) -> None:
    """The error names setting, value and what is allowed."""
    (name, value), *_ = change.items()
    with pytest.raises(ValueError, match=f"{name} is {value!r}, allowed"):
        StoreSettings(Path("/store"), **change)


def test_files_are_found_without_a_store(tmp_path: Path) -> None:
    """Other readers list logs and queues by these helpers; strangers' files are passed over."""
    assert file_name(1 << 30) == "00000000001073741824"
    assert is_file_name("00000000001073741824")
    assert not is_file_name("0000000000107374182x") and not is_file_name("123")
    assert file_spans(tmp_path / "none") == []
    assert list(queue_paths(tmp_path)) == []
    store = opened(small(tmp_path))
    for topic, queue_id in (("b", 10), ("b", 2), ("a", 0)):
        send(store, topic, queue_id, body=bytes(9000))
        store.poll()
    store.close()
    (tmp_path / "commitlog" / "notes.txt").touch()
    (tmp_path / "consumequeue" / "a" / "strange").mkdir()
    assert [(span.begin, span.size) for span in log_files(tmp_path)][:2] == [
        (0, 16384), (16384, 16384),
    ]  # fmt: skip
    found = [(queue.topic, queue.queue_id) for queue in queue_paths(tmp_path)]
    assert found == [("a", 0), ("b", 2), ("b", 10)]
