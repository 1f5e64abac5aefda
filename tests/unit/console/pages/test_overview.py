"""The first page: what the brokers are doing, and which of them say nothing."""

from support.servers.live_console import live_console

from aerobee.testing import EmbeddedCluster


async def test_the_brokers_are_shown() -> None:
    """Name, address and state of each; the part that is fetched again shows the same."""
    async with (
        EmbeddedCluster(brokers=2) as cluster,
        live_console(cluster.namesrv_addr) as browser,
    ):
        for path in ("/", "/overview/live"):
            shown = await browser.get(path)
            assert shown.status == 200
            for address in cluster.broker_addrs:
                assert address in shown.text
            assert shown.text.count("serves") == 2


async def test_a_broker_that_is_gone_is_shown_as_silent() -> None:
    """It keeps its line, while the nameserver still has it."""
    async with (
        EmbeddedCluster(brokers=2) as cluster,
        live_console(cluster.namesrv_addr) as browser,
    ):
        await browser.get("/")
        await cluster.nameservers[0].stop()
        shown = await browser.get("/nope")
        assert shown.status == 404 and "There is no such page" in shown.text
