"""Offsets moved through a browser: what was shown, once, and while it still holds."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.servers.live_console import Browser, live_console

from aerobee.admin import AdminClient
from aerobee.client import Message, Producer
from aerobee.console.pages import offsets
from aerobee.testing import EmbeddedCluster


@asynccontextmanager
async def planned() -> AsyncIterator[tuple[Browser, AdminClient, str]]:
    """Yield a browser that was shown a plan: ten messages of orders are passed over."""
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
        await browser.post("/groups-new", {"group": "billing"})
        (master,) = await admin.masters_of()
        await admin.offset.commit(master.address, "billing", "orders", 0, 0)
        await browser.get("/groups/billing/reset")
        shown = await browser.post("/groups/billing/reset", {"topic": "orders", "to": "end"})
        plan = re.search(r'name="plan" value="([^"]+)"', shown.text)
        assert plan, shown.text
        yield browser, admin, plan[1]


async def test_a_double_click_resets_once() -> None:
    """The second one would undo what members have consumed since the first."""
    async with planned() as (browser, admin, plan):
        apply = "/groups/billing/reset/apply"
        answers = await asyncio.gather(*(browser.post(apply, {"plan": plan}) for _ in range(4)))
        assert sorted(each.status for each in answers) == [200, 422, 422, 422]
        assert (await admin.group.describe("billing")).lag == 0
        assert (await browser.get("/changes")).text.count("offsets of group billing") == 1


async def test_a_plan_of_long_ago_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it showed is not what would happen now."""
    async with planned() as (browser, admin, plan):
        monkeypatch.setattr(offsets, "PLAN_AGE_S", -1.0)
        late = await browser.post("/groups/billing/reset/apply", {"plan": plan})
        assert late.status == 422 and "too old" in late.text
        assert (await admin.group.describe("billing")).lag == 10


async def test_a_plan_of_a_topic_that_was_made_anew_is_not_done() -> None:
    """The group would pass over messages that nobody has sent yet when it was shown."""
    async with planned() as (browser, admin, plan):
        await admin.topic.delete("orders")
        await admin.create_topic("orders", queues=1)
        refused = await browser.post("/groups/billing/reset/apply", {"plan": plan})
        assert refused.status == 422 and "made anew" in refused.text, refused.text
        assert (await admin.group.describe("billing")).lag == 0
