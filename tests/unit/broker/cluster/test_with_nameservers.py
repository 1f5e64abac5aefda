"""Our broker and our nameservers together: topics are found as soon as they are there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    TopicRouteData,
    decode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command


@asynccontextmanager
async def nameserver(
    folder: Path, port: int = 0, *, delete_missing: bool = False
) -> AsyncIterator[NameServer]:
    """Run a nameserver on a port, by default a free one."""
    settings = NamesrvSettings(
        listen_port=port,
        bind_address="127.0.0.1",
        kv_config_path=folder / "kvConfig.json",
        delete_topic_with_broker_registration=delete_missing,
    )
    server = NameServer(settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def route(live: LiveBroker, server: NameServer, topic: str) -> TopicRouteData | None:
    """Ask a nameserver where a topic is."""
    request = Command(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
    reply = await live.pool.call(f"127.0.0.1:{server.port}", request, 5.0)
    if reply.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    assert reply.code == ResponseCode.SUCCESS
    return decode_body(TopicRouteData, reply.body)


async def until_route(live: LiveBroker, server: NameServer, topic: str, *, known: bool) -> None:
    """Wait until a nameserver knows a topic, or does not any more."""
    for _ in range(200):
        if (await route(live, server, topic) is not None) is known:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{topic} is still {'unknown' if known else 'known'}")


SEND = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}


@pytest.mark.parametrize("compressed", [False, True])
async def test_topics_are_found_before_their_maker_is_answered(
    tmp_path: Path, compressed: bool
) -> None:
    """By the first send, by the first heartbeat, by an administrator: at every nameserver."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(nameserver(tmp_path / str(n))) for n in range(2)]
        addresses = ";".join(f"127.0.0.1:{server.port}" for server in servers)
        live = await stack.enter_async_context(
            live_broker(tmp_path, namesrv_addr=addresses, compressed_register=compressed)
        )
        await live.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"first")
        subscription = SubscriptionData(topic="t", sub_string="*")
        consumer = ConsumerData(group_name="g", subscription_data_set=[subscription])
        beat = HeartbeatData(client_id="c", consumer_data_set=[consumer])
        await live.ask(RequestCode.HEART_BEAT, body=beat)
        fields = {
            "topic": "u",
            "defaultTopic": "TBW102",
            "readQueueNums": 3,
            "writeQueueNums": 3,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "order": "false",
        }
        await live.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        for server in servers:
            for topic, queues in (("t", 4), ("%RETRY%g", 1), ("u", 3)):
                found = await route(live, server, topic)
                assert found is not None and found.queue_datas[0].write_queue_nums == queues
                assert found.broker_datas[0].broker_addrs == {0: live.address}


async def test_a_new_topic_leaves_the_others_known(tmp_path: Path) -> None:
    """Also where topics go that a registration lacks (deleteTopicWithBrokerRegistration)."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nameserver(tmp_path, delete_missing=True))
        live = await stack.enter_async_context(
            live_broker(tmp_path, namesrv_addr=f"127.0.0.1:{server.port}")
        )
        before = set(server.table.topics)
        for topic in ("t", "u", "v"):
            await live.ask(RequestCode.SEND_MESSAGE_V2, SEND | {"b": topic}, b"first")
            assert await route(live, server, topic) is not None
        assert set(server.table.topics) == before | {"t", "u", "v"}
        await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "u"})
        await live.broker.context.cluster.registration.announce_all()
        assert set(server.table.topics) == before | {"t", "v"}


async def test_a_restarted_nameserver_soon_knows_everything(tmp_path: Path) -> None:
    """It forgot the broker; the broker notices that the connection ended."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(nameserver(tmp_path))
        live = await stack.enter_async_context(
            live_broker(tmp_path, namesrv_addr=f"127.0.0.1:{first.port}")
        )
        await live.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"first")
        await first.stop()
        await until(lambda: not live.broker.context.cluster.registration.registered)
        second = await stack.enter_async_context(nameserver(tmp_path, first.port))
        await until_route(live, second, "t", known=True)


async def test_a_stopped_broker_is_forgotten_at_once(tmp_path: Path) -> None:
    """Clients must not be sent to where nobody is."""
    async with nameserver(tmp_path) as server:
        async with live_broker(tmp_path, namesrv_addr=f"127.0.0.1:{server.port}") as live:
            await live.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"first")
            assert await route(live, server, "t") is not None
        async with live_broker(tmp_path / "other") as other:
            await until_route(other, server, "t", known=False)
