"""One message: what it says, who it is, and its path."""

import re
from typing import Final

from aiohttp import web

from aerobee.client.received import ReceivedMessage
from aerobee.console.messages.bodies import shown_body, visible
from aerobee.console.messages.looking import look_at
from aerobee.console.messages.places import message_url
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.remoting.message.properties import PROPERTY_NAMES

PLACE: Final = "/messages/{topic}/{broker}/{queue:[0-9]{1,9}}/{offset:[0-9]{1,18}}"
_UNSAFE: Final = re.compile(r"[^\w.-]+")


async def show(visit: Visit) -> web.StreamResponse:
    """Show one message; its path comes by itself, or by a link."""
    message = await _read(visit)
    body = shown_body(message.body, visit.query("as"))
    own = {name: value for name, value in message.properties.items() if name in PROPERTY_NAMES}
    return visit.page(
        "messages/one.html",
        message=message,
        body=body,
        own=sorted((name, visible(value)) for name, value in own.items()),
        given=sorted(
            (visible(name), visible(value)) for name, value in message.user_properties.items()
        ),
        message_url=message_url,
    )


async def path(visit: Visit) -> web.StreamResponse:
    """Show where the message went, as a part of its page or as one of its own."""
    message = await _read(visit)
    track = await visit.admin.track.of(message)
    template = "messages/_path.html" if visit.is_fragment else "messages/path.html"
    return visit.page(template, message=message, track=track, message_url=message_url)


async def download(visit: Visit) -> web.StreamResponse:
    """Give the body as a file, which no browser shows."""
    message = await _read(visit)
    name = _UNSAFE.sub("-", f"{message.queue.topic}-{message.queue[2]}-{message.queue_offset}")
    return web.Response(
        body=bytes(message.body),
        content_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}.bin"'},
    )


async def _read(visit: Visit) -> ReceivedMessage:
    """Return the message of an address; raises InvalidUse where there is none."""
    return await look_at(
        visit.admin.message,
        visit.path("topic"),
        visit.path("broker"),
        int(visit.path("queue")),
        int(visit.path("offset")),
    )


PAGE: Final = ConsolePage(
    "Message",
    "",
    (
        PageRoute("GET", PLACE, show),
        PageRoute("GET", f"{PLACE}/path", path, costly=True),
        PageRoute("GET", f"{PLACE}/body", download),
    ),
)
