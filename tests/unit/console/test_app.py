"""What every page has: headers that keep foreign code out, forms that are meant, an answer."""

import pytest
from support.servers.live_console import live_console

from aerobee.admin import AdminClient
from aerobee.console.app import Console
from aerobee.console.pages.listed import PAGES
from aerobee.console.settings import ConsoleSettings
from aerobee.testing import EmbeddedCluster


async def test_no_page_lets_foreign_code_in() -> None:
    """Every answer, of an error too, forbids what this server does not give; no page has any."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        for path in (*(page.path for page in PAGES if page.path), "/login", "/nope"):
            shown = await browser.get(path)
            policy = shown.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy
            assert " style=" not in shown.text and " on" + "click=" not in shown.text
            assert shown.headers["Cache-Control"] == "no-store"


async def test_a_change_is_made_by_a_form_of_the_session_alone() -> None:
    """No token, a wrong one, or a browser that names a foreign page: nothing is done."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr) as browser,
        AdminClient(cluster.namesrv_addr) as admin,
    ):
        await browser.get("/")
        fields = {"topic": "orders"}
        token, browser.csrf = browser.csrf, ""
        assert (await browser.post("/topics-new", fields)).status == 403
        browser.csrf = "guessed"
        assert (await browser.post("/topics-new", fields)).status == 403
        browser.csrf = token
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://localhost:1"}):
            assert (await browser.post("/topics-new", fields, **headers)).status == 403
        assert await admin.route("orders") is None
        browser.csrf = ""
        done = await browser.post("/topics-new", fields, **{"X-CSRF-Token": token})
        assert done.status == 200 and await admin.route("orders") is not None


async def test_a_get_changes_nothing() -> None:
    """What has an effect is a POST: nobody makes it by a link."""
    changing = {"create", "alter", "delete", "apply", "resend", "decide", "forget", "wipe"}
    for page in PAGES:
        for route in page.routes:
            assert route.method in ("GET", "POST")
            assert route.method == "POST" or route.handler.__name__ not in changing, route.path


async def test_assets_are_kept_by_their_hashes() -> None:
    """A browser keeps them for ever, and another content has another address."""
    console = Console(ConsoleSettings())
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        url = console.assets.url("console.css")
        assert url in (await browser.get("/")).text
        kept = await browser.get(url)
        assert kept.status == 200 and "immutable" in kept.headers["Cache-Control"]
        assert (await browser.get("/static/0000000000000000/console.css")).status == 404


async def test_an_error_is_told_in_the_place_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A part of a page gets a part; what nobody foresaw is in the log, not in the page."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        part = await browser.get("/groups/nobody/live", **{"HX-Request": "true"})
        assert part.status == 422 and "no group" in part.text and "<html" not in part.text

        def fault(*_: object, **__: object) -> None:
            raise ValueError("inner words")

        monkeypatch.setattr("aerobee.console.sight.Sight.topic_names", fault)
        shown = await browser.get("/topics")
        assert shown.status == 500 and "inner words" not in shown.text
        assert "inner words" in caplog.text


async def test_without_a_nameserver_pages_say_so_and_what_to_do() -> None:
    """None of them hangs, and none is blank."""
    async with live_console("127.0.0.1:1") as browser:
        for path in ("/", "/topics", "/groups", "/brokers", "/configuration", "/waiting"):
            shown = await browser.get(path)
            assert shown.status in (200, 504), path
            assert "127.0.0.1:1" in shown.text, path
