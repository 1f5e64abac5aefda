"""Hand-overs asked of a real broker over real sockets: what members of every kind are answered."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.live_broker import LiveBroker, live_broker
from support.members import RawMember, offset_of
from support.waiting import until

from aerobee.remoting.codes import RequestCode

WAIT_MS = 400  # short, for tests that see the deadline pass


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with topic T."""
    async with live_broker(tmp_path, handover_wait_millis=WAIT_MS) as broker:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        await broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        yield broker


async def joined(live: LiveBroker, client_id: str, timeout_ms: int | None = None) -> RawMember:
    """Return a member that has introduced itself."""
    member = RawMember(live.broker.port, client_id, timeout_ms=timeout_ms)
    await member.beat()
    return member


async def test_the_offset_waits_for_the_owners_last_commit(live: LiveBroker) -> None:
    """A Java client that loses a queue asks for the members, then commits: that is its release."""
    old, new = await joined(live, "c1"), await joined(live, "c2")
    async with old, new:
        assert offset_of(await old.start_of()) == 0
        asked = new.starting()
        await until(lambda: live.broker.context.handovers.waiting == 1)
        await old.commit(0)  # the timer's: it has not heard of the change yet
        assert not asked.done()
        await old.members()
        await old.commit(1)
        assert offset_of(await asked) == 1
        await old.commit(0)
        assert live.broker.context.offsets.committed("G", "T", 0) == 1
        assert live.broker.context.handovers.commits_ignored == 1
