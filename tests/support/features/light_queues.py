"""Light queues through a broker's door: sending for them, and reading them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aerobee.remoting.bodies import ConsumerData, HeartbeatData, SubscriptionData
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.record import Record, iter_records
from support.servers.live_broker import LiveBroker, live_broker

ON = {"enable_lmq": True, "enable_multi_dispatch": True}
SEND = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
A, B = "%LMQ%a", "%LMQ%b"
GROUP = "%LMQ%g"


@asynccontextmanager
async def light_broker(folder: Path, **settings: Any) -> AsyncIterator[LiveBroker]:
    """A broker with light queues, and the group of a client."""
    async with live_broker(folder, **(ON | settings)) as live:
        await join(live)
        yield live


async def join(live: LiveBroker) -> None:
    """Let a client be a consumer of both light queues."""
    topics = [SubscriptionData(topic=topic, sub_string="*") for topic in (A, B, "t")]
    consumer = ConsumerData(group_name=GROUP, subscription_data_set=topics)
    beat = HeartbeatData(client_id="c", consumer_data_set=[consumer])
    await live.ask(RequestCode.HEART_BEAT, body=beat)


async def send(live: LiveBroker, body: bytes, *names: str, **more: str) -> Command:
    """Send a message for light queues."""
    properties = {"UNIQ_KEY": "K1", "WAIT": "true", "INNER_MULTI_DISPATCH": ",".join(names), **more}
    text = "".join(f"{key}\x01{value}\x02" for key, value in properties.items() if value)
    return await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"i": text}, body)


async def pulled(live: LiveBroker, topic: str, offset: int = 0, hold_ms: int = 0) -> Command:
    """Pull from a queue; wait for a message if asked to."""
    fields = {
        "consumerGroup": GROUP, "topic": topic, "queueId": 0, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 2 if hold_ms else 0, "commitOffset": 0,
        "suspendTimeoutMillis": hold_ms, "subVersion": 0,
    }  # fmt: skip
    return await live.ask(RequestCode.PULL_MESSAGE, fields)


async def records(live: LiveBroker, topic: str, offset: int = 0) -> list[Record]:
    """What a queue has."""
    reply = await pulled(live, topic, offset)
    return list(iter_records(reply.body)) if reply.code == ResponseCode.SUCCESS else []


async def bodies(live: LiveBroker, topic: str) -> list[bytes]:
    """The bodies of what a queue has."""
    found: list[bytes] = []
    while more := await records(live, topic, len(found)):
        found += (bytes(each.body) for each in more)
    return found
