"""Where a retry that is stored once meets other features, failing disks and want of memory."""

import json
import re
import time
from pathlib import Path

import pytest
from support.features.dedup import batch, is_known, known, send, topic_command, watch
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker
from support.servers.live_broker import live_broker

from aerobee.broker.features.dedup import firsts as firsts_module
from aerobee.broker.sends.once import queue_id_of
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.message.record import Record
from aerobee.storage.log.segment import Segment


async def test_what_can_be_taken_back_can_be_by_either_answer(tmp_path: Path) -> None:
    """A message with a time of its own is answered with its handle each time."""
    more = "TIMER_DELAY_SEC\x01600\x02"
    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await watch(peer)
        first = await peer.request(send("K1", more=more, queue_id=2))
        again = await peer.request(send("K1", more=more))
        assert first.ext["recallHandle"]
        assert again.ext == {**first.ext, "DUPLICATE": "true"}


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 12, "\N{ARABIC-INDIC DIGIT ONE}", "-1", ""])
def test_a_record_of_others_names_no_queue(digits: str) -> None:
    """What waits and says of its queue what is no number is of the queue where it lies."""
    properties = f"REAL_TOPIC\x01T\x02REAL_QID\x01{digits}\x02".encode()
    record = Record(
        topic="SCHEDULE_TOPIC_XXXX", queue_id=17, flag=0, queue_offset=0, position=0, sys_flag=0,
        born_timestamp=0, born_host=("127.0.0.1", 1), store_timestamp=0,
        store_host=("127.0.0.1", 1), reconsume_times=0, prepared_transaction_offset=0,
        body=b"", properties=properties, total_size=100, body_crc=0,
    )  # fmt: skip
    assert queue_id_of(record) == 17


@pytest.mark.parametrize("fast", ["true", "false"])
async def test_a_first_that_was_never_written_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: str
) -> None:
    """The log refuses a message: what comes again is refused too, and never said to be there."""

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with (
        running_broker(tmp_path, compiledFastPath=fast) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await watch(peer)
        assert not await is_known(peer, "K0")
        assert not await is_known(peer, "K1")
        monkeypatch.setattr(Segment, "write", refuse)
        for command in (send("K2"), send("K2"), batch(["K3", "K4"]), batch(["K3", "K4"])):
            reply = await peer.request(command)
            assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE, reply.ext
        monkeypatch.undo()
    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert [await is_known(peer, key) for key in ("K0", "K1", "K2", "K3", "K4")] == [
            True, True, False, False, False,
        ]  # fmt: skip


async def test_without_memory_retries_are_stored_twice_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker starts and serves; when there is memory the next change of the topic tells."""

    def none(*_: object, **__: object) -> None:
        raise MemoryError("no memory for 1000000 unique keys")

    with monkeypatch.context() as patched:
        patched.setattr(firsts_module, "seen_keys", none)
        async with (
            live_broker(tmp_path, http_port=0) as live,
            await RawPeer.connect(live.broker.port) as peer,
        ):
            await watch(peer)
            assert [await is_known(peer, "K1") for _ in range(2)] == [False, False]
            status, text = await live.get("/readyz")
            assert status == 200 and "no memory for 1000000 unique keys" in text
            patched.undo()
            await watch(peer, seconds=61)
            assert [await is_known(peer, "K1") for _ in range(2)] == [False, True]
            assert "no memory" not in (await live.get("/readyz"))[1]


async def test_what_is_shown_of_it(tmp_path: Path) -> None:
    """Keys, how full, what was answered from memory, how old the oldest, what went before time."""
    async with (
        live_broker(tmp_path, http_port=0, dedup_entries_max=3) as live,
        await RawPeer.connect(live.broker.port) as peer,
    ):
        await watch(peer)
        await known(live.broker)
        began_ms = time.time() * 1000
        for key in ("K1", "K2", "K3", "K1", "K4", "K5"):
            await peer.request(send(key))
        shown = json.loads((await live.get("/api/broker"))[1])["dedup"]
        oldest_ms = shown.pop("oldestMs")
        assert began_ms - 1 <= oldest_ms <= time.time() * 1000
        assert shown == {
            "topics": 1, "keys": 3, "keysMax": 3, "duplicates": 1, "refused": 0, "evicted": 2,
            "shortWindows": 1, "known": True, "notSavedBecause": None,
        }  # fmt: skip
        _, text = await live.get("/metrics")
        values = dict(re.findall(r"^aerobee_dedup_(\w+){.*} (\S+)$", text, re.MULTILINE))
        assert 0 <= float(values.pop("oldest_key_seconds")) < 60
        assert 0 <= float(values.pop("window_seconds")) < 60
        assert {name: float(value) for name, value in values.items()} == {
            "keys": 3, "keys_max": 3, "refused_total": 0, "evicted_total": 2,
            "duplicates_total": 1, "topic_keys": 3,
        }  # fmt: skip
        assert "dedupEntriesMax" in (await live.get("/readyz"))[1]
        assert (await peer.request(topic_command("T", "-aerobee.dedup.seconds"))).code == 0
        assert "dedupEntriesMax" not in (await live.get("/readyz"))[1]


async def test_a_retention_that_was_made_shorter_than_a_window_is_told(tmp_path: Path) -> None:
    """Code 25 shortens it while topics ask for more: from then on `/readyz` says so."""
    async with (
        live_broker(tmp_path, http_port=0) as live,
        await RawPeer.connect(live.broker.port) as peer,
    ):
        await watch(peer, seconds=7200)
        assert "fileReservedTime" not in (await live.get("/readyz"))[1]
        code = RequestCode.UPDATE_BROKER_CONFIG
        assert (await live.ask(code, body=b"fileReservedTime=2\n")).code == ResponseCode.SUCCESS
        assert "fileReservedTime, 2 hours" in (await live.get("/readyz"))[1]
