"""Queues shared out by the broker, and locked for ordered consumption."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.members import RawMember
from support.servers.live_broker import LiveBroker, live_broker
from support.stand_ins.virtual_time import VirtualTime
from support.waiting import until

from aerobee.broker.cluster.routes import FRESH_MS, TopicRoutes
from aerobee.broker.handover.queue_locks import ABANDONED_MS, LEASE_MS, QueueLocks
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.request_modes import RequestModeTable
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchBody,
    LockBatchReply,
    QueryAssignmentBody,
    QueryAssignmentReply,
    QueueBody,
    QueueData,
    RequestModeBody,
    SubscriptionData,
    TopicConfig,
    TopicRouteData,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.net.client import ConnectionPool


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with topic T of four queues."""
    async with live_broker(tmp_path) as broker:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        await broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        yield broker


def queue(queue_id: int, broker_name: str = "broker-a") -> QueueBody:
    """Return a queue of topic T."""
    return QueueBody(topic="T", broker_name=broker_name, queue_id=queue_id)


async def share(live: LiveBroker, client_id: str, **fields: str) -> list[int] | None:
    """Ask for a client's share; return the queues' numbers."""
    asked = {"topic": "T", "consumer_group": "G", "client_id": client_id} | fields
    reply = await live.ask(RequestCode.QUERY_ASSIGNMENT, body=QueryAssignmentBody(**asked))
    assert reply.code == ResponseCode.SUCCESS
    assignments = decode_body(QueryAssignmentReply, reply.body).message_queue_assignments
    if assignments is None:
        return None
    assert all(assignment.mode == "PULL" for assignment in assignments)
    return [assignment.message_queue.queue_id for assignment in assignments]


async def test_the_broker_shares_queues_out(live: LiveBroker) -> None:
    """By the strategies it knows; of others and of unknown groups it says nothing."""
    assert await share(live, "c1") is None
    async with RawMember(live.broker.port, "c2") as two, RawMember(live.broker.port, "c1") as one:
        await two.beat()
        await one.beat()
        assert await share(live, "c1") == [0, 1]
        assert await share(live, "c2") == [2, 3]
        assert await share(live, "c2", strategy_name="AVG_BY_CIRCLE") == [1, 3]
        assert await share(live, "c3") == []
        assert await share(live, "c1", strategy_name="MINE") is None
        assert await share(live, "c1", topic="U") is None
        assert await share(live, "c1", message_model="BROADCASTING") == [0, 1, 2, 3]
        hashed = {c: await share(live, c, strategy_name="CONSISTENT_HASH") for c in ("c1", "c2")}
        assert sorted((hashed["c1"] or []) + (hashed["c2"] or [])) == [0, 1, 2, 3]


async def test_request_modes_are_kept(live: LiveBroker) -> None:
    """Those that are served; POP is refused in clear words."""
    code = RequestCode.SET_MESSAGE_REQUEST_MODE
    mode = RequestModeBody(topic="T", consumer_group="G", mode="PULL")
    assert (await live.ask(code, body=mode)).code == ResponseCode.SUCCESS
    text = (
        b'{"messageRequestModeMap":{"T":{"G":{"topic":"T","consumerGroup":"G","mode":"PULL",'
        b'"popShareQueueNum":0}}}}'
    )
    folder = live.broker.settings.config_dir
    assert (folder / "messageRequestMode.json").read_bytes() == text
    assert bytes((await live.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)).body) == text
    assert RequestModeTable(folder).encode() == text
    for refused, answer, remark in (
        (
            RequestModeBody(topic="T", consumer_group="G", mode="POP"),
            ResponseCode.INVALID_PARAMETER,
            "mode POP is not served by this broker yet, PULL is",
        ),
        (
            RequestModeBody(topic="T", consumer_group="G", mode="PUSH"),
            ResponseCode.INVALID_PARAMETER,
            "no such mode: PUSH, allowed: PULL",
        ),
        (
            RequestModeBody(topic="%RETRY%G", consumer_group="G"),
            ResponseCode.NO_PERMISSION,
            "retry topic is not allowed to set mode",
        ),
        (
            RequestModeBody(topic="U", consumer_group="G"),
            ResponseCode.TOPIC_NOT_EXIST,
            "topic[U] not exist",
        ),
    ):
        reply = await live.ask(code, body=refused)
        assert (reply.code, reply.remark) == (answer, remark)
    with pytest.raises(SettingsError, match="POP is not served yet, allowed: PULL"):
        BrokerSettings.load(None, {"defaultMessageRequestMode": "POP"})


