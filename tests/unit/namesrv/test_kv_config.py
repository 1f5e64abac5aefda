"""The key-value table and its file."""

import asyncio
import json
from pathlib import Path

import pytest

from aerobee.namesrv.kv_config import KvConfig
from aerobee.remoting.config.kept_files import KeptFileDamaged
from aerobee.remoting.errors import RequestError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file goes, in a folder that is not there yet."""
    return tmp_path / "namesrv" / "kvConfig.json"


def loaded(path: Path, bytes_max: int = 1 << 20) -> KvConfig:
    """A table read from the file."""
    kv = KvConfig(path, bytes_max)
    kv.load()
    return kv


def stored(path: Path) -> str:
    """Read the file."""
    return path.read_text()


def damage(path: Path, content: bytes) -> None:
    """Overwrite the file."""
    path.write_bytes(content)


async def test_values_survive_a_restart(path: Path) -> None:
    """Each change is in the file when it is answered, in RocketMQ's shape."""
    kv = loaded(path)
    await kv.put("ns", "k", "v")
    await kv.put("ns", "ü", "weiß")
    await kv.put("other", "k", "w")
    await kv.delete("ns", "k")
    assert json.loads(stored(path)) == {"configTable": {"ns": {"ü": "weiß"}, "other": {"k": "w"}}}
    again = loaded(path)
    assert again.table == kv.table
    assert again.get("ns", "ü") == "weiß"
    assert json.loads(again.namespace("other") or b"") == {"table": {"k": "w"}}
    assert again.namespace("none") is None


def test_rocketmqs_own_file_is_read(path: Path) -> None:
    """As KVConfigManager writes it."""
    path.parent.mkdir()
    path.write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"t":"broker-a:4"}}}')
    assert loaded(path).get("ORDER_TOPIC_CONFIG", "t") == "broker-a:4"


async def test_many_changes_at_once_are_all_kept(path: Path) -> None:
    """Changes that share a writing are in the file all the same."""
    kv = loaded(path)
    await asyncio.gather(*(kv.put("ns", f"k{n}", str(n)) for n in range(100)))
    assert len(loaded(path).table["ns"]) == 100


@pytest.mark.parametrize("content", [b"", b"{", b"\0\0\0", b'{"configTable":7}', b"[" * 100_000])
async def test_a_damaged_file_falls_back_to_its_backup(path: Path, content: bytes) -> None:
    """The version before the last is read; the file is not lost silently."""
    kv = loaded(path)
    await kv.put("ns", "k", "1")
    await kv.put("ns", "k", "2")
    damage(path, content)
    assert loaded(path).get("ns", "k") == "1"
    damage(path, b"{")
    damage(path.with_name("kvConfig.json.bak"), b"{")
    with pytest.raises(KeptFileDamaged, match=r"kvConfig\.json.*remove both"):
        loaded(path)


async def test_a_disk_that_cannot_be_written_is_told(path: Path) -> None:
    """The answer names the file; the next change tries again."""
    kv = loaded(path)
    path.parent.write_text("in the way")
    with pytest.raises(RequestError, match=r"kvConfig\.json cannot be written"):
        await kv.put("ns", "k", "1")
    path.parent.unlink()
    await kv.put("ns", "other", "2")
    assert loaded(path).table == {"ns": {"k": "1", "other": "2"}}


async def test_the_table_is_limited(path: Path) -> None:
    """What would not fit is refused; what is deleted or replaced makes room."""
    kv = KvConfig(path, 100)
    await kv.put("ns", "k", "x" * 80)
    with pytest.raises(RequestError, match="kvBytesMax"):
        await kv.put("ns", "l", "x" * 80)
    await kv.put("ns", "k", "y" * 90)
    await kv.delete("ns", "k")
    await kv.delete("ns", "k")
    await kv.put("ns", "l", "x" * 95)
    assert kv.get("ns", "k") is None


async def test_empty_namespaces_are_limited_too(path: Path) -> None:
    """They answer as RocketMQ's do; an older file's count as well."""
    kv = loaded(path, bytes_max=100)
    with pytest.raises(RequestError, match="kvBytesMax"):
        for number in range(10, 60):
            await kv.put(f"ns{number}", "k", "v")
            await kv.delete(f"ns{number}", "k")
    namespaces = list(kv.table)
    assert 10 < len(namespaces) < 25
    assert kv.namespace("ns10") == b'{"table":{}}'
    again = loaded(path, bytes_max=100)
    assert list(again.table) == namespaces
    with pytest.raises(RequestError, match="kvBytesMax"):
        await again.put("more", "k", "v" * 20)
    await again.put(namespaces[0], "k", "v")
