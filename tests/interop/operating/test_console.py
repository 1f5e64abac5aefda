"""The console in a real browser: every page, as people with a mouse, a phone or keys use it."""

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import pytest_asyncio
from support.interop import toolchain
from support.interop.console_scene import Scene, scene
from support.interop.web_browser import Watched, browser, tab
from support.servers.live_console import live_console

from aerobee.remoting.bodies import TopicConfig
from aerobee.testing import EmbeddedCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.needs("chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]

PASSWORD: Final = "correct horse battery"
PHONE: Final = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", **PHONE},
    "phone-dark": {"color_scheme": "dark", **PHONE},
}


DRAWN: Final = "canvas => canvas.toDataURL()"


class Site(NamedTuple):
    """A console over the scene, and a browser."""

    scene: Scene
    url: str
    browser: Any


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Serve a console with a password over a cluster with something on each page."""
    async with (
        scene(tmp_path_factory.mktemp("scene")) as shown,
        live_console(shown.namesrv_addr, console_password=PASSWORD) as console,
        browser() as started,
    ):
        yield Site(shown, console.url, started)


def addresses(scene: Scene) -> dict[str, str]:
    """Return pages that no navigation leads to, by the names of their pictures."""
    return {
        "topic": "/topics/orders",
        "group": "/groups/billing",
        "messages-of-topic": "/messages?topic=orders",
        "message": scene.message,
        "publish-like": f"/publish?like={scene.message}",
        "dead-letter": "/messages?topic=%25DLQ%25invoices",
    }


async def navigation(watched: Watched) -> dict[str, str]:
    """Return the pages of the navigation, by the names of their pictures."""
    links = await watched.page.locator("nav#pages a").evaluate_all(
        "links => links.map(link => link.getAttribute('href'))"
    )
    return {each.strip("/").replace("/", "-") or "overview": each for each in links}


@pytest.mark.parametrize("look", LOOKS)
async def test_every_page_is_sound(site: Site, look: str) -> None:
    """Nothing is logged as an error, refused by the policy, fetched from elsewhere, too wide, or
    kept from people by its markup; pictures of all are left in build/console."""
    async with tab(site.browser, site.url, **LOOKS[look]) as watched:
        await watched.open("/login")
        problems = {"login": await watched.violations()}
        await watched.picture(f"login-{look}")
        await watched.log_in("admin", PASSWORD)
        for name, path in {**await navigation(watched), **addresses(site.scene)}.items():
            await watched.open(path)
            if name == "message":
                await watched.page.locator("ol.path").wait_for()
            if name == "overview":
                await watched.page.locator(".plot canvas").wait_for()
            problems[name] = await watched.violations()
            if overflow := await watched.overflow_px():
                problems[name].append(f"{overflow} px wider than the window")
            await watched.picture(f"{name}-{look}")
        assert {name: found for name, found in problems.items() if found} == {}
        assert watched.complaints == []


async def test_keys_are_enough(site: Site) -> None:
    """Somebody without a mouse logs in, skips the navigation, sends, and chooses a theme."""
    async with tab(site.browser, site.url) as watched:
        page = watched.page
        await watched.open("/login")
        await page.keyboard.type("admin")  # the field has the focus
        await page.keyboard.press("Tab")
        await page.keyboard.type(PASSWORD)
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Overview").wait_for()
        await page.keyboard.press("Tab")
        assert await focused(page, "text") == "Skip to content"
        await page.keyboard.press("Enter")
        assert await focused(page, "id") == "main"
        await watched.open("/publish")
        fields = {"topic": "payments", "tag": "paid", "keys": "p-1", "body": "typed by keys"}
        while fields:
            name = await focused(page, "name")
            if name in fields:
                await page.keyboard.type(fields.pop(name))
            await page.keyboard.press("Tab")
        while await focused(page, "text") != "Send":
            await page.keyboard.press("Tab")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        await page.keyboard.press("Enter")
        await page.get_by_role("status").filter(has_text="was sent to").wait_for()
        assert "typed by keys" in await page.locator("pre.body").inner_text()
        await page.locator("[data-theme-switch]").focus()
        before = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.keyboard.press("Space")
        after = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert before != after
        await watched.open("/")
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == after
        assert watched.complaints == []


async def focused(page: Any, what: str) -> str:
    """Return the text, name or id of what has the focus."""
    script = {
        "text": "document.activeElement.innerText?.trim() ?? ''",
        "name": "document.activeElement.name ?? ''",
        "id": "document.activeElement.id",
    }[what]
    return str(await page.evaluate(script))


async def test_figures_move_by_themselves(site: Site) -> None:
    """Rates are drawn and drawn anew; so is the chart when the theme changes."""
    async with tab(site.browser, site.url) as watched:
        await watched.log_in("admin", PASSWORD)
        canvas = watched.page.locator(".plot canvas")
        await canvas.wait_for()
        first = await canvas.evaluate(DRAWN)
        async with watched.page.expect_response("**/overview/live", timeout=20_000):
            pass
        async with asyncio.timeout(20):
            while True:
                if await canvas.evaluate(DRAWN) != first:
                    break
                await asyncio.sleep(0.2)
        await watched.page.locator("[data-theme-switch]").click()
        await canvas.wait_for()
        assert watched.complaints == []


async def test_messages_are_followed(site: Site) -> None:
    """What is sent meanwhile comes onto the page, the newest first."""
    async with tab(site.browser, site.url) as watched:
        await watched.log_in("admin", PASSWORD)
        await watched.open("/messages?topic=orders")
        await watched.page.get_by_role("link", name="Follow").click()
        first = watched.page.locator("table.messages tbody tr").first
        before = await first.inner_text()
        async with asyncio.timeout(20):
            while True:
                if await first.inner_text() != before:
                    break
                await asyncio.sleep(0.2)
        await watched.page.get_by_role("link", name="Stop").click()
        assert watched.complaints == []


async def test_a_phone_has_a_menu(site: Site) -> None:
    """It is closed until it is touched; what is led to is there."""
    async with tab(site.browser, site.url, **LOOKS["phone"]) as watched:
        await watched.log_in("admin", PASSWORD)
        link = watched.page.get_by_role("link", name="Topics", exact=True)
        assert not await link.is_visible()
        menu = watched.page.get_by_role("button", name="Menu")
        await menu.tap()
        assert await menu.get_attribute("aria-expanded") == "true"
        await watched.picture("menu-phone")
        await link.tap()
        await watched.page.get_by_role("heading", name="Topics").wait_for()
        assert watched.complaints == []


async def test_pages_do_without_scripts(site: Site) -> None:
    """Logging in, the navigation on a phone, messages and a path: links and forms."""
    look = {**LOOKS["phone"], "java_script_enabled": False}
    async with tab(site.browser, site.url, **look) as watched:
        await watched.log_in("admin", PASSWORD)
        await watched.page.get_by_role("link", name="Messages", exact=True).click()
        await watched.page.get_by_label("Topic").fill("orders")
        await watched.page.get_by_role("button", name="Look").click()
        await watched.page.locator("table.messages").wait_for()
        await watched.open(site.scene.message)
        await watched.page.get_by_role("link", name="who consumed it").click()
        await watched.page.get_by_text("gave up: a dead letter").wait_for()
        await watched.picture("path-without-scripts")


async def test_a_session_that_ended_leads_to_the_login(site: Site) -> None:
    """Also for what a page fetches by itself."""
    async with tab(site.browser, site.url) as watched:
        await watched.log_in("admin", PASSWORD)
        watched.refused = 100
        await watched.page.context.clear_cookies()
        await watched.page.get_by_role("heading", name="Log in").wait_for(timeout=20_000)


README_PICTURE: Final = toolchain.PROJECT / "deploy" / "console.png"
KEEP_VARIABLE: Final = "AEROBEE_KEEP_PICTURE"
PICTURE_BYTES_MAX: Final = 300_000
PICTURE_SAMPLES: Final = 30


async def test_the_picture_of_the_readme(site: Site) -> None:
    """What the README shows is this page; `AEROBEE_KEEP_PICTURE=1` puts it there."""
    async with tab(site.browser, site.url, device_scale_factor=1.5) as watched:
        await watched.log_in("admin", PASSWORD)
        async with asyncio.timeout(90):
            while True:
                history = await watched.page.request.get(f"{site.url}/overview/history")
                if len((await history.json())["columns"][0]) >= PICTURE_SAMPLES:
                    break
                await asyncio.sleep(1)
        await watched.page.set_viewport_size({"width": 1120, "height": 640})
        await watched.open("/")
        await watched.page.locator(".plot canvas").wait_for()
        picture = await watched.picture("readme", whole=False)
        if os.environ.get(KEEP_VARIABLE):
            shutil.copy(picture, README_PICTURE)
    assert README_PICTURE.stat().st_size < PICTURE_BYTES_MAX
    sizes = [path.read_bytes()[16:24] for path in (picture, README_PICTURE)]  # of a PNG's head
    assert sizes[0] == sizes[1]


TOPICS: Final = 10_000
FIRST_CPU_S: Final = 1.0
"""Of brokers, nameserver and console together; the first page of them takes 0.1 s."""
NEXT_CPU_S: Final = 0.5


async def test_ten_thousand_topics_are_paged(site: Site, tmp_path: Path) -> None:
    """A page of them costs little, and the browser gets no more than it shows."""
    async with EmbeddedCluster(root=tmp_path) as cluster:
        topics = cluster.brokers[0].context.tables.topics
        for number in range(TOPICS):
            topics.update(TopicConfig(topic_name=f"topic-{number:05}"), {})
        await cluster.brokers[0].context.cluster.registration.announce_all()
        async with (
            live_console(cluster.namesrv_addr, console_password=PASSWORD) as console,
            tab(site.browser, console.url) as watched,
        ):
            await watched.log_in("admin", PASSWORD)
            for path, most_s in (
                ("/topics", FIRST_CPU_S),
                ("/topics?page=100", NEXT_CPU_S),
                ("/topics?q=topic-0777", NEXT_CPU_S),
            ):
                began_s = time.process_time()
                await watched.open(path)
                took_s = time.process_time() - began_s
                assert took_s < most_s, f"{path} took {took_s:.2f} s"
                rows = await watched.page.locator("tbody tr").count()
                assert 0 < rows <= 100
            shown = await watched.page.locator("tbody").inner_text()
            assert len(re.findall(r"topic-0777\d", shown)) == 10
            await watched.picture("ten-thousand-topics")
            assert watched.complaints == []
