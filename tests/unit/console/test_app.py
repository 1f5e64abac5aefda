"""What every page has: headers that keep foreign code out, forms that are meant."""

from support.servers.live_console import live_console

from aerobee.testing import EmbeddedCluster


async def test_no_page_lets_foreign_code_in() -> None:
    """Every answer, of an error too, forbids what this server does not give."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        for path in ("/", "/login", "/nope"):
            policy = (await browser.get(path)).headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy
