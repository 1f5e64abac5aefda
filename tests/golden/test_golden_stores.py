"""Stores that RocketMQ 5.5.0 wrote: our record codec and our store read them to the last byte."""

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from support.disks.logs import opened, small
from support.golden.stores import load_store

from aerobee.remoting import fastjson
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.message.compression import decompress
from aerobee.remoting.message.layout import BLANK_MAGIC
from aerobee.remoting.message.record import (
    BLANK,
    Record,
    decode_record,
    encode_record,
    iter_records,
)
from aerobee.storage.store import MessageStore

STORES: Final = Path(__file__).parent / "stores"
BODY_BYTES_MAX: Final = 1024 * 1024

each_store = pytest.mark.parametrize("end", ["stopped", "killed"])


@pytest.fixture
def manifest(end: str, tmp_path: Path) -> dict[str, Any]:
    """The recorded store, unpacked into `tmp_path`."""
    return load_store(STORES / end, tmp_path)


@each_store
def test_every_byte_of_the_log_is_understood(
    end: str, manifest: dict[str, Any], tmp_path: Path
) -> None:
    """Records follow each other, encode to their own bytes, and end in a blank or in zeros."""
    count, hosts = 0, set()
    for file in sorted((tmp_path / "commitlog").iterdir()):
        data, at = file.read_bytes(), 0
        while int.from_bytes(data[at : at + 4]) and not is_blank(data, at):
            record = decode_record(data, at)
            assert record.position == int(file.name) + at
            size = int.from_bytes(data[at : at + 4])
            assert encode_record(record) == data[at : at + size]
            count += 1
            hosts.add(record.sys_flag & SysFlag.BORN_HOST_V6)
            at += size
        if is_blank(data, at):
            assert BLANK.unpack_from(data, at)[0] == len(data) - at
        else:
            assert not any(data[at:])
    assert hosts == {0, SysFlag.BORN_HOST_V6}, "both kinds of hosts are in the log"
    assert count == sum(len(queue["bodies"]) for queue in manifest["messages"])


def is_blank(data: bytes, at: int) -> bool:
    """Whether the rest of the file is declared empty at `at`."""
    return at + BLANK.size <= len(data) and BLANK.unpack_from(data, at)[1] == BLANK_MAGIC


@each_store
def test_our_store_reads_every_message(end: str, manifest: dict[str, Any], tmp_path: Path) -> None:
    """Each queue has the bodies that were acknowledged, in order, whatever their compression."""
    settings = small(tmp_path, segment_bytes=manifest["segment_bytes"], queue_file_entries=300_000)
    store = opened(settings)
    try:
        for queue in manifest["messages"]:
            records = list(read(store, queue["topic"], queue["queue"]))
            assert [record.queue_offset for record in records] == list(range(len(records)))
            bodies = [
                decompress(record.body, record.sys_flag, bytes_max=BODY_BYTES_MAX)
                for record in records
            ]
            assert bodies == [base64.b64decode(body) for body in queue["bodies"]]
    finally:
        store.close()
    command = [sys.executable, "-m", "aerobee.storage.verify", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def read(store: MessageStore, topic: str, queue_id: int) -> Iterator[Record]:
    """Read a queue from its first to its last message."""
    queue = store.find_queue(topic, queue_id)
    assert queue is not None
    offset = 0
    while offset < queue.max_offset:
        result = store.read(queue, offset, 32, BODY_BYTES_MAX)
        assert result.next_offset > offset, result
        offset = result.next_offset
        for part in result.parts:
            yield from iter_records(bytes(part))


def test_committed_offsets_are_read(tmp_path: Path) -> None:
    """The offset table, with its unquoted keys, has what the Java consumer committed."""
    manifest = load_store(STORES / "stopped", tmp_path)
    table = fastjson.loads((tmp_path / "config" / "consumerOffset.json").read_bytes())
    for group, offsets in manifest["committed"].items():
        assert {str(queue): offset for queue, offset in table["offsetTable"][group].items()} == (
            offsets
        )
