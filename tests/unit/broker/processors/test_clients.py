"""Heartbeats, member lists and departures, asked of a real broker over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, live_broker, slow_announcements
from support.waiting import until

from aerobee.remoting.bodies import (
    CheckClientConfig,
    ConsumerData,
    ConsumerListReply,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
    decode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with one client."""
    async with live_broker(tmp_path) as broker:
        yield broker


def heartbeat(
    client_id: str, group: str, *topics: str, fingerprint: int = 0, without_sub: bool = False
) -> HeartbeatData:
    """Make the heartbeat of one consumer."""
    subscriptions = [SubscriptionData(topic=topic, sub_string="*") for topic in topics]
    return HeartbeatData(
        client_id=client_id,
        consumer_data_set=[ConsumerData(group_name=group, subscription_data_set=subscriptions)],
        heartbeat_fingerprint=fingerprint,
        without_sub=without_sub,
    )


async def test_first_heartbeat_makes_group_and_retry_topic(live: LiveBroker) -> None:
    """Both exist, and are on disk, when the answer comes."""
    reply = await live.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "t"))
    assert reply.code == ResponseCode.SUCCESS
    assert reply.ext == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    config = live.broker.settings.config_dir
    assert b'"%RETRY%g"' in (config / "topics.json").read_bytes()
    assert b'"g"' in (config / "subscriptionGroup.json").read_bytes()
    members = await live.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert decode_body(ConsumerListReply, members.body).consumer_id_list == ["c1"]
    assert live.broker.context.consumers.members.lists.kept_bytes == len(
        members.body
    )  # for who asks next


async def test_members_are_told_when_others_come_and_go(live: LiveBroker) -> None:
    """Code 40 reaches every member, the one that has just joined included."""
    told: list[str] = []

    def listen(connection: Connection, command: Command) -> None:
        assert command.is_oneway and command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        told.append(command.ext["consumerGroup"])

    live.pool.handler = listen
    await live.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "t"))
    await until(lambda: len(told) == 1, what="the notice of the own join")
    other = ConnectionPool(listen)
    await live.ask(RequestCode.HEART_BEAT, body=heartbeat("c2", "g", "t"), pool=other)
    await until(lambda: len(told) == 3, what="the notices of the second join")
    await live.ask(RequestCode.HEART_BEAT, body=heartbeat("c2", "g", "t"), pool=other)
    await other.close()
    await until(lambda: len(told) == 4, what="the notice of the departure")
    assert set(told) == {"g"}


async def test_unregistering_leaves_the_group(live: LiveBroker) -> None:
    """A consumer that stops is no member any more, and nobody is left to list."""
    beat = heartbeat("c1", "g", "t")
    await live.ask(RequestCode.HEART_BEAT, body=beat)
    fields = {"clientID": "c1", "consumerGroup": "g", "producerGroup": "p"}
    assert (await live.ask(RequestCode.UNREGISTER_CLIENT, fields)).code == ResponseCode.SUCCESS
    reply = await live.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert (reply.code, reply.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "no consumer for this group, g",
    )


async def test_producers_come_with_heartbeats_too(live: LiveBroker) -> None:
    """One client may be both."""
    both = HeartbeatData(client_id="c1", producer_data_set=[ProducerData(group_name="p")])
    await live.ask(RequestCode.HEART_BEAT, body=both)
    members = live.broker.context.consumers.members
    assert [m.client.client_id for m in members.producers()["p"]] == ["c1"]
    await live.pool.close()
    await until(lambda: not members.producers(), what="the closed producer to be forgotten")


async def test_heartbeat_v2_asks_for_subscriptions_it_lacks(live: LiveBroker) -> None:
    """After a restart of the broker a client must not go on sending its fingerprint alone."""
    lean = heartbeat("c1", "g", fingerprint=7, without_sub=True)
    reply = await live.ask(RequestCode.HEART_BEAT, body=lean)
    assert reply.ext["IS_SUB_CHANGE"] == "true"
    await live.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "t", fingerprint=7))
    reply = await live.ask(RequestCode.HEART_BEAT, body=lean)
    assert reply.ext["IS_SUB_CHANGE"] == "false"
    assert live.broker.context.consumers.members.subscription("g", "t") is not None


