"""A broker that takes connections and says nothing: it is shown as such, and blocks nothing."""

from support.asker import BODY, BROKER
from support.servers.live_console import live_console
from support.stand_ins.silent_server import SilentServer

from aerobee.admin import AdminClient
from aerobee.client.settings import ClientSettings
from aerobee.console.reach import ViewerAdmin
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import Unavailable
from aerobee.testing import EmbeddedCluster


async def register(admin: AdminClient, address: str) -> None:
    """Have the nameserver believe that there is a broker; it is one as long as `admin` is open."""
    ext = BROKER | {"brokerAddr": address, "brokerName": "broker-silent"}
    await admin.connections.call(admin.namesrv[0], RequestCode.REGISTER_BROKER, ext, BODY)


async def test_pages_show_the_others_and_name_the_silent_one() -> None:
    """Every page, and what it does not know stays blank."""
    async with (
        EmbeddedCluster() as cluster,
        SilentServer() as silent,
        AdminClient(cluster.namesrv_addr) as admin,
        live_console(cluster.namesrv_addr, console_timeout_ms=300) as browser,
    ):
        await cluster.create_topic("orders", queues=1)
        await register(admin, silent.address)
        for path in (
            "/topics",
            "/topics/orders",
            "/groups",
            "/configuration",
            "/waiting",
            "/brokers",
        ):
            shown = await browser.get(path)
            assert shown.status == 200, (path, shown.text)
            assert "broker-silent" in shown.text, path
        while "silent" not in (shown := await browser.get("/overview/live")).text:
            pass
        assert silent.address in shown.text and "serves" in shown.text


async def test_who_did_not_answer_is_not_waited_for_again_at_once() -> None:
    """After its time it is asked again."""
    now_s = 0.0
    asked: list[str] = []

    async def question(address: str) -> str:
        asked.append(address)
        if address == "b":
            raise Unavailable("says nothing")
        return "fine"

    admin = ViewerAdmin("127.0.0.1:1", ClientSettings(), lambda: now_s)
    brokers = {"broker-a": "a", "broker-b": "b"}
    for _ in range(3):
        answers = await admin.each(brokers, question)
        assert list(answers.found) == ["broker-a"] and list(answers.failed) == ["broker-b"]
    assert asked == ["a", "b", "a", "a"]
    now_s = 6.0
    await admin.each(brokers, question)
    assert asked[-2:] == ["a", "b"]
    await admin.close()
