"""Topics: the list of all, one of them with its queues, and changes."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from aerobee.admin.topics import (
    MESSAGE_TYPE,
    MESSAGE_TYPES,
    TopicSettings,
    perm_text,
)
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import InvalidUse
from aerobee.console.listing import ListPage, in_time, matching
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.roles import ConsoleRole
from aerobee.console.sight import Sight
from aerobee.remoting.bodies import TopicRouteData
from aerobee.remoting.codes import Perm

FIGURES_AGE_S: Final = 2.0
QUEUES_MAX: Final = 65_535
QUEUE_ROWS: Final = 100
PERMS: Final = {"rw": Perm.READ | Perm.WRITE, "r": Perm.READ, "w": Perm.WRITE, "-": 0}


class TopicRow(msgspec.Struct, frozen=True):
    """A line of the list: what nameservers know; `messages` and `newest_ms` are of its brokers."""

    name: str
    brokers: list[str]
    queues: int
    perm: str
    messages: int | None = None
    newest_ms: int | None = None


async def show(visit: Visit) -> web.StreamResponse:
    """List the topics, a page at a time, by a part of their names."""
    wanted, own = visit.query("q"), visit.query("own") == "1"
    found = matching(await visit.sight.topic_names(own=own), wanted)
    query = {"q": wanted, "own": "1" if own else ""}
    page = ListPage(found, visit.number("page", 1, 1, 1 << 31), "/topics", query)
    rows = await in_time(page.rows, lambda topic: _row(visit.sight, topic))
    blank = [TopicRow(topic, [], 0, "") for topic in page.rows]
    shown = [rows.get(each.name, each) for each in blank]
    return visit.page("topics/all.html", list=page, rows=shown, wanted=wanted, own=own)


async def describe(visit: Visit) -> web.StreamResponse:
    """Show one topic: settings by broker, queues, groups."""
    topic, sight = visit.path("topic"), visit.sight
    described = await sight.ask(("topic", topic), lambda: sight.admin.topic.describe(topic))
    path = f"/topics/{visit.quoted(topic)}"
    page = ListPage(described.queues, visit.number("page", 1, 1, 1 << 31), path, {}, QUEUE_ROWS)
    return visit.page(
        "topics/one.html",
        topic=topic,
        described=described,
        list=page,
        perm_text=perm_text,
        message_types=MESSAGE_TYPES,
        message_type=MESSAGE_TYPE,
        first=next(iter(described.configs.values()), None),
    )


async def new(visit: Visit) -> web.StreamResponse:
    """Show the form that makes a topic."""
    entries = [each for each in await visit.sight.entries() if each.broker_id == MASTER_ID]
    return visit.page(
        "topics/new.html",
        message_types=MESSAGE_TYPES,
        clusters=sorted({each.cluster for each in entries}),
        brokers=sorted({each.name for each in entries}),
    )


async def create(visit: Visit) -> web.StreamResponse:
    """Make a topic on every broker, or on some."""
    form = await visit.form()
    topic = form.get("topic", "").strip()
    masters = await visit.admin.topic.create(
        topic,
        _settings(form),
        cluster=form.get("cluster") or None,
        broker=form.get("broker") or None,
    )
    visit.changed(f"topic {topic} made on {', '.join(each.name for each in masters)}")
    return visit.go(f"/topics/{visit.quoted(topic)}")


async def alter(visit: Visit) -> web.StreamResponse:
    """Change a topic wherever it is, or on one broker."""
    topic, form = visit.path("topic"), await visit.form()
    changed = await visit.admin.topic.alter(
        topic, _settings(form), broker=form.get("broker") or None
    )
    visit.changed(f"topic {topic} changed on {', '.join(sorted(changed))}")
    return visit.go(f"/topics/{visit.quoted(topic)}")


async def delete(visit: Visit) -> web.StreamResponse:
    """Delete a topic with all its messages, once its name was typed again."""
    topic, form = visit.path("topic"), await visit.form()
    if form.get("confirm", "").strip() != topic:
        raise InvalidUse(f"Nothing was deleted: type {topic} to say that you mean it.")
    masters = await visit.admin.topic.delete(topic)
    visit.changed(f"topic {topic} deleted from {', '.join(each.name for each in masters)}")
    return visit.go("/topics")


async def _row(sight: Sight, topic: str) -> TopicRow:
    """Put together what nameservers and brokers say of a topic."""

    async def find() -> TopicRow:
        route = await sight.admin.route(topic)
        return TopicRow(topic, [], 0, "") if route is None else await _figures(sight, topic, route)

    return await sight.ask(("topic row", topic), find, FIGURES_AGE_S)


async def _figures(sight: Sight, topic: str, route: TopicRouteData) -> TopicRow:
    masters = {
        each.broker_name: each.broker_addrs[MASTER_ID]
        for each in route.broker_datas
        if MASTER_ID in each.broker_addrs
    }
    perms = {perm_text(each.perm) for each in route.queue_datas}
    row = TopicRow(
        topic,
        sorted(each.broker_name for each in route.broker_datas),
        sum(each.read_queue_nums for each in route.queue_datas),
        "/".join(sorted(perms)),
    )
    asked = [each for each in masters.values() if sight.admin.silence(each) is None]
    stats = await in_time(
        asked,
        lambda each: sight.admin.ask_noting(
            each, lambda address: sight.admin.topic.stats(address, topic)
        ),
        timeout_s=1.5,
    )
    if len(stats) < len(masters):  # a sum of some would mislead
        return row
    queues = [queue for table in stats.values() for queue in table.offset_table.values()]
    return msgspec.structs.replace(
        row,
        messages=sum(queue.max_offset - queue.min_offset for queue in queues),
        newest_ms=max((queue.last_update_timestamp for queue in queues), default=0),
    )


def _settings(form: Mapping[str, str]) -> TopicSettings:
    """Read the fields of a topic; what is blank stays as it is."""
    perm = form.get("perm", "")
    if perm and perm not in PERMS:
        raise InvalidUse(f"{perm!r} is no permission: there are {', '.join(PERMS)}")
    values: dict[str, Any] = {
        "read_queues": _queues(form.get("read_queues", "")),
        "write_queues": _queues(form.get("write_queues", "")),
        "perm": PERMS[perm] if perm else None,
    }
    kind = form.get("message_type", "")
    if kind and kind not in MESSAGE_TYPES:
        raise InvalidUse(f"{kind!r} is no type of messages: there are {', '.join(MESSAGE_TYPES)}")
    if kind:
        values["attributes"] = {MESSAGE_TYPE: kind}
    return TopicSettings(**values)


def _queues(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= QUEUES_MAX):
        raise InvalidUse(f"{text!r} is no number of queues from 1 to {QUEUES_MAX}")
    return int(text)


PAGE: Final = ConsolePage(
    "Topics",
    "/topics",
    (
        PageRoute("GET", "/topics", show, costly=True),
        PageRoute("GET", "/topics-new", new, ConsoleRole.OPERATOR),
        PageRoute("POST", "/topics-new", create, ConsoleRole.OPERATOR),
        PageRoute("GET", "/topics/{topic}", describe, costly=True),
        PageRoute("POST", "/topics/{topic}", alter, ConsoleRole.OPERATOR),
        PageRoute("POST", "/topics/{topic}/delete", delete, ConsoleRole.OPERATOR),
    ),
)
