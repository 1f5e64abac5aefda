"""The first page: what the brokers are doing, and which of them say nothing."""

import asyncio
import json
import re

import pytest
from support.servers.live_console import live_console

from aerobee.admin.brokers import BrokerAdmin
from aerobee.remoting.errors import Unavailable
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


async def test_a_broker_that_is_silent_is_shown_as_such_and_no_sum_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It keeps its line, while the nameserver still has it; what the others do is not all."""
    async with (
        EmbeddedCluster(brokers=2) as cluster,
        live_console(cluster.namesrv_addr) as browser,
    ):
        figures = re.compile(r"<dt>(?:In|Out)[^<]*</dt><dd>([^<]*)</dd>")
        assert "–" not in figures.findall((await browser.get("/")).text)
        (first, _), state = cluster.broker_addrs, BrokerAdmin.state

        async def told(admin: BrokerAdmin, address: str) -> dict[str, str]:
            if address == first:
                raise Unavailable("it says nothing")
            return await state(admin, address)

        monkeypatch.setattr(BrokerAdmin, "state", told)
        columns: list[list[float | None]] = []
        for _ in range(100):
            columns = json.loads((await browser.get("/overview/history")).text)["columns"]
            if columns[1][-1] is None:
                break
            await asyncio.sleep(0.1)
        text = (await browser.get("/overview/live")).text
        assert "1 silent" in text and first in text and text.count(">serves<") == 1
        assert figures.findall(text) == ["–"] * 4
        assert columns[1][-1] is None and columns[2][-1] is None
