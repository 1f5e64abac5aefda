"""Groups through a browser: lag and owners, settings, and offsets moved as was shown."""

import asyncio
import re

from support.servers.live_console import live_console

from aerobee.admin import AdminClient
from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings
from aerobee.testing import EmbeddedCluster


async def test_a_group_is_shown_reset_as_previewed_and_deleted() -> None:
    """What the preview says is what happens, once; a plan cannot be done twice."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr) as browser,
        AdminClient(cluster.namesrv_addr) as admin,
    ):
        await cluster.create_topic("orders", queues=1)
        async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
            for number in range(10):
                await producer.send(Message("orders", b"%d" % number))
        await browser.get("/groups-new")
        made = await browser.post("/groups-new", {"group": "billing", "retry_max_times": "5"})
        assert made.status == 200 and "Group billing made on broker-a" in made.text
        (master,) = await admin.masters_of()
        await admin.offset.commit(master.address, "billing", "orders", 0, 4)

        listed = await browser.get("/groups")
        assert "billing" in listed.text and ">6<" in listed.text
        await browser.get("/groups/billing/reset")
        shown = await browser.post(
            "/groups/billing/reset", {"topic": "orders", "to": "begin", "broker": ""}
        )
        assert "<strong>4</strong> messages" in shown.text
        assert await admin.offset.committed(master.address, "billing", "orders", 0) == 4
        plan = re.search(r'name="plan" value="([^"]+)"', shown.text)
        assert plan
        done = await browser.post("/groups/billing/reset/apply", {"plan": plan[1]})
        assert done.status == 200 and "4 messages are consumed again" in done.text
        assert (await admin.group.describe("billing")).lag == 10
        again = await browser.post("/groups/billing/reset/apply", {"plan": plan[1]})
        assert again.status == 422 and "make it anew" in again.text

        kept = await browser.post("/groups/billing/delete", {"confirm": "bill"})
        assert kept.status == 422
        gone = await browser.post("/groups/billing/delete", {"confirm": "billing"})
        assert gone.status == 200 and "Group billing deleted" in gone.text


async def test_members_are_shown_with_their_queues() -> None:
    """Who has which queue, asked of the members themselves."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        await cluster.create_topic("orders", queues=2)
        async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
            await producer.send(Message("orders", b"x"))

        async def handle(message: ReceivedMessage) -> None: ...

        consumer = PushConsumer(
            "billing",
            namesrv=cluster.namesrv_addr,
            consume_from=ConsumeFrom.FIRST,
            client=ClientSettings(offsets_interval_ms=100),
        )
        consumer.subscribe("orders", handle)
        async with consumer, asyncio.timeout(10):
            while True:
                shown = await browser.get("/groups/billing/live")
                if shown.text.count(consumer.client_id) >= 3:  # a member, and of both queues
                    break
            assert "PYTHON" in shown.text
