"""Who is let in, as what: users of the cluster, `admin`, and whoever sits at this machine."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, DummyCookieJar
from support.servers.live_console import Browser, live_console

from aerobee.admin import AdminClient
from aerobee.admin.access import new_entry
from aerobee.client.settings import ClientSettings
from aerobee.console.sight import Sight
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.testing import EmbeddedCluster

ROOT = "root"
SECRET = "the root's secret"
ASKING = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": ROOT, "password": SECRET}),
    "inner_client_authentication_credentials": json.dumps(
        {"accessKey": "inner", "secretKey": "the inner secret"}
    ),
}


@asynccontextmanager
async def asking(**settings: Any) -> AsyncIterator[tuple[EmbeddedCluster, AdminClient]]:
    """Yield a cluster that asks who somebody is, and a client of its super user."""
    async with EmbeddedCluster(broker_settings={**ASKING, **settings}) as cluster:
        credentials = SessionCredentials(ROOT, SECRET)
        async with AdminClient(
            cluster.namesrv_addr, settings=ClientSettings(credentials=credentials)
        ) as admin:
            yield cluster, admin


async def is_in(browser: Browser) -> bool:
    """Whether the first page is shown, and not the login."""
    return "<h1>Overview" in (await browser.get("/")).text


async def becomes(browser: Browser, text: str) -> bool:
    """Whether the first page has a text, after a while."""
    for _ in range(200):
        if text in (await browser.get("/")).text:
            return True
        await asyncio.sleep(0.1)
    return False


async def test_a_super_user_is_an_admin_and_sees_no_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Brokers show passwords to super users; no page and no line of the log does."""
    caplog.set_level(logging.DEBUG)
    async with asking() as (cluster, _), live_console(cluster.namesrv_addr) as browser:
        shown = await browser.log_in(ROOT, SECRET)
        assert shown.status == 200 and "(admin)" in shown.text
        made = await browser.post("/users", {"name": "ann", "secret": "ann's own secret"})
        assert made.status == 200 and "User ann made" in made.text, made.text
        pages = [await browser.get(path) for path in ("/users", "/users/root", "/users/ann")]
        pages += [await browser.get("/brokers/broker-a/settings"), await browser.get("/changes")]
        assert all(page.status == 200 for page in pages)
        everything = "".join(page.text for page in pages) + caplog.text
        for secret in (SECRET, "ann's own secret", "the inner secret", "root&#39;s", "ann&#39;s"):
            assert secret not in everything


async def test_a_wrong_secret_and_an_unknown_name_are_told_alike() -> None:
    """Nobody learns which names there are."""
    async with asking() as (cluster, _), live_console(cluster.namesrv_addr) as browser:
        wrong = await browser.log_in(ROOT, "guessed")
        unknown = await browser.log_in("nobody", "guessed")
        assert wrong.status == unknown.status == 403
        assert wrong.text == unknown.text and "wrong name or password" in wrong.text


async def test_roles_are_those_of_the_policies_and_brokers_decide() -> None:
    """Who may look is a reader, who may change topics an operator; both see what they may do."""
    async with asking() as (cluster, admin), live_console(cluster.namesrv_addr) as browser:
        servers = await admin.access.servers()
        await admin.access.create_user(
            UserInfo(username="ann", password="ann's own secret"), servers
        )
        none = await browser.log_in("ann", "ann's own secret")
        assert none.status == 403 and "Cluster:DefaultCluster" in none.text
        await admin.access.put_entries("ann", [new_entry("Cluster:*", ["Get"])], servers)
        shown = await browser.log_in("ann", "ann's own secret")
        assert shown.status == 200 and "(reader)" in shown.text
        refused = await browser.post("/topics-new", {"topic": "orders"})
        assert refused.status == 403 and "takes the role operator" in refused.text
        assert (await browser.get("/users")).status == 403

        may = new_entry("Topic:own_*", ["Create", "Get"])
        await admin.access.put_entries("ann", [may], servers)
        shown = await browser.log_in("ann", "ann's own secret")
        assert "(operator)" in shown.text
        made = await browser.post("/topics-new", {"topic": "own_orders"})
        assert made.status == 200, made.text
        refused = await browser.post("/topics-new", {"topic": "orders"})
        assert refused.status == 403 and "no matched policies" in refused.text
        assert "An admin can allow it" in refused.text


