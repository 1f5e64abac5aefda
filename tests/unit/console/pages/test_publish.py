"""Publishing by the form: what is typed is what is sent."""

import asyncio
import base64
import re

import pytest
from support.servers.live_console import live_console

from aerobee.admin import AdminClient
from aerobee.client.errors import InvalidUse
from aerobee.client.received import ReceivedMessage
from aerobee.console.messages.looking import look_at
from aerobee.console.messages.places import message_place
from aerobee.console.pages.publish import EMPTY, message_of
from aerobee.testing import ClusterThread

TOPIC = "published"


@pytest.fixture
def namesrv(rocketmq: ClusterThread) -> str:
    """A cluster with the topic."""
    rocketmq.create_topic(TOPIC, 2)
    return rocketmq.namesrv_addr


async def at(namesrv: str, path: str) -> ReceivedMessage:
    """Return the message that a page is of."""
    place = message_place(path)
    assert place is not None, path
    async with AdminClient(namesrv) as admin:
        return await look_at(admin.message, *place)


async def test_a_message_is_sent_and_shown(namesrv: str) -> None:
    """With its tag, keys and properties; one like it is the same."""
    fields = {
        "topic": TOPIC, "tag": "new", "keys": "k1 k2", "kind": "text", "body": "one\r\ntwo",
        "properties": "by = me\r\nfor=you=all\r\n", "sharding": "s1",
    }  # fmt: skip
    async with live_console(namesrv) as browser:
        await browser.get("/publish")
        shown = await browser.post("/publish", fields)
        assert shown.status == 200 and "was sent to published" in shown.text
        message = await at(namesrv, shown.path)
        assert (message.body, message.tags, message.keys) == (b"one\ntwo", "new", ["k1", "k2"])
        assert message.properties["by"] == "me" and message.properties["for"] == "you=all"
        assert message.properties["__SHARDINGKEY"] == "s1"
        form = (await browser.get(f"/publish?like={shown.path}")).text
        for value in ('value="new"', 'value="k1 k2"', "one\ntwo", "for=you=all", 'value="s1"'):
            assert value in form


async def test_json_and_bytes(namesrv: str) -> None:
    """JSON loses its blanks and nothing else; base64 may be in lines."""
    async with live_console(namesrv) as browser:
        await browser.get("/publish")
        for kind, body, expected in (
            ("json", '{"a": 1.10, "b": [ ]}', b'{"a":1.10,"b":[]}'),
            ("base64", base64.encodebytes(bytes(range(256))).decode(), bytes(range(256))),
        ):
            fields = {"topic": TOPIC, "kind": kind, "body": body}
            shown = await browser.post("/publish", fields)
            assert (await at(namesrv, shown.path)).body == expected
        like = (await browser.get(f"/publish?like={shown.path}")).text
        assert 'value="base64" selected' in like and "AAECAwQF" in like


async def test_a_delayed_one_leads_back_to_the_form(namesrv: str) -> None:
    """It has no place yet."""
    async with live_console(namesrv) as browser:
        await browser.get("/publish")
        for delay in ("level 3", "1h"):
            fields = {"topic": TOPIC, "kind": "text", "body": "x", "delay": delay}
            shown = await browser.post("/publish", fields)
            assert shown.path == f"/publish?topic={TOPIC}" and "waits for its time" in shown.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "json", "body": "{"}, "no JSON"),
        ({"kind": "base64", "body": "*"}, "no base64"),
        ({"body": ""}, "body"),
        ({"delay": "soon"}, "no delay"),
        ({"delay": "level 99"}, "delay_level"),
        ({"properties": "novalue"}, "no property"),
        ({"topic": "bad topic"}, "topic"),
        ({"tag": "a b"}, "tag"),
    ],
)
async def test_what_is_wrong_is_told(namesrv: str, fields: dict[str, str], said: str) -> None:
    """And nothing of the form is lost."""
    async with live_console(namesrv) as browser:
        await browser.get("/publish")
        shown = await browser.post(
            "/publish", {"topic": TOPIC, "kind": "text", "body": "x", "keys": "kept", **fields}
        )
        assert shown.status == 422 and said in shown.text, shown.text
        assert 'value="kept"' in shown.text


async def test_a_form_of_elsewhere_sends_nothing(namesrv: str) -> None:
    """Without the token of the session, or from another page."""
    fields = {"topic": TOPIC, "kind": "text", "body": "forged"}
    async with live_console(namesrv) as browser:
        await browser.get("/publish")
        assert (await browser.post("/publish", {**fields, "csrf": "x"})).status == 403
        foreign = await browser.post("/publish", fields, **{"Sec-Fetch-Site": "cross-site"})
        assert foreign.status == 403
        found = (await browser.get(f"/messages?topic={TOPIC}&text=forged")).text
        assert re.search("no such message|None of the", found)


async def test_readers_do_not_publish(namesrv: str) -> None:
    """The page is not theirs, nor in their navigation."""
    async with live_console(namesrv, console_role_max="reader") as browser:
        assert 'href="/publish"' not in (await browser.get("/")).text
        assert (await browser.get("/publish")).status == 403


def test_a_line_that_is_no_property_is_named() -> None:
    """So that it is found among many."""
    with pytest.raises(InvalidUse, match="'broken'"):
        message_of({**EMPTY, "topic": "t", "body": "x", "properties": "a=1\nbroken"})


async def test_a_double_click_sends_once(namesrv: str) -> None:
    """The same form with the same message; with another one it is meant."""
    async with live_console(namesrv) as browser, AdminClient(namesrv) as admin:
        form = (await browser.get("/publish")).text
        once = re.search(r'name="once" value="([^"]+)"', form)
        assert once
        fields = {"topic": TOPIC, "body": "twice?", "kind": "text", "once": once[1]}
        spans = await admin.message.spans(TOPIC)
        before = sum(each.end - each.first for each in spans)
        shown = await asyncio.gather(*(browser.post("/publish", fields) for _ in range(3)))
        assert sorted(each.status for each in shown) == [200, 409, 409]
        late = await browser.post("/publish", fields)
        assert late.status == 409 and "sent already" in late.text and "twice?" in late.text
        assert (await browser.post("/publish", {**fields, "body": "other"})).status == 200
        spans = await admin.message.spans(TOPIC)
        assert sum(each.end - each.first for each in spans) == before + 2


async def test_a_property_that_delays_leads_to_no_place(namesrv: str) -> None:
    """Its message is not in the topic yet."""
    async with live_console(namesrv) as browser:
        await browser.get("/publish")
        fields = {"topic": TOPIC, "body": "x", "kind": "text", "properties": "DELAY=18"}
        shown = await browser.post("/publish", fields)
        assert shown.status == 200 and "waits for its time" in shown.text, shown.text
