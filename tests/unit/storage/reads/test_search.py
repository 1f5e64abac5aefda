"""Records by their position: only what proves itself is handed out, whatever a sender stored."""

from pathlib import Path
from typing import Final

import pytest
from support.disks.logs import NOW_MS, append, opened, send, small

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import MAGIC_V1
from aerobee.remoting.message.record import HEAD, MIDDLES, Record, encode_record
from aerobee.storage.store import MessageStore

BODY_AT: Final = 88  # of a record with IPv4 hosts
BIG: Final = {"segment_bytes": 1 << 20, "window_bytes": 1 << 20, "first_window_bytes": 1 << 20}


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """A store of one log file of 1 MiB."""
    return opened(small(tmp_path, **BIG))


def with_secrets(store: MessageStore, forged: bytes) -> int:
    """Store a body that holds forged bytes, and others' messages behind it; return their place."""
    position = send(store, "mine", body=forged + bytes(60))
    for _ in range(400):
        append(store, "others", body=b"secret" * 200)
    store.commit_log.commit()
    return position + BODY_AT


def forged_record(position: int, **changes: int | str | bytes) -> bytes:
    """Return a whole record that claims to lie at a position: sizes, checksum and all are sound."""
    values = {"topic": "others", "queue_offset": 0, "body": b"forged"} | changes
    return encode_record(Record(position=position, **values))  # type: ignore[arg-type]


def test_a_forged_size_copies_nothing_of_others(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header inside a body says 500,000 bytes: no record starts there, and little is read."""
    at = store.commit_log.position + BODY_AT
    with_secrets(store, HEAD.pack(500_000, MAGIC_V1, 0, 0, 0, 0, at, 0, NOW_MS) + bytes(60))
    read, counts = store.commit_log.read, []

    def counted(position: int, count: int) -> bytes:
        data = read(position, count)
        counts.append(len(data))
        return data

    monkeypatch.setattr(store._lookup, "read", counted)
    assert store.record_at(at) is None
    assert sum(counts) < 1024


@pytest.mark.parametrize("offset", [0, 1, 399, 400, -1, 2**62])
def test_a_forged_record_is_none_however_sound_it_looks(store: MessageStore, offset: int) -> None:
    """Its own queue knows nothing of it: the entry of that offset names another place."""
    at = store.commit_log.position + BODY_AT
    with_secrets(store, forged_record(at, queue_offset=offset))
    assert store.record_at(at) is None


def test_forged_properties_reach_into_no_other_record(store: MessageStore) -> None:
    """No checksum covers properties: a length of theirs would show 30 KB of what follows."""
    at = store.commit_log.position + BODY_AT
    whole = forged_record(at)
    size = len(whole) + 30_000
    reaching = (
        HEAD.pack(size, *HEAD.unpack_from(whole)[1:]) + whole[HEAD.size : -2]
        + (30_000).to_bytes(2, "big")
    )  # fmt: skip
    with_secrets(store, reaching)
    assert store.record_at(at) is None


@pytest.mark.parametrize("bits", [0, 16, 32, 48])
def test_records_with_any_hosts_prove_themselves(store: MessageStore, bits: int) -> None:
    """What was appended is handed out as it lies there, whole."""
    middle = MIDDLES[bits]
    hosts = middle.pack(b"", NOW_MS, b"", 0, 0, 0)[:-4]
    queue = store.queue("t" * 200, 3)
    body = b"body" * 1000
    position = store.commit_log.append(queue, 0, bits, NOW_MS, hosts, body, b"A\x01b\x02", 0)
    store.commit_log.commit()
    record = store.record_at(position)
    assert record is not None and len(record) == queue.entry(0)[1] and body in record


def test_a_damaged_record_says_so(store: MessageStore, tmp_path: Path) -> None:
    """A flipped bit in a body is neither handed out nor called a place without a record."""
    position = send(store, body=b"x" * 500)
    (segment,) = store.segments.items
    segment.write(position + BODY_AT + 100, b"y")
    with pytest.raises(CorruptRecord, match=f"position {position}: wrong body crc"):
        store.record_at(position)
    segment.write(position + BODY_AT + 100, b"x")
    assert store.record_at(position) is not None


def test_what_was_deleted_with_its_topic_proves_nothing(store: MessageStore) -> None:
    """Its queue is gone, and so is the only proof that nobody could forge."""
    position = send(store, "gone")
    assert store.record_at(position) is not None
    store.delete_topic("gone")
    assert store.record_at(position) is None