class FakeNameservers:
    """Nameservers that know topic T on two brokers, of which one may be silent."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.code: int = ResponseCode.SUCCESS
        self.silent: set[str] = set()

    def get(self, address: str) -> None:
        """Nobody asks for an open connection."""

    async def call(self, address: str, command: Command, timeout_s: float) -> Command:
        """Answer with a route."""
        self.asked.append(address)
        if address in self.silent:
            raise Unavailable(f"{address} is silent")
        route = TopicRouteData(
            queue_datas=[
                QueueData(broker_name="broker-b", read_queue_nums=1, write_queue_nums=1, perm=6),
                QueueData(broker_name="broker-a", read_queue_nums=2, write_queue_nums=1, perm=4),
                QueueData(broker_name="broker-c", read_queue_nums=2, write_queue_nums=2, perm=2),
                QueueData(broker_name="broker-d", read_queue_nums=2**31 - 1, perm=6),
            ]
        )
        return command.reply(self.code, {}, encode_body(route))


async def test_routes_are_asked_of_nameservers(tmp_path: Path) -> None:
    """Half a minute's answer is good enough; without any, the broker knows its own queues.

    A broker that has two billion queues, as somebody says, is left out.
    """
    time, servers = VirtualTime(), FakeNameservers()
    settings = BrokerSettings(namesrv_addr="one:1;two:2", broker_name="broker-a")
    topics = TopicTable({}, time.clock_ms, tmp_path)
    topics.update(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1))
    routes = TopicRoutes(Live(settings), topics, servers, time.clock_ms)
    expected = [queue(0, "broker-b"), queue(0), queue(1)]
    servers.silent.add("one:1")
    assert await routes.queues("T") == expected
    assert await routes.queues("T") == expected
    assert servers.asked == ["one:1", "two:2"]
    time.advance(FRESH_MS)
    servers.silent.add("two:2")
    assert await routes.queues("T") == [queue(0)]
    servers.silent.clear()
    servers.code = ResponseCode.TOPIC_NOT_EXIST
    assert await routes.queues("U") is None


async def test_locks_belong_to_one_client(live: LiveBroker) -> None:
    """Who asks is told which queues it has; giving back what is not one's own changes nothing."""

    async def lock(
        client_id: str, *queue_ids: int, code: int = RequestCode.LOCK_BATCH_MQ
    ) -> object:
        queues = [queue(queue_id) for queue_id in queue_ids]
        body = LockBatchBody(consumer_group="G", client_id=client_id, mq_set=queues)
        reply = await live.ask(code, body=body)
        assert reply.code == ResponseCode.SUCCESS
        if code == RequestCode.UNLOCK_BATCH_MQ:
            return None
        return [each.queue_id for each in decode_body(LockBatchReply, reply.body).lock_ok_mq_set]

    assert await lock("c1", 0, 1) == [0, 1]
    assert await lock("c2", 1, 2) == [2]
    await lock("c2", 0, 2, code=RequestCode.UNLOCK_BATCH_MQ)
    assert await lock("c1", 0, 1, 2) == [0, 1, 2]


def test_locks_of_who_is_gone_end_when_nobody_can_trust_them() -> None:
    """35 s after the renewal, not 60: until then a client that is cut off may be at work."""
    time, members = VirtualTime(), {("G", "c1"), ("G", "c2")}
    locks = QueueLocks(time.clock_ms, 10, lambda group, client_id: (group, client_id) in members)
    assert locks.lock("G", "c1", [queue(0)]) == [queue(0)]
    time.advance(ABANDONED_MS + 1)
    assert locks.lock("G", "c2", [queue(0)]) == [], "it is connected, and may be slow"
    assert locks.lock("G", "c1", [queue(0)]) == [queue(0)]
    members.remove(("G", "c1"))
    time.advance(ABANDONED_MS)
    assert locks.lock("G", "c2", [queue(0)]) == []
    time.advance(1)
    assert locks.lock("G", "c2", [queue(0)]) == [queue(0)]


async def test_a_member_holds_its_locks_by_its_client_id(live: LiveBroker) -> None:
    """On whichever connection; when the last one has ended it is a member no more."""
    subscription = SubscriptionData(topic="t", sub_string="*")
    beat = HeartbeatData(
        client_id="c1",
        consumer_data_set=[ConsumerData(group_name="G", subscription_data_set=[subscription])],
    )
    other = ConnectionPool()
    members = live.broker.context.consumers.members
    assert not members.is_member("G", "c1")
    await live.ask(RequestCode.HEART_BEAT, body=beat)
    await live.ask(RequestCode.HEART_BEAT, body=beat, pool=other)
    await other.close()
    assert members.is_member("G", "c1") and not members.is_member("G", "c2")
    await live.pool.close()
    await until(lambda: not members.is_member("G", "c1"), what="its departure")


def test_locks_end_unless_they_are_renewed() -> None:
    """After a minute; there are only so many, and ended ones make room."""
    time = VirtualTime()
    locks = QueueLocks(time.clock_ms, locks_max=2)
    assert locks.lock("G", "c1", [queue(0), queue(0), queue(1), queue(2)]) == [queue(0), queue(1)]
    time.advance(LEASE_MS)
    assert locks.lock("G", "c1", [queue(0)]) == [queue(0)]
    assert locks.lock("G", "c2", [queue(1)]) == []
    time.advance(1)
    assert locks.lock("G", "c2", [queue(0), queue(1)]) == [queue(1)]
    assert locks.holder("G", queue(1)) == "c2" and locks.holder("H", queue(1)) is None
    time.advance(LEASE_MS + 1)
    assert locks.lock("H", "c2", [queue(3)]) == [queue(3)]
    assert len(locks) == 1
