"""Clients that say how far the broker's own work is done: nobody believes them."""

from pathlib import Path
from typing import Any

import pytest
from support.features.transactions import (
    COMMIT,
    HALF,
    OP,
    begin,
    bodies,
    end,
    producer_beat,
    transactions,
)
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque

GROUP = "CID_RMQ_SYS_TRANS"
SOON = {"transactionTimeOut": "50", "transactionCheckInterval": "100"}
LATER = {"transactionTimeOut": "600000"}


async def ask(peer: RawPeer, code: int, **ext: Any) -> int:
    """Send a request and return the code of its answer."""
    fields = {name: str(value) for name, value in ext.items()}
    return (await peer.request(Command(code, fields, opaque=next_opaque()))).code


def noted(broker: Broker) -> tuple[int | None, int | None]:
    """Return how far halves and op messages are done, as a start would believe it."""
    committed = broker.context.tables.offsets.committed
    return committed(GROUP, HALF, 0), committed(GROUP, OP, 0)


async def forge(broker: Broker, peer: RawPeer, topic: str, offset: int) -> set[int]:
    """Try every door by which offsets come in; return the codes of those that answer at once."""
    place = {"topic": topic, "queueId": 0}
    known = await ask(
        peer, RequestCode.UPDATE_CONSUMER_OFFSET,
        consumerGroup="TOOLS_CONSUMER", commitOffset=offset, **place,
    )  # fmt: skip
    assert known == 0
    pull = pull_command(
        0, topic=topic, consumerGroup=GROUP, commitOffset=str(offset),
        sysFlag=str(PullSysFlag.COMMIT_OFFSET | PullSysFlag.SUBSCRIPTION),
    )  # fmt: skip
    await peer.request(pull)
    codes = {
        await ask(
            peer, RequestCode.UPDATE_CONSUMER_OFFSET,
            consumerGroup=GROUP, commitOffset=offset, **place,
        ),
        await ask(
            peer, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            group=GROUP, timestamp=-1, isForce="true", offset=offset, **place,
        ),
        await ask(
            peer, RequestCode.CLONE_GROUP_OFFSET,
            srcGroup="TOOLS_CONSUMER", destGroup=GROUP, topic=topic, offline="true",
        ),
    }  # fmt: skip
    delete = RequestCode.DELETE_SUBSCRIPTIONGROUP
    assert await ask(peer, delete, groupName=GROUP, cleanOffset="true") == 0
    return codes


@pytest.mark.parametrize("topic", [HALF, OP])
async def test_forged_offsets_count_for_nothing(tmp_path: Path, topic: str) -> None:
    """Lower ones would have a start ask again about what has ended, higher ones forget halves."""
    async with (
        running_broker(tmp_path, **LATER) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        ended = await begin(peer, b"ended")
        await begin(peer, b"open")
        assert await end(peer, ended, COMMIT) == (0, "")
        assert broker.store.flusher.flush_all(10)
        progress = transactions(broker)._progress
        progress.settle()
        assert progress.settle(), "the disk has all"
        before = noted(broker)
        assert before == (1, 1)
        for forged in (0, 2):
            assert await forge(broker, peer, topic, forged) == {ResponseCode.NO_PERMISSION}
            assert noted(broker) == before
        assert not broker.context.tables.offsets.resets, "its own notes are not held up"


async def test_a_reset_that_was_not_told_holds_up_no_progress(tmp_path: Path) -> None:
    """Such as a start leaves that has lowered offsets beyond the end."""
    async with running_broker(tmp_path, **SOON) as broker:
        offsets = broker.context.tables.offsets
        offsets.resets[GROUP, HALF, 0] = offsets.resets[GROUP, OP, 0] = 0
        async with await RawPeer.connect(broker.port) as peer:
            assert (await peer.request(producer_beat())).code == 0
            half = await begin(peer)
            assert await end(peer, half, COMMIT) == (0, "")
            assert bodies(broker) == [b"hello"]
            await until(lambda: noted(broker) == (1, 1), what="progress is noted")
