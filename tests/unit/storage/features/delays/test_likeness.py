"""A mark of a delivery counts on a record that is like the message it names: anybody may forge one.

RocketMQ stores what its clients send, this mark too, and leaves no trace of having had the store.
"""

from pathlib import Path

import pytest
from support.disks.logs import NOW_MS, bodies, hosts, send
from support.features.delays import BORN, LEVELS_MS, Delays

from aerobee.storage.features.delays import progress
from aerobee.storage.features.delays.notes import LATEST_AT, Note, decode_note
from aerobee.storage.store import MessageStore


def forge(
    delays: Delays, offset: int, body: bytes, *, key: str | None = None, topic: str = "T",
    born_ms: int = NOW_MS - 5, born: tuple[str, int] = BORN,
) -> None:  # fmt: skip
    """Store what claims to be the delivery of a message of level 2."""
    texts = {
        "UNIQ_KEY": body.decode() if key is None else key, "DELAY": "2", "REAL_TOPIC": topic,
        "REAL_QID": "0", "AEROBEE_DELAYED": f"2-{offset}",
    }  # fmt: skip
    properties = "".join(f"{name}\x01{value}\x02" for name, value in texts.items()).encode()
    stamp, log = hosts(NOW_MS + 1, born), delays.store.commit_log
    log.append(delays.store.queue(topic, 0), 0, 0, born_ms, stamp, body, properties, 0)
    log.commit()


def note_of(root: Path) -> Note:
    """Return the latest note."""
    note = decode_note((root / "aerobee.delayed").read_bytes(), LATEST_AT)
    assert note is not None
    return note


@pytest.mark.parametrize("other", ["body", "key", "topic", "born_ms", "born"])
async def test_a_forged_delivery_keeps_nothing_back(tmp_path: Path, other: str) -> None:
    """Neither what it names nor what waits before that, whatever of the message it has."""
    delays = Delays(tmp_path)
    for body in (b"a", b"b"):
        delays.delay(body, level=2)
    forge(
        delays, 1, b"B" if other == "body" else b"b", key="B" if other == "key" else "b",
        topic="U" if other == "topic" else "T",
        born_ms=NOW_MS - 6 if other == "born_ms" else NOW_MS - 5,
        born=(BORN[0], BORN[1] + 1) if other == "born" else BORN,
    )  # fmt: skip
    delays.die()
    delays.begin()
    delays.clock.advance(LEVELS_MS[1])
    assert bodies(delays.store, "T")[-2:] == [b"a", b"b"]
    delays.store.close()


async def test_a_delivery_speaks_for_its_own_message_alone(tmp_path: Path) -> None:
    """Its producer has sent the like of what waits: that is there, and all before it comes."""
    delays = Delays(tmp_path)
    for body in (b"a", b"mine", b"b"):
        delays.delay(body, level=2)
    forge(delays, 1, b"mine")
    for _ in range(2):
        delays.die()
        delays.begin()
    delays.clock.advance(LEVELS_MS[1])
    assert bodies(delays.store, "T") == [b"mine", b"a", b"b"]
    delays.die()
    delays.begin()
    delays.clock.advance(LEVELS_MS[1])
    assert bodies(delays.store, "T") == [b"mine", b"a", b"b"]
    delays.store.close()


async def test_what_was_delivered_out_of_turn_makes_no_start_slow_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes stay where they were until it is passed over; but not while a GiB of log comes."""
    monkeypatch.setattr(progress, "DONE_LOG_BYTES_MAX", 5_000)
    delays = Delays(tmp_path)
    for body in (b"a", b"mine"):
        delays.delay(body, level=2)
    forge(delays, 1, b"mine")
    delays.die()
    delays.begin()
    delays.delay(b"quick")
    delays.clock.advance(LEVELS_MS[0])
    begin = note_of(tmp_path).position
    assert begin < delays.store.commit_log.committed
    send(delays.store, "plain", body=bytes(5_000))
    delays.delay(b"quick too")
    delays.clock.advance(LEVELS_MS[0])
    assert note_of(tmp_path).position == delays.store.commit_log.committed
    delays.clock.advance(LEVELS_MS[1])
    assert bodies(delays.store, "T") == [b"mine", b"quick", b"quick too", b"a"]
    delays.store.close()


async def test_what_the_log_has_let_go_went_before(tmp_path: Path) -> None:
    """The first message that is still there was delivered, so those before it were."""
    delays = Delays(tmp_path)
    positions = [delays.delay(body) for body in (b"a", b"b", b"c")]
    delays.clock.advance(LEVELS_MS[0])
    delays.delay(b"d")
    queue = delays.service.progress.queue(1)
    assert queue is not None
    queue.trim(positions[1])
    (tmp_path / "aerobee.delayed").write_bytes(bytes(4096))
    found = progress.DelayProgress(delays.store)
    found.recover({})
    assert found.next_offset(1) == 3
    delays.service.stop()
    delays.store.close()


async def test_small_records_that_name_a_large_one_cost_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits is read only where as long a body is there: else a log of them would take days."""
    delays = Delays(tmp_path)
    delays.delay(b"large" + bytes(100_000), level=2, UNIQ_KEY="k")
    for _ in range(50):
        forge(delays, 0, b"small", key="k")
    delays.die()
    read, record_at = list[int](), MessageStore.record_at

    def counted(store: MessageStore, position: int, *named: object) -> bytes | None:
        read.append(position)
        return record_at(store, position, *named)  # type: ignore[arg-type]

    monkeypatch.setattr(MessageStore, "record_at", counted)
    delays.begin()
    assert not read and delays.service.progress.next_offset(2) == 0
    delays.store.close()
