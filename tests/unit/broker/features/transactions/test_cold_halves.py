"""Half messages that memory does not have any more: nobody waits for the disk on the loop."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support.features.transactions import (
    COMMIT,
    ROLLBACK,
    begin,
    bodies,
    end,
    end_command,
    producer_beat,
    transactions,
)
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.frame import encode_frame

FAR = {"transactionTimeOut": "60000"}
SOON = {"transactionTimeOut": "100", "transactionCheckInterval": "100"}


class ColdPages:
    """Has a broker find nothing of its log in memory but what was fetched beside the loop."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fetched: list[int] = []
        self.failing = False
        self.sound: set[int] = set()  # what an END can have read though all else fails
        self.loop_reads: list[int] = []
        store, lookups = broker.store, broker.context.cold.lookups
        self._fetch: Callable[[Iterable[int]], Any] = lookups.warm_records
        record_at = store.record_at

        def read(position: int, *named: Any) -> bytes | None:
            if position not in self.fetched:
                self.loop_reads.append(position)
            return record_at(position, *named)

        monkeypatch.setattr(store, "record_at", read)
        feature = transactions(broker)
        monkeypatch.setattr(lookups, "is_warm", lambda position: position in self.fetched)
        monkeypatch.setattr(lookups, "warm_records", self.warm)
        fast = broker.context.writing.halves
        monkeypatch.setattr(fast, "_is_warm", lambda position: position in self.fetched)
        monkeypatch.setattr("aerobee.broker.features.transactions.fast_halves.WARM_BYTES", -1)
        self.feature = feature

    async def warm(self, positions: Iterable[int]) -> None:
        """Take a moment, as a disk does."""
        wanted = [*positions]
        await asyncio.sleep(0.01)
        if self.failing and (is_check() or not self.sound.issuperset(wanted)):
            raise OSError("no such sector")
        self.fetched += wanted


def is_check() -> bool:
    """Whether who reads does so to ask about what it reads."""
    task = asyncio.current_task()
    return task is not None and task.get_name() == "cold half messages"


@pytest.mark.parametrize("oneway", [False, True])
async def test_an_end_of_an_old_half_waits_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, oneway: bool
) -> None:
    """However often it comes meanwhile; what was ended while it waited is ended once."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await begin(peer, b"first")
        half = await begin(peer, b"hello")
        cold = ColdPages(broker, monkeypatch)
        frame = encode_frame(end_command(half, COMMIT, oneway=True))
        await peer.send(frame * 3)
        if not oneway:
            assert await end(peer, half, COMMIT) == (0, "")
            assert (await end(peer, half, ROLLBACK))[0] == 1
        await until(lambda: bodies(broker) != [], what="it is committed")
        await asyncio.sleep(0.05)
        assert len(transactions(broker).halves) == 1
        position = int(half["msgId"][-16:], 16)
        assert position not in cold.loop_reads
        assert bodies(broker) == [b"hello"]


async def test_an_end_whose_half_the_disk_refuses_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction stays open."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer, b"hello")
        cold = ColdPages(broker, monkeypatch)
        cold.failing = True
        code, remark = await end(peer, half, COMMIT)
        assert (code, "sector" in remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
        cold.failing = False
        assert await end(peer, half, COMMIT) == (0, "")
        assert bodies(broker) == [b"hello"]


async def test_old_halves_are_read_beside_the_loop_before_they_are_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the disk refuses for a time; what ends meanwhile is not asked about."""
    monkeypatch.setattr("aerobee.broker.features.transactions.checking.REFUSED_WAIT_S", 0.05)
    monkeypatch.setattr("aerobee.broker.features.transactions.checking.SLICE_HALVES", 3)
    async with (
        running_broker(tmp_path, **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        halves = [await begin(peer, b"m%d" % number) for number in range(10)]
        cold = ColdPages(broker, monkeypatch)
        cold.failing = True
        firsts = {int(half["msgId"][-16:], 16) for half in halves}
        assert (await peer.request(producer_beat())).code == 0
        with pytest.raises(TimeoutError):
            await peer.read(0.4)
        cold.sound.add(int(halves[0]["msgId"][-16:], 16))
        async with await RawPeer.connect(broker.port) as other:
            assert await end(other, halves[0], COMMIT) == (0, "")
        cold.failing = False
        asked = set[str]()
        while len(asked) < 9:
            check = await peer.read()
            assert check.code == RequestCode.CHECK_TRANSACTION_STATE
            asked.add(check.ext["transactionId"])
        assert halves[0]["transactionId"] not in asked
        assert not firsts & set(cold.loop_reads)
