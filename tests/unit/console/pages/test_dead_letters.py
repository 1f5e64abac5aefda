"""Dead letters and what waits, through a browser."""

import asyncio

from support.servers.live_console import live_console
from support.waiting import until

from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, PushSettings
from aerobee.client.received import ReceivedMessage
from aerobee.testing import EmbeddedCluster


async def test_dead_letters_are_shown_and_sent_again_each_once() -> None:
    """To their group alone; a second click sends what is new."""
    seen: list[bytes] = []

    async def failing(message: ReceivedMessage) -> None:
        seen.append(message.body)
        raise ValueError("cannot")

    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        assert "all messages were consumed" in (await browser.get("/dead-letters")).text
        await cluster.create_topic("orders", queues=1)
        async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
            await producer.send(Message("orders", b"x", keys="order-1"))
        consumer = PushConsumer(
            "billing",
            namesrv=cluster.namesrv_addr,
            consume_from=ConsumeFrom.FIRST,
            settings=PushSettings(max_reconsume_times=0),
        )
        consumer.subscribe("orders", failing)
        async with consumer, asyncio.timeout(20):
            while "order-1" not in (shown := await browser.get("/dead-letters/billing")).text:
                pass
            assert "failed after" in shown.text and ">orders</a>" in shown.text
            path = "/dead-letters/billing/resend"
            assert (await browser.post(path, {"limit": "0"})).status == 422
            sent = await browser.post(path, {"limit": "10", "where": "group"})
            assert sent.status == 200 and "1 dead letters of billing sent to group" in sent.text
            await until(lambda: len(seen) == 2)
        again = await browser.post(path, {"limit": "10", "where": "group"})
        assert again.status == 200


async def test_messages_that_wait_are_counted() -> None:
    """Those of a delay level, with the delay in the broker's words."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        await cluster.create_topic("orders", queues=1)
        async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
            for _ in range(3):
                await producer.send(Message("orders", b"x", delay_level=18))
        shown = await browser.get("/waiting/live")
        assert shown.status == 200 and ">2h<" in shown.text and ">3<" in shown.text
