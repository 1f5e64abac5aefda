"""The message browser: a topic's messages by time, offset, key, id, tag and text."""

import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from aiohttp import web

from aerobee.admin.client import AdminClient
from aerobee.admin.reading import MessageFilter, QueueSpan
from aerobee.client.errors import InvalidUse
from aerobee.console.messages.looking import LookedAt, LookFor, MessageRow, look_newest, look_oldest
from aerobee.console.messages.moments import moment_of
from aerobee.console.messages.places import message_url
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.remoting.errors import AerobeeError

LIMITS: Final = (25, 50, 100)
NEWEST, OLDEST = "newest", "oldest"
ANY_TAG: Final = "*"
FIELDS: Final = (
    "topic", "broker", "queue", "since", "until", "offset", "key", "id", "tag", "text", "order",
)  # fmt: skip
OFFSET_MAX: Final = 2**63 - 1


class MessageQuestion(msgspec.Struct, frozen=True):
    """What somebody filled in: texts as he wrote them, and where his page begins."""

    fields: Mapping[str, str]
    limit: int
    at_ms: int | None
    skip: int
    live: bool

    @classmethod
    def of(cls, visit: Visit) -> "MessageQuestion":
        """Read the address of a page."""
        at = visit.query("at")
        return cls(
            {name: visit.query(name) for name in FIELDS},
            visit.number("limit", LIMITS[1], LIMITS[0], LIMITS[-1]),
            int(at) if at.isascii() and at.isdecimal() and len(at) < 16 else None,
            visit.number("skip", 0, 0, 10_000_000),
            visit.query("live") == "1",
        )

    @property
    def is_newest(self) -> bool:
        """Whether the newest messages come first."""
        return self.fields["order"] != OLDEST and not self.fields["offset"]

    @property
    def can_be_live(self) -> bool:
        """Whether what comes belongs on this page: its first one is, the newest first."""
        named = any(self.fields[name] for name in ("key", "id", "until"))
        return self.is_newest and self.at_ms is None and not named

    def url(self, **more: object) -> str:
        """Return the address of the same question, with a few answers changed."""
        query = {name: value for name, value in self.fields.items() if value}
        query |= {"limit": str(self.limit)} | {name: str(value) for name, value in more.items()}
        return f"/messages?{urlencode(query)}"


async def show(visit: Visit) -> web.StreamResponse:
    """Show the form and, once a topic is named, its messages."""
    asked = MessageQuestion.of(visit)
    values: dict[str, Any] = {"asked": asked, "limits": LIMITS, "trouble": "", "found": None}
    values |= {"message_url": message_url, "can_be_live": asked.can_be_live}
    status = 200
    if asked.fields["topic"]:
        try:
            values |= await _found(visit.admin, asked)
        except InvalidUse as error:
            values["trouble"], status = str(error), 422
    template = "messages/_found.html" if visit.is_fragment else "messages/all.html"
    return visit.page(template, status if not visit.is_fragment else 200, **values)


async def _found(admin: AdminClient, asked: MessageQuestion) -> dict[str, Any]:
    fields = asked.fields
    if fields["key"] or fields["id"]:
        return await _by_index(admin, fields)
    now_ms = time.time_ns() // 1_000_000
    since_ms, until_ms = (moment_of(fields[name], now_ms) for name in ("since", "until"))
    wanted = MessageFilter(
        tags=fields["tag"] or ANY_TAG,
        text=fields["text"].encode() or None,
        since_ms=since_ms,
        until_ms=until_ms,
    )
    if asked.is_newest:
        from_ms = until_ms if asked.at_ms is None else asked.at_ms
        spans = await _spans(admin, fields, since_ms, from_ms)
        look = LookFor(wanted=wanted, from_ms=from_ms, skip=asked.skip, limit=asked.limit)
        found = await look_newest(admin.message, spans, look)
    else:
        from_ms = since_ms if asked.at_ms is None else asked.at_ms
        spans = await _spans(admin, fields, from_ms, until_ms)
        look = LookFor(wanted=wanted, from_ms=from_ms, skip=asked.skip, limit=asked.limit)
        found = await look_oldest(admin.message, spans, look)
    return {"found": found, "spans": spans, "more": _more(asked, found)}


async def _by_index(admin: AdminClient, fields: Mapping[str, str]) -> dict[str, Any]:
    """Find by a key or an id; the other fields do not count. They are all held, so they are few."""
    key, message_id = fields["key"] or None, fields["id"] or None
    if key and message_id:
        raise InvalidUse("give one of key and id")
    answer = await admin.message.find(
        fields["topic"], key=key, message_id=message_id, messages_max=LIMITS[0]
    )
    rows = [MessageRow.of(each) for each in (*answer.messages, *answer.unreadable)]
    rows.sort(key=lambda each: each.place, reverse=True)
    return {
        "found": LookedAt(rows, len(rows), False),
        "spans": [],
        "more": None,
        "failed": answer.failed,
        "incomplete": not answer.complete,
    }


async def _spans(
    admin: AdminClient, fields: Mapping[str, str], begin_ms: int | None, end_ms: int | None
) -> list[QueueSpan]:
    """Return what of the chosen queues lies between two times, the last one included."""
    topic, broker = fields["topic"], fields["broker"] or None
    queue_id = _number(fields, "queue")
    offset = _number(fields, "offset")
    spans = await admin.message.spans(topic, broker=broker, queue_id=queue_id, since_ms=begin_ms)
    if offset is not None:
        if queue_id is None:
            raise InvalidUse("an offset counts the messages of one queue: name the queue, too")
        spans = [msgspec.structs.replace(each, first=_within(offset, each)) for each in spans]
    if end_ms is not None:
        later = await admin.message.spans(
            topic, broker=broker, queue_id=queue_id, since_ms=end_ms + 1
        )
        ends = {each.queue: each.first for each in later}
        spans = [
            msgspec.structs.replace(each, end=max(each.first, min(each.end, ends[each.queue])))
            for each in spans
            if each.queue in ends
        ]
    return spans


def _within(offset: int, span: QueueSpan) -> int:
    return min(max(offset, span.first), span.end)


def _number(fields: Mapping[str, str], name: str) -> int | None:
    text = fields[name]
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidUse(f"{name} {text!r} is no number")
    return int(text)


def _more(asked: MessageQuestion, found: LookedAt) -> str | None:
    """Return the address of the next page."""
    if found.next_ms is None:
        return None
    if asked.fields["offset"] and found.rows:
        last = max(each.offset for each in found.rows)
        return MessageQuestion(
            {**asked.fields, "offset": str(last + 1)}, asked.limit, None, 0, False
        ).url()
    return asked.url(at=found.next_ms, skip=found.skip)


async def offer(visit: Visit) -> web.StreamResponse:
    """Offer topics whose names hold what was typed so far."""
    typed = visit.query("topic").lower()
    try:
        names = await visit.sight.ask("topics", visit.sight.admin.topics, age_s=10.0)
    except AerobeeError:
        names = []
    offered = [name for name in names if typed in name.lower()][:20]
    return visit.page("messages/_topics.html", offered=offered)


PAGE: Final = ConsolePage(
    "Messages",
    "/messages",
    (
        PageRoute("GET", "/messages", show, costly=True),
        PageRoute("GET", "/messages-topics", offer),
    ),
)
