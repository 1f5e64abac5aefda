"""Dead letters: which groups have some, why, and sending them again, each once."""

import asyncio
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from aiohttp import web

from aerobee.admin.copies import GROUP_MAX, CopyCounts, TopicCopy, with_producer
from aerobee.admin.dead_letters import (
    RESENDS_MAX,
    origin_topic,
    reason_of,
    resend_rule,
)
from aerobee.admin.groups import RESEND_PREFIX
from aerobee.admin.reading import MessageFilter
from aerobee.client.errors import InvalidUse
from aerobee.client.received import ReceivedMessage
from aerobee.console.listing import ListPage, in_time, matching
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.roles import ConsoleRole
from aerobee.console.sight import Sight
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.words import DLQ_PREFIX

LETTERS_SHOWN: Final = 20
NEWEST_MAX: Final = 1000
"""So far back from the end of a queue letters are shown; all are found among the messages."""
RESENT_MAX: Final = 1000
"""Of one click."""
RESEND_S: Final = 30.0
FIGURES_AGE_S: Final = 2.0
GROUP_ROWS: Final = 25


class DeadRow(msgspec.Struct, frozen=True):
    """A group with a topic of dead letters; None where not every broker answered in time."""

    group: str
    messages: int | None = None
    newest_ms: int | None = None


class DeadLetter(msgspec.Struct, frozen=True):
    """A dead letter as it is listed; times are ms since 1970."""

    at_ms: int
    message_id: str
    topic: str
    keys: str
    reason: str
    place: str


_under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
"""Who is being sent his letters: two at a time would do it twice."""


async def show(visit: Visit) -> web.StreamResponse:
    """List the groups that have dead letters, a page at a time."""
    wanted = visit.query("q")
    names = await visit.sight.topic_names(own=True)
    groups = [name.removeprefix(DLQ_PREFIX) for name in names if name.startswith(DLQ_PREFIX)]
    found = matching(groups, wanted)
    page = ListPage(
        found, visit.number("page", 1, 1, 1 << 31), "/dead-letters", {"q": wanted}, GROUP_ROWS
    )
    rows = await in_time(page.rows, lambda group: _row(visit.sight, group))
    shown = [rows.get(group, DeadRow(group)) for group in page.rows]
    return visit.page("letters/all.html", list=page, rows=shown, wanted=wanted)


async def describe(visit: Visit) -> web.StreamResponse:
    """Show the newest dead letters of a group."""
    group = visit.path("group")
    values = await _letters(visit, group)
    return visit.page("letters/of_group.html", group=group, resends_max=RESENDS_MAX, **values)


async def resend(visit: Visit) -> web.StreamResponse:
    """Send dead letters again, from where the last resend ended."""
    group, form = visit.path("group"), await visit.form()
    limit = _limit(form.get("limit", ""))
    name = RESEND_PREFIX + group
    if len(name) > GROUP_MAX:
        raise InvalidUse(
            f"{name!r} is longer than {GROUP_MAX} characters: aerobee dlq resend takes a --name"
        )
    lock = _under_way.setdefault(group, asyncio.Lock())
    if lock.locked():
        raise InvalidUse(f"Dead letters of {group} are being sent again: wait until that is done.")
    async with lock:
        counts = await _resend(visit, group, name, limit, to_topic=form.get("where") == "topic")
    where = "the topics they came from" if form.get("where") == "topic" else f"group {group}"
    more = "".join(
        f", {number} {what}"
        for number, what in (
            (counts.there, "were there already"),
            (counts.left_out, "left out (sent again too often, or without their topic)"),
            (counts.unreadable, "unreadable"),
        )
        if number
    )
    visit.changed(f"{counts.sent} dead letters of {group} sent to {where}{more}")
    return visit.go(f"/dead-letters/{visit.quoted(group)}")


async def _resend(visit: Visit, group: str, name: str, limit: int, *, to_topic: bool) -> CopyCounts:
    admin = visit.admin
    rule = resend_rule(group, to_topic=to_topic)
    job = TopicCopy(admin.copy_end, admin.copy_end, DLQ_PREFIX + group, name, rule)
    try:
        async with asyncio.timeout(RESEND_S):
            return await with_producer(
                list(admin.namesrv), admin.settings, lambda producer: job.run(producer, limit=limit)
            )
    except TimeoutError:
        visit.changed(f"{job.counts.sent} dead letters of {group} sent again, then time was up")
        raise Unavailable(
            f"{job.counts.sent} dead letters were sent within {RESEND_S:g} s, and not all. The next"
            " resend goes on from there, and sends none twice."
        ) from None


async def _letters(visit: Visit, group: str) -> dict[str, Any]:
    """Return the newest letters of a group, and how many it has."""
    topic, messages = DLQ_PREFIX + group, visit.admin.message
    if await visit.sight.admin.route(topic) is None:
        return {"letters": [], "total": 0}
    whole = await messages.spans(topic)
    total = sum(span.end - span.first for span in whole)
    each = max(1, NEWEST_MAX // len(whole))
    spans = [
        msgspec.structs.replace(span, first=max(span.first, span.end - each)) for span in whole
    ]
    newest: list[ReceivedMessage] = []
    async for message in messages.browse(spans, MessageFilter()):
        newest.append(message)
        del newest[:-LETTERS_SHOWN]
    return {"letters": [_letter(message) for message in reversed(newest)], "total": total}


def _letter(message: ReceivedMessage) -> DeadLetter:
    queue = message.queue
    return DeadLetter(
        message.store_timestamp_ms,
        message.message_id,
        origin_topic(message) or "",
        " ".join(message.keys),
        reason_of(message) if message.damage is None else str(message.damage),
        f"{queue.broker_name} {queue.queue_id} @ {message.queue_offset}",
    )


async def _row(sight: Sight, group: str) -> DeadRow:
    topic = DLQ_PREFIX + group

    async def find() -> DeadRow:
        addresses = await sight.admin.masters_with(topic)
        answers = await sight.admin.each(
            addresses, lambda address: sight.admin.topic.stats(address, topic)
        )
        if answers.failed:
            return DeadRow(group)
        queues = [each for table in answers.found.values() for each in table.offset_table.values()]
        return DeadRow(
            group,
            sum(each.max_offset - each.min_offset for each in queues),
            max((each.last_update_timestamp for each in queues), default=0),
        )

    return await sight.ask(("dead letters", group), find, FIGURES_AGE_S)


def _limit(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= RESENT_MAX):
        raise InvalidUse(f"Send from 1 to {RESENT_MAX} at a time.")
    return int(text)


PAGE: Final = ConsolePage(
    "Dead letters",
    "/dead-letters",
    (
        PageRoute("GET", "/dead-letters", show, costly=True),
        PageRoute("GET", "/dead-letters/{group}", describe, costly=True),
        PageRoute("POST", "/dead-letters/{group}/resend", resend, ConsoleRole.OPERATOR, True),
    ),
)
