"""Members that have fetched nothing keep nobody waiting when their group changes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.members import RawMember
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.remoting.codes import RequestCode

END = 12


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker whose topic T has messages from before the group was there."""
    async with live_broker(tmp_path) as broker:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        for _ in range(END):
            await broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        yield broker


@pytest.mark.parametrize("pulls", [0, 1])
async def test_who_has_fetched_nothing_has_finished(live: LiveBroker, pulls: int) -> None:
    """It has not pulled yet, or from the end on and in vain: there is nothing it could commit."""
    old, new = (RawMember(live.broker.port, name) for name in ("c1", "c2"))
    async with old, new:
        await old.beat()
        await old.start_of()
        await old.hears(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        old.told.clear()
        for _ in range(pulls):
            await old.pull(END)
        await new.beat()
        for _ in range(pulls):
            await old.pull(END, suspend_ms=1000)
        await until(lambda: bool(new.told), timeout_s=5.0, what="the notice")