class AskingEverywhere(EmbeddedCluster):
    """Nameservers ask, too, even for routes."""

    def _namesrv_settings(self, index: int) -> NamesrvSettings:
        more = {**ASKING, "routes_authentication_enabled": True}
        return super()._namesrv_settings(index).model_copy(update=more)


async def test_a_nameserver_that_asks_is_asked_in_the_users_name() -> None:
    """Nobody else finds out there which brokers could be asked."""
    async with (
        AskingEverywhere(broker_settings=ASKING) as cluster,
        live_console(cluster.namesrv_addr) as browser,
    ):
        wrong = await browser.log_in(ROOT, "guessed")
        assert wrong.status == 403 and "wrong name or password" in wrong.text
        assert "(admin)" in (await browser.log_in(ROOT, SECRET)).text
        assert (await browser.get("/topics")).status == 200


async def test_brokers_that_ask_nobody_prove_nobody() -> None:
    """Where every signature passes, none is a proof; nor where names alone are looked at."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        shown = await browser.log_in(ROOT, "anything")
        assert shown.status == 403 and "has no users" in shown.text
    by_name = {"authentication_enabled": False}
    async with asking(**by_name) as (cluster, _), live_console(cluster.namesrv_addr) as browser:
        assert (await browser.log_in(ROOT, "anything")).status == 403
        assert (await browser.log_in("inner", "anything")).status == 403


async def test_open_codes_prove_nobody() -> None:
    """What nobody has to sign is no question about a secret."""
    settings = {"authentication_whitelist": "26,28"}
    async with asking(**settings) as (cluster, _), live_console(cluster.namesrv_addr) as browser:
        assert (await browser.log_in(ROOT, "anything")).status == 403


async def test_with_a_password_nobody_is_let_in_unasked() -> None:
    """From this machine neither."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr, console_password="correct horse") as browser,
    ):
        shown = await browser.get("/topics?q=a")
        assert shown.path == "/login?next=/topics?q%3Da"
        assert (await browser.log_in("admin", "wrong")).status == 403
        assert not await is_in(browser)
        assert (await browser.log_in("admin", "correct horse")).status == 200
        assert await is_in(browser)
        await browser.post("/logout", {})
        assert not await is_in(browser)


async def test_nobody_is_this_machine_by_a_name_or_a_proxy() -> None:
    """A foreign page whose name leads here, and whom a proxy brings, are asked to log in."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        for headers in ({"Host": "evil.example"}, {"X-Forwarded-For": "10.0.0.1"}):
            async with browser.session.get(
                browser.url, headers=headers, allow_redirects=False
            ) as reply:
                assert reply.status == 303 and "/login" in reply.headers["Location"]
        assert await is_in(browser)


async def test_nobody_may_exceed_what_the_console_offers() -> None:
    """`consoleRoleMax=reader` is a console to look at."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr, console_role_max="reader") as browser,
    ):
        assert "(reader)" in (await browser.get("/")).text
        assert (await browser.post("/topics-new", {"topic": "orders"})).status == 403


async def test_guesses_are_slowed_before_a_broker_is_asked() -> None:
    """After ten of one address it has to wait; a right password does not help then."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr, console_password="correct horse") as browser,
    ):
        statuses = [(await browser.log_in("admin", "wrong")).status for _ in range(12)]
        assert statuses[:10] == [403] * 10 and statuses[-1] == 429
        late = await browser.log_in("admin", "correct horse")
        assert late.status == 429 and int(late.headers["Retry-After"]) >= 1


async def test_behind_a_proxy_addresses_are_those_that_it_adds() -> None:
    """One who guesses there does not lock the others out, whatever address he claims himself."""
    settings = {"console_password": "correct horse", "console_behind_tls": True}
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr, **settings) as one:
        fields = {"name": "admin", "password": "wrong"}
        for number in range(11):
            told = {"X-Forwarded-For": f"10.0.0.{number}, 192.0.2.1"}
            guessed = await one.post("/login", fields, **told)
        assert guessed.status == 429
        other = await one.post("/login", fields, **{"X-Forwarded-For": "192.0.2.2"})
        assert other.status == 403


@pytest.mark.parametrize("target", ["//evil.example", "https://127.0.0.1/", "/\\evil.example", "x"])
async def test_a_login_leads_to_no_other_place(target: str) -> None:
    """Whoever made the link does not decide where one lands."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr, console_password="correct horse") as browser,
    ):
        fields = {"name": "admin", "password": "correct horse", "next": target}
        assert (await browser.post("/login", fields)).path == "/"


