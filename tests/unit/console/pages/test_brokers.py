"""Brokers and their settings through a browser."""

import json

from support.servers.live_console import live_console

from aerobee.admin import AdminClient
from aerobee.remoting.codes import Perm
from aerobee.testing import EmbeddedCluster


async def test_a_setting_says_what_a_change_needs_and_is_changed() -> None:
    """Live ones work at once; which they are is what the broker does, too."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr) as browser,
        AdminClient(cluster.namesrv_addr) as admin,
    ):
        shown = await browser.get("/brokers/broker-a/settings?q=fileReservedTime")
        assert ">at once<" in shown.text and ">after a restart<" not in shown.text
        shown = await browser.get("/brokers/broker-a/settings?q=flushDiskType&key=flushDiskType")
        assert ">after a restart<" in shown.text and "It works after a restart" in shown.text
        path = "/brokers/broker-a/settings"
        done = await browser.post(path, {"key": "fileReservedTime", "value": "24"})
        assert done.status == 200 and "Set fileReservedTime=24 on broker-a" in done.text
        assert (await admin.broker.settings("broker-a"))["fileReservedTime"] == "24"
        wrong = await browser.post(path, {"key": "fileReservedTime", "value": "soon"})
        assert wrong.status == 502 and "fileReservedTime" in wrong.text
        assert "set fileReservedTime=24" in (await browser.get("/changes")).text


async def test_no_secret_of_a_broker_is_shown() -> None:
    """RocketMQ's brokers send theirs; here is nothing to read, whoever sent it."""
    first = json.dumps({"username": "root", "password": "a secret"})
    settings = {"init_authentication_user": first}
    async with (
        EmbeddedCluster(broker_settings=settings) as cluster,
        live_console(cluster.namesrv_addr) as browser,
    ):
        shown = await browser.get("/brokers/broker-a/settings?q=user")
        assert "initAuthenticationUser" in shown.text and "******" in shown.text
        assert "a secret" not in shown.text


async def test_brokers_that_differ_are_shown_side_by_side() -> None:
    """Names, ports and folders differ always."""
    async with EmbeddedCluster(brokers=2) as cluster, live_console(cluster.namesrv_addr) as browser:
        assert "None but names, addresses and folders" in (await browser.get("/configuration")).text
        await browser.post("/brokers/broker-b/settings", {"key": "fileReservedTime", "value": "24"})
        shown = await browser.get("/configuration")
        assert "<code>fileReservedTime</code>" in shown.text and "<td>24</td>" in shown.text


async def test_a_broker_is_taken_out_of_service_and_back() -> None:
    """By the tables of the nameservers."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr) as browser,
        AdminClient(cluster.namesrv_addr) as admin,
    ):
        await cluster.create_topic("orders", queues=1)
        shown = await browser.get("/brokers/broker-a")
        assert "commitLogDiskRatio" in shown.text and cluster.broker_addrs[0] in shown.text
        for path, perm in (("wipe", Perm.READ), ("allow", Perm.READ | Perm.WRITE)):
            assert (await browser.post(f"/brokers/broker-a/{path}", {})).status == 200
            route = await admin.route("orders")
            assert route is not None and route.queue_datas[0].perm == perm
        unknown = await browser.get("/brokers/broker-z")
        assert unknown.status == 422 and "there is broker-a" in unknown.text
