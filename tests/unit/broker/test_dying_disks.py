"""Disks that refuse while a broker runs: what is answered, what is kept, and what is seen of it."""

import errno
import logging
import os
from pathlib import Path

import pytest
from support.disks.refused_room import refuse_room
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.servers.live_broker import live_broker
from support.waiting import until

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.record import iter_records
from aerobee.storage.log.segment import Segment

BATCH = 5


def batch(number: int, body_bytes: int) -> Command:
    """A batch whose bodies say which one it is."""
    body = (b"%d " % number).ljust(body_bytes)
    messages = [BatchedMessage(flag=0, body=body, properties=b"") for _ in range(BATCH)]
    code = RequestCode.SEND_BATCH_MESSAGE
    return send_command(encode_batch(messages), code=code, properties="", m="true")


async def stored(peer: RawPeer) -> list[bytes]:
    """All messages of the queue."""
    found: list[bytes] = []
    while (reply := await peer.request(pull_command(len(found)))).code == ResponseCode.SUCCESS:
        found += [bytes(each.body).strip() for each in iter_records(bytes(reply.body))]
    return found


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize(("where", "body_bytes"), [("consumequeue", 8), ("commitlog", 20_000)])
async def test_a_batch_that_finds_no_room_is_refused_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    body_bytes: int,
    number: int,
) -> None:
    """It is answered with 14, not one of its messages is there, and the next batch takes its place.

    Queue files of seven entries: a batch ends one and needs the next.
    """
    settings = {"mappedFileSizeConsumeQueue": "140", "preparedBytes": "65536"}
    async with (
        running_broker(tmp_path, mappedFileSizeCommitLog=str(1 << 20), **settings) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        full: set[str] = set()
        refuse_room(monkeypatch, broker.store.files, number, full)
        assert (await peer.request(batch(0, body_bytes))).code == ResponseCode.SUCCESS
        full.add(where)
        codes = [(await peer.request(batch(at, body_bytes))).code for at in range(1, 30)]
        assert set(codes[-5:]) == {ResponseCode.SERVICE_NOT_AVAILABLE}
        taken = [at for at, code in enumerate(codes, 1) if code == ResponseCode.SUCCESS]
        expected = [b"%d" % at for at in (0, *taken) for _ in range(BATCH)]
        assert await stored(peer) == expected
        full.clear()
        await until(
            lambda: not broker.context.health.troubles.reasons(), what="there is room again"
        )
        reply = await peer.request(batch(99, body_bytes))
        assert (reply.code, reply.ext["queueOffset"]) == (
            ResponseCode.SUCCESS, str(len(expected)),
        )  # fmt: skip
        assert await stored(peer) == [*expected, *[b"99"] * BATCH]


@pytest.mark.parametrize("what", ["write", "sync"])
async def test_a_disk_that_becomes_read_only_is_seen_and_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """As where the system remounts it after an error; what was acknowledged outlives it.

    What the log has after a failed write or sync only a start finds out: until then messages are
    refused, though the disk may be written again.
    """

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    header = {"a": "p", "b": "t", "c": "TBW102", "d": 8, "e": 0, "f": 0, "g": 1, "h": 0}
    pull = pull_command(0, topic="t").ext
    async with live_broker(tmp_path, http_port=0, flush_disk_type="SYNC_FLUSH") as live:
        kept = await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"kept")
        assert kept.code == ResponseCode.SUCCESS
        assert (await live.get("/readyz"))[0] == 200
        with monkeypatch.context() as disk:
            disk.setattr(Segment, "write", refuse)
            if what == "sync":
                live.broker.store.flusher._log_synced(errno.EROFS)
            for _ in range(20):
                reply = await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"lost")
                assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        reply = await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"lost")
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        why = "Read-only file system" if what == "write" else f"errno {errno.EROFS}"
        assert why in (reply.remark or "") and "restart the broker" in (reply.remark or "")
        status, text = await live.get("/readyz")
        assert status == 503 and why in text and "restart the broker" in text
        lines = (await live.get("/metrics"))[1].splitlines()
        (line,) = (each for each in lines if each.startswith("aerobee_store_writable"))
        assert line.endswith(" 0.0")
        found = await live.ask(RequestCode.PULL_MESSAGE, pull)
        assert [bytes(each.body) for each in iter_records(bytes(found.body))] == [b"kept"]
        told = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        assert told and told[0].startswith(f"log_{what}_failed")
        assert "restart the broker" in told[0] and "check the disk" in told[0]
        assert len(told) == 2, "however many messages were refused"
    async with live_broker(tmp_path, http_port=0) as live:
        assert (await live.get("/readyz"))[0] == 200
        reply = await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"next")
        assert (reply.code, reply.ext["queueOffset"]) == (ResponseCode.SUCCESS, "1")
        found = await live.ask(RequestCode.PULL_MESSAGE, pull)
        assert [bytes(each.body) for each in iter_records(bytes(found.body))] == [b"kept", b"next"]
