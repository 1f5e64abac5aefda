"""Pulls that ask for a full reply get what fits into one; all others what RocketMQ's get."""

from pathlib import Path
from typing import Any

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.message.record import iter_records

NONE: dict[str, Any] = {}
FULL: dict[str, Any] = {"AEROBEE_FULL_REPLY": "true"}


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize(
    ("settings", "bodies_bytes", "usual", "full"),
    [
        ({}, 10, 32, 256),
        ({}, 3_000, 32, 82),  # 256 KiB
        ({"maxTransferCountOnMessageInMemory": "8"}, 10, 8, 8),  # whoever sets less means all
        ({"maxTransferCountOnMessageInMemory": "300"}, 10, 64, 256),
        ({"fullReplyMessagesMax": "0"}, 10, 32, 32),
        ({"fullReplyMessagesMax": "50"}, 10, 32, 50),
    ],
)
async def test_how_many_messages_come(
    tmp_path: Path,
    compiled: str,
    settings: dict[str, str],
    bodies_bytes: int,
    usual: int,
    full: int,
) -> None:
    """The first time by Python, then by compiled code; the setting may change meanwhile."""
    async with (
        running_broker(tmp_path, compiledFastPath=compiled, **settings) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        for _ in range(300):
            await peer.request(send_command(bytes(bodies_bytes)))
        for _ in range(4):
            for fields, count in ((NONE, usual), (FULL, full)):
                reply = await peer.request(pull_command(0, **fields, maxMsgNums=64))
                assert reply.code == ResponseCode.SUCCESS
                assert len(list(iter_records(bytes(reply.body)))) == count
                assert reply.ext["nextBeginOffset"] == str(count)
