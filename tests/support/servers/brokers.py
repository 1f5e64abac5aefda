"""A broker of this process on free ports, and commands to talk to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aerobee.broker.app import Broker
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.codes import PullSysFlag, RequestCode
from aerobee.remoting.command import Command, next_opaque

SMALL_STORE = {"mappedFileSizeCommitLog": str(1 << 20), "mappedFileSizeConsumeQueue": "20000"}


@asynccontextmanager
async def running_broker(root: Path, **options: str) -> AsyncIterator[Broker]:
    """Run a broker with its store below `root`; `options` are RocketMQ's keys."""
    given = {
        "brokerIP1": "127.0.0.1",
        "listenPort": "0",
        "storePathRootDir": str(root / "store"),
        "httpPort": "-1",
        "helperProcess": "false",
        "brokerFastFailureEnable": "false",  # a busy machine is no reason to refuse a test's sends
        **SMALL_STORE,
        **options,
    }
    settings, warnings = BrokerSettings.load(None, given)
    assert not warnings
    broker = Broker(settings)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def send_command(
    body: bytes = b"hello",
    *,
    topic: str = "T",
    queue_id: int = 0,
    properties: str = "UNIQ_KEY\x01AAAA0001\x02TAGS\x01TagA\x02",
    code: int = RequestCode.SEND_MESSAGE_V2,
    **fields: str,
) -> Command:
    """Build a send as the Java client does; `fields` replace header fields by their letter."""
    ext = {
        "a": "group",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": "1718000000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
        **fields,
    }
    return Command(code=code, ext=ext, body=body, opaque=next_opaque())


def pull_command(
    offset: int = 0,
    *,
    topic: str = "T",
    queue_id: int = 0,
    expression: str = "*",
    suspend_ms: int = 0,
    **fields: Any,
) -> Command:
    """Build a pull that brings its subscription; it waits in the broker for `suspend_ms`."""
    flags = PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if suspend_ms else 0)
    ext = {
        "consumerGroup": "G",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(flags),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": expression,
        "subVersion": "0",
        **{key: str(value) for key, value in fields.items()},
    }
    return Command(code=RequestCode.PULL_MESSAGE, ext=ext, opaque=next_opaque())
