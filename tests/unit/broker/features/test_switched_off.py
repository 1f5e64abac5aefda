"""A store that used a feature opens with it switched off, says what waits, and forgets nothing."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from support.features.static_topics import Piece, StaticCluster
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.features.batch_queues.feature import BatchQueues
from aerobee.broker.features.compaction.feature import Compaction
from aerobee.broker.features.delays.feature import Delays
from aerobee.broker.features.feature import Feature
from aerobee.broker.features.http import exposition, overview
from aerobee.broker.features.listed import DOORS, FEATURES
from aerobee.broker.features.timers.feature import Timers
from aerobee.broker.features.transactions.feature import Transactions
from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.record import iter_records
from aerobee.storage.verify import verify

ON: Final = {
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "enable_property_filter": True,
    "authentication_metadata_provider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
}
SEND: Final = {"a": "p", "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0}
TOPIC: Final = {
    "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
}  # fmt: skip


async def make(live: LiveBroker, topic: str, attribute: str) -> None:
    """Make a topic that asks for a feature."""
    fields = TOPIC | {"topic": topic, "attributes": f"+{attribute}"}
    assert (await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0


async def send(live: LiveBroker, topic: str, body: bytes, **properties: str) -> Command:
    """Send a message, which is taken."""
    given = {"UNIQ_KEY": body.hex().upper(), **properties}
    text = "".join(f"{name}\x01{value}\x02" for name, value in given.items())
    reply = await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"b": topic, "i": text}, body)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply


async def bodies(live: LiveBroker, topic: str) -> list[bytes]:
    """Pull what a queue has from its beginning."""
    fields = {
        "consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32,
        "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*",
        "subVersion": 0,
    }  # fmt: skip
    reply = await live.ask(RequestCode.PULL_MESSAGE, fields)
    return [bytes(each.body) for each in iter_records(reply.body)] if reply.code == 0 else []


def found(live: LiveBroker, kind: type[Feature]) -> Any:
    """The feature of a broker that has it."""
    feature = live.broker.features.find(kind)
    assert feature is not None
    return feature


async def delay(live: LiveBroker) -> None:
    await send(live, "plain", b"level", DELAY="18")


async def delay_waits(live: LiveBroker) -> None:
    assert found(live, Delays).service.waiting()[18] == (0, 1)


async def time(live: LiveBroker) -> None:
    await send(live, "plain", b"in an hour", TIMER_DELAY_SEC="3600")


async def time_waits(live: LiveBroker) -> None:
    service = found(live, Timers).service
    await until(lambda: service.index.waiting == 1, what="the message has its slot")


async def begin(live: LiveBroker) -> None:
    await send(live, "plain", b"half", TRAN_MSG="true", PGROUP="p")


async def is_open(live: LiveBroker) -> None:
    assert len(found(live, Transactions).halves) == 1


async def key(live: LiveBroker) -> None:
    await send(live, "plain", b"keyed", KEYS="k")
    index = live.broker.settings.store.root / "index"
    await until(lambda: index.exists() and any(index.iterdir()), what="a file of keys")


async def key_is_found(live: LiveBroker) -> None:
    for text in (b"keyed", b"meanwhile"):
        fields = {
            "topic": "plain", "key": text.hex().upper(), "maxNum": 8, "beginTimestamp": 0,
            "endTimestamp": 1 << 62, "_UNIQUE_KEY_QUERY": "true",
        }  # fmt: skip
        reply = await live.ask(RequestCode.QUERY_MESSAGE, fields)
        assert reply.code == 0, (text, reply.remark)


async def once(live: LiveBroker) -> None:
    await make(live, "once", "aerobee.dedup.seconds=600")
    await send(live, "once", b"first")


async def once_is_known(live: LiveBroker) -> None:
    assert (await send(live, "once", b"first")).ext["DUPLICATE"] == "true"


async def compact(live: LiveBroker) -> None:
    await make(live, "latest", "cleanup.policy=COMPACTION")
    await send(live, "latest", b"value", KEYS="k")


async def copy_is_there(live: LiveBroker) -> None:
    copying = found(live, Compaction).copying
    await until(lambda: copying.behind == 0 or not copying.failures, what="it is copied")
    assert await bodies(live, "latest") == [b"value"]


async def light(live: LiveBroker) -> None:
    await send(live, "plain", b"light", INNER_MULTI_DISPATCH="%LMQ%a")


async def light_is_there(live: LiveBroker) -> None:
    assert await bodies(live, "%LMQ%a") == [b"light"]


async def batch(live: LiveBroker) -> None:
    await make(live, "batches", "queue.type=BatchCQ")
    inner = encode_batch([BatchedMessage(0, b"%d" % each, b"") for each in range(3)])
    fields = SEND | {"b": "batches", "m": "true", "i": "UNIQ_KEY\x01B\x02"}
    assert (await live.ask(RequestCode.SEND_BATCH_MESSAGE, fields, inner)).code == 0


async def batch_is_there(live: LiveBroker) -> None:
    assert found(live, BatchQueues) is not None
    assert live.broker.store.queue("batches", 0).max_offset == 3


async def expire(live: LiveBroker) -> None:
    await make(live, "short", "aerobee.retention.seconds=3600")
    await send(live, "short", b"short")


async def not_expired(live: LiveBroker) -> None:
    assert await bodies(live, "short") == [b"short"]


async def make_user(live: LiveBroker) -> None:
    user = UserInfo(password="a secret")
    assert (await live.ask(RequestCode.AUTH_CREATE_USER, {"username": "ann"}, user)).code == 0


async def user_is_there(live: LiveBroker) -> None:
    reply = await live.ask(RequestCode.AUTH_GET_USER, {"username": "ann"})
    assert json.loads(bytes(reply.body))["userType"] == "Normal"


async def map_topic(live: LiveBroker) -> None:
    cluster = StaticCluster({"broker-a": live}, None)
    assert (await cluster.map("broker-a", 1, {0: [Piece("broker-a", 1)]})).code == 0
    assert (await cluster.send("broker-a", 0, b"mapped")).code == 0


async def is_mapped(live: LiveBroker) -> None:
    assert await bodies(live, "static") == [b"mapped"]
    queue = live.broker.store.find_queue("static", 1)
    assert queue is not None and queue.max_offset == 1


async def nothing(live: LiveBroker) -> None:
    """Leave no trace in the store."""


class Case(NamedTuple):
    """How a feature is used, switched off, told of by the start, and found again."""

    use: Callable[[LiveBroker], Awaitable[None]]
    off: dict[str, Any]
    told: str
    again: Callable[[LiveBroker], Awaitable[None]]


CASES: Final = {
    "transactions": Case(begin, {"transaction_enable": False},
                         "of the 1 half messages in the store from=0 to=1 some may wait", is_open),
    "batch_queues": Case(batch, {}, "", batch_is_there),  # its files alone say that it is used
    "delays": Case(delay, {"message_delay_level": ""},
                   "delayed_messages_stay: messageDelayLevel is empty, and of 1 mes", delay_waits),
    "timers": Case(time, {"timer_wheel_enable": False},
                   "timer_messages_stay: timerWheelEnable is false, and of 1 mess", time_waits),
    "index": Case(key, {"message_index_enable": False},
                  "keys_not_indexed: messageIndexEnable is false, 1 files", key_is_found),
    "dedup": Case(once, {"dedup_entries_max": 0},
                  "retries_stored_twice: dedupEntriesMax is 0, and 1 topics", once_is_known),
    "compaction": Case(compact, {"enable_compaction": False},
                       "compaction_off topics=1", copy_is_there),
    "light_queues": Case(light, {"enable_lmq": False},
                         "light_queues_rest: nothing is put in the 1 that there", light_is_there),
    "topic_retention": Case(expire, {"topic_retention_enable": False},
                            "topic_retention_rests: topicRetentionEnable is false, and 1 topics",
                            not_expired),
    "sql92": Case(nothing, {"enable_property_filter": False}, "", nothing),
    "access": Case(make_user, {"authentication_metadata_provider": ""},
                   "access_control_off: authenticationEnabled is false", user_is_there),
    "audit": Case(nothing, {"audit_file": None}, "", nothing),
    "replies": Case(nothing, {"reply_pushes_max": 0}, "", nothing),
    "static_topics": Case(map_topic, {}, "", is_mapped),  # as with batch_queues
    "http": Case(nothing, {"http_port": -1}, "", nothing),
    "metrics": Case(nothing, {"metrics_exporter_type": "DISABLE"}, "", nothing),
}  # fmt: skip
"""Those that say nothing leave nothing in a store that could wait."""
STARTS: Final = "broker_without_nameserver"
"""What every start of these warns of."""


@asynccontextmanager
async def serving(folder: Path, **settings: Any) -> AsyncIterator[LiveBroker]:
    """A broker with everything on but what is said."""
    async with live_broker(folder, **(ON | settings)) as live:
        yield live


@pytest.mark.parametrize("name", [each.module.split(".")[-2] for each in (*FEATURES, *DOORS)])
async def test_what_waits_is_told_and_kept(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Used, then started without it, then with it again: whoever adds a feature says how."""
    case = CASES[name]
    async with serving(tmp_path) as live:
        await send(live, "plain", b"before")
        await case.use(live)
    settings = live.broker.settings.store
    caplog.clear()
    async with serving(tmp_path, **case.off) as live:
        warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
        told = [line for line in warnings if not line.startswith(STARTS)]
        assert len(told) == bool(case.told), told
        assert case.told in "".join(told)
        await send(live, "plain", b"meanwhile")
        assert (await bodies(live, "plain"))[-1] == b"meanwhile"
        assert await exposition.text(live.broker.context)
        assert overview.broker(live.broker.context)
    assert not verify(settings).problems
    async with serving(tmp_path) as live:
        await case.again(live)
        assert {b"before", b"meanwhile"} <= set(await bodies(live, "plain"))
    assert not verify(settings).problems