async def test_msgpack_is_offered_to_those_who_ask(live: LiveBroker) -> None:
    """Nobody else ever sees it; afterwards requests of the broker use it."""
    connections = live.broker.context.consumers.members
    reply = await live.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "t"))
    assert "AEROBEE_MSGPACK" not in reply.ext
    reply = await live.ask(
        RequestCode.HEART_BEAT, {"AEROBEE_MSGPACK": "true"}, heartbeat("c1", "g", "t")
    )
    assert reply.ext["AEROBEE_MSGPACK"] == "true"
    group = connections.group("g")
    assert group is not None and all(connection.msgpack for connection in group.members)


async def test_oversized_and_broken_heartbeats_are_refused(live: LiveBroker) -> None:
    """Each with a reason; the connection stays."""
    live.broker.live.change(live.broker.settings.changed({"groupsPerHeartbeatMax": "1"}))
    many = HeartbeatData(
        client_id="c1", producer_data_set=[ProducerData(group_name=f"p{n}") for n in range(2)]
    )
    reply = await live.ask(RequestCode.HEART_BEAT, body=many)
    assert reply.code == ResponseCode.INVALID_PARAMETER
    assert reply.remark == "a heartbeat with 2 groups, groupsPerHeartbeatMax is 1"
    live.broker.live.change(live.broker.settings.changed({"subscriptionsPerGroupMax": "1"}))
    reply = await live.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "t", "u"))
    assert reply.code == ResponseCode.INVALID_PARAMETER
    reply = await live.ask(RequestCode.HEART_BEAT, body=b"{broken")
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert live.broker.context.tables.groups.get("g") is None


async def test_pull_consumers_can_be_rejected(live: LiveBroker) -> None:
    """rejectPullConsumerEnable passes over groups that pull on their own."""
    live.broker.live.change(live.broker.settings.changed({"rejectPullConsumerEnable": "true"}))
    data = HeartbeatData(
        client_id="c1",
        consumer_data_set=[ConsumerData(group_name="g", consume_type="CONSUME_ACTIVELY")],
    )
    assert (await live.ask(RequestCode.HEART_BEAT, body=data)).code == ResponseCode.SUCCESS
    assert live.broker.context.consumers.members.group("g") is None


async def test_expressions_are_checked_before_a_consumer_starts(live: LiveBroker) -> None:
    """Tags are fine, SQL is refused in RocketMQ's words, no body asks nothing."""
    for kind, code in (("TAG", ResponseCode.SUCCESS), ("SQL92", ResponseCode.SYSTEM_ERROR)):
        asked = CheckClientConfig(
            client_id="c1",
            group="g",
            subscription_data=SubscriptionData(topic="t", sub_string="a", expression_type=kind),
        )
        reply = await live.ask(RequestCode.CHECK_CLIENT_CONFIG, body=asked)
        assert reply.code == code
    assert (await live.ask(RequestCode.CHECK_CLIENT_CONFIG)).code == ResponseCode.SUCCESS


async def test_a_slow_nameserver_holds_up_only_the_new_group(tmp_path: Path) -> None:
    """While a first heartbeat waits for a nameserver that does not answer, others are served."""
    async with slow_announcements(tmp_path) as live:
        first = asyncio.create_task(
            live.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "g", "t"))
        )
        await until(
            lambda: live.broker.context.tables.groups.get("g"), what="the heartbeat to arrive"
        )
        reply = await live.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
        assert reply.code == ResponseCode.SYSTEM_ERROR  # it joins when its topic can be found
        assert not first.done()
        assert (await first).code == ResponseCode.SUCCESS
        reply = await live.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
        assert reply.code == ResponseCode.SUCCESS
