"""Users and policies through a browser, where a cluster keeps none."""

from support.servers.live_console import live_console

from aerobee.testing import EmbeddedCluster


async def test_a_cluster_without_users_says_how_to_have_some() -> None:
    """It is no error."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        shown = await browser.get("/users")
        assert shown.status == 200 and "authenticationEnabled=true" in shown.text