async def test_who_names_no_server_is_not_from_this_machine() -> None:
    """A proxy of old passes on no name, and would bring everybody in."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        host, port = browser.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = (await reader.read()).decode()
        writer.close()
        assert "303" in answer.splitlines()[0] and "/login" in answer, answer


@pytest.mark.parametrize(
    "headers", [{"X-Forwarded-Proto": "https"}, {"X-Forwarded-Host": "console"}, {"Via": "1.1 a"}]
)
async def test_whom_a_proxy_brings_is_not_from_this_machine(headers: dict[str, str]) -> None:
    """Whatever it says of itself."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        assert "<h1>Overview" not in (await browser.get("/", **headers)).text
        assert await is_in(browser)


async def test_behind_a_proxy_nobody_is_from_this_machine() -> None:
    """One that says nothing of itself would bring everybody in as an admin."""
    async with (
        EmbeddedCluster() as cluster,
        live_console(cluster.namesrv_addr, console_behind_tls=True) as browser,
    ):
        assert not await is_in(browser)


async def test_who_keeps_no_cookie_is_no_other_viewer() -> None:
    """Each request of his would be the first one of somebody who may do much at once."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        async with ClientSession(cookie_jar=DummyCookieJar()) as session:

            async def status() -> int:
                async with session.get(f"{browser.url}/messages") as reply:
                    return reply.status

            statuses = await asyncio.gather(*(status() for _ in range(100)))
        assert statuses.count(200) >= 20 and 429 in statuses


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_what_a_foreign_page_embeds_is_nobodys(site: str) -> None:
    """It sees no answer, but brokers would be asked; a link of it leads here all the same."""
    async with EmbeddedCluster() as cluster, live_console(cluster.namesrv_addr) as browser:
        assert await is_in(browser)
        for kind in ("image", "iframe", "empty"):
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": kind}
            shown = await browser.get("/messages?topic=orders", **headers)
            assert shown.path.startswith("/login"), shown.path
        linked = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document"}
        assert "<h1>Overview" in (await browser.get("/", **linked)).text


async def test_who_is_shut_out_sees_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the console looks at in its own name it showed him for twelve hours."""
    monkeypatch.setattr("aerobee.console.app.SWEEP_MS", 50)
    own = json.dumps({"accessKey": ROOT, "secretKey": SECRET})
    async with (
        asking() as (cluster, admin),
        live_console(cluster.namesrv_addr, console_credentials=own) as browser,
    ):
        servers = await admin.access.servers()
        await admin.access.create_user(
            UserInfo(username="ann", password="ann's own secret"), servers
        )
        may = new_entry("Cluster:*", ["Get", "Update"])
        await admin.access.put_entries("ann", [may], servers)
        assert "(admin)" in (await browser.log_in("ann", "ann's own secret")).text

        await admin.access.put_entries("ann", [new_entry("Cluster:*", ["Get"])], servers)
        assert await becomes(browser, "(reader)")
        await admin.access.alter_user(UserInfo(username="ann", user_status="disable"), servers)
        assert await becomes(browser, 'name="password"')


async def test_a_secret_is_forgotten_with_the_session() -> None:
    """Nor are there connections left that are signed with it."""
    with pytest.MonkeyPatch.context() as patch:
        closed: list[object] = []
        close = Sight.close

        async def noted(sight: Sight) -> None:
            closed.append(sight.admin.settings.credentials)
            await close(sight)

        patch.setattr(Sight, "close", noted)
        async with asking() as (cluster, _), live_console(cluster.namesrv_addr) as browser:
            await browser.log_in(ROOT, SECRET)
            assert closed == []
            await browser.post("/logout", {})
            assert closed == [SessionCredentials(ROOT, SECRET)]
