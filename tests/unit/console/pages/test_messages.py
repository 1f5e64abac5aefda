"""The message browser, as somebody without scripts sees it."""

import re

import pytest
from support.servers.live_console import Browser, live_console

from aerobee.admin import AdminClient
from aerobee.client import Message, MessageQueue, Producer
from aerobee.console.messages.places import message_url
from aerobee.testing import ClusterThread

LINK = re.compile(r'href="([^"]+)"')


@pytest.fixture
def topic(rocketmq: ClusterThread, request: pytest.FixtureRequest) -> str:
    """A topic of two queues with 60 messages, of which every third has tag t0."""
    name = "seen-" + re.sub(r"\W+", "-", request.node.name)[-80:]
    rocketmq.create_topic(name, 2)

    async def fill() -> None:
        async with Producer("test", namesrv=rocketmq.namesrv_addr) as producer:
            queues = await producer.fetch_queues(name)
            for number in range(60):
                message = Message(
                    name, b'{"number":%d}' % number, tags=f"t{number % 3}", keys=f"key-{number}"
                )
                await producer.send(message, queue=queues[number % 2])

    rocketmq.call(fill())
    return name


def numbers(text: str) -> list[int]:
    """Return the numbers of the messages on a page, in their order."""
    return [int(each) for each in re.findall(r"number&#34;:(\d+)", text)]


async def follow(browser: Browser, text: str) -> str:
    """Follow the link to the next page."""
    (link,) = re.findall(r'rel="next" href="([^"]+)"', text)
    shown = await browser.get(link.replace("&amp;", "&"))
    assert shown.status == 200
    return shown.text


async def test_pages_lead_through_all_messages(rocketmq: ClusterThread, topic: str) -> None:
    """From the newest to the oldest, and the other way."""
    async with live_console(rocketmq.namesrv_addr) as browser:
        for order in ("newest", "oldest"):
            text = (await browser.get(f"/messages?topic={topic}&order={order}&limit=25")).text
            found = numbers(text)
            while 'rel="next"' in text:
                text = await follow(browser, text)
                found += numbers(text)
            assert sorted(found) == [*range(60)]
            is_newest = sum(found[:20]) > sum(found[-20:])
            assert is_newest == (order == "newest")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tag=t1", {*range(1, 60, 3)}),
        ("tag=t1+%7C%7C+t2", {*range(60)} - {*range(0, 60, 3)}),
        ("text=number%22:17", {17}),
        ("key=key-33", {33}),
        ("queue=1&offset=27", {55, 57, 59}),
        ("since=1h&until=1s&tag=none", set()),
    ],
)
async def test_messages_are_found(
    rocketmq: ClusterThread, topic: str, query: str, expected: set[int]
) -> None:
    """By tag, text, key and offset."""
    async with live_console(rocketmq.namesrv_addr) as browser:
        text = (await browser.get(f"/messages?topic={topic}&limit=100&{query}")).text
        assert {*numbers(text)} == expected
        assert expected or "no such message" in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("topic=nowhere", "no topic &#39;nowhere&#39;"),
        ("topic={topic}&offset=5", "name the queue, too"),
        ("topic={topic}&queue=9", "has no such queue"),
        ("topic={topic}&queue=x", "is no number"),
        ("topic={topic}&since=soon", "is no time"),
        ("topic={topic}&key=a&id=b", "one of key and id"),
        ("topic={topic}&key=a+b", "has no spaces"),
    ],
)
async def test_what_cannot_be_looked_for_is_told(
    rocketmq: ClusterThread, topic: str, query: str, said: str
) -> None:
    """In the form, which stays as it was filled in."""
    async with live_console(rocketmq.namesrv_addr) as browser:
        shown = await browser.get(f"/messages?{query.format(topic=topic)}")
        assert shown.status == 422 and said in shown.text and 'action="/messages"' in shown.text


async def test_one_message_is_shown_whole(rocketmq: ClusterThread, topic: str) -> None:
    """Body in its forms, properties, the file, and the path; nothing in it becomes markup."""
    nasty = '<script>alert("x")</script>'
    async with (
        AdminClient(rocketmq.namesrv_addr) as admin,
        live_console(rocketmq.namesrv_addr) as browser,
    ):
        sent = await admin.publish.send(
            Message(topic, nasty.encode(), tags="<b>", properties={"by": "\u202eme<i>"})
        )
        here = message_url(MessageQueue(*sent.queue), sent.queue_offset)
        shown = await browser.get(here)
        assert shown.status == 200 and nasty not in shown.text
        assert "&lt;script&gt;" in shown.text and "\\u202eme&lt;i&gt;" in shown.text
        assert sent.message_id in shown.text and "UNIQ_KEY" in shown.text
        raw = await browser.get(f"{here}?as=hex")
        assert "3c 73 63 72 69 70 74 3e" in raw.text
        file = await browser.get(f"{here}/body")
        assert file.text == nasty
        assert file.headers["Content-Type"] == "application/octet-stream"
        assert file.headers["Content-Disposition"].startswith("attachment")
        for headers in ({}, {"HX-Request": "true"}):
            path = await browser.get(f"{here}/path", **headers)
            assert path.status == 200 and "No group consumes" in path.text
            assert ("<html" in path.text) == (not headers)
        gone = await browser.get(message_url(MessageQueue(*sent.queue), 10**6))
        assert gone.status == 422 and "it has those from 0" in gone.text


async def test_topics_are_offered(rocketmq: ClusterThread, topic: str) -> None:
    """Those that hold what was typed so far, twenty at most."""
    async with live_console(rocketmq.namesrv_addr) as browser:
        offered = await browser.get(f"/messages-topics?topic={topic[5:].upper()}")
        assert f'<option value="{topic}">' in offered.text and "TBW102" not in offered.text


async def test_a_topic_without_messages(rocketmq: ClusterThread) -> None:
    """Says so, in either order."""
    rocketmq.create_topic("seen-nothing", 1)
    async with live_console(rocketmq.namesrv_addr) as browser:
        for order in ("newest", "oldest"):
            shown = await browser.get(f"/messages?topic=seen-nothing&order={order}")
            assert shown.status == 200 and "no such message" in shown.text
            assert 'rel="next"' not in shown.text and "as far as" not in shown.text


async def test_only_the_newest_are_followed(rocketmq: ClusterThread, topic: str) -> None:
    """A page that goes on from another, or ends with a time, stays as it is."""
    async with live_console(rocketmq.namesrv_addr) as browser:
        page = f"/messages?topic={topic}&live=1"
        assert 'hx-trigger="every 3s"' in (await browser.get(page)).text
        for more in ("&order=oldest", "&until=1s", "&at=1700000000000", "&key=key-1"):
            assert 'hx-trigger="every 3s"' not in (await browser.get(page + more)).text
        part = await browser.get(page, **{"HX-Request": "true"})
        assert "<html" not in part.text and len(numbers(part.text)) == 50
