"""ENDs that come again before the first one is safe, or when it never will be."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.features.transactions import COMMIT, begin, bodies, end, end_command, transactions
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker
from support.waiting import until
from support.wire import connect, feed

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame
from aerobee.storage.errors import LogFull
from aerobee.storage.log.segment import Segment

FAR = {"transactionTimeOut": "60000"}


@pytest.mark.parametrize("oneway", [False, True])
async def test_an_end_that_comes_twice_is_answered_when_the_disk_has_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, oneway: bool
) -> None:
    """Whoever asks again meanwhile hears of success no sooner."""
    held: list[Callable[[bool], None]] = []
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH", **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        with monkeypatch.context() as slow_disk:
            slow_disk.setattr(
                broker.store.flusher, "request", lambda position, done: held.append(done)
            )
            ends = [end_command(half, COMMIT, oneway=oneway), end_command(half, COMMIT)]
            await peer.send(b"".join(map(encode_frame, ends)))
            await until(lambda: len(held) == len(ends) - oneway, what="the disk is asked")
        for done in held:
            done(True)
        for _ in held:
            assert (await peer.read()).code == 0
        assert bodies(broker) == [b"hello"]


async def test_an_end_that_comes_again_after_a_loss_is_not_answered_with_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log may lack what the first one committed: the start finds out."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        await end(peer, await begin(peer, b"other"), COMMIT)

        def write(segment: Segment, position: int, data: bytes) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(Segment, "write", write)
        ends = [end_command(half, COMMIT, oneway=True), end_command(half, COMMIT)]
        await peer.send(b"".join(map(encode_frame, ends)))
        assert (await peer.read()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await end(peer, half, COMMIT))[0] == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bodies(broker) == [b"other"]


async def test_what_is_committed_is_seen_while_an_op_message_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that does not take the one for a while holds nothing else back."""
    refused = []

    def refuse(offsets: list[int]) -> None:
        refused.append(offsets)
        raise LogFull("the message is refused: no space for the queue")

    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        ops, log = transactions(broker)._ops, broker.store.commit_log
        halves = [await begin(peer, body) for body in (b"one", b"two")]
        with monkeypatch.context() as full:
            full.setattr(ops, "_append", refuse)
            await peer.send(encode_frame(end_command(halves[0], COMMIT, oneway=True)))
            await until(lambda: refused, what="an op message is refused")
            before = log.position
            checked = end_command(halves[1], COMMIT)
            connection, wire = connect(broker)
            await feed(connection, wire, [encode_frame(checked)])
            assert before < log.position == log.committed
        await until(lambda: not ops.pending, what="both are told")
