"""Addresses of pages that others lead to."""

import re
from typing import Final
from urllib.parse import quote, unquote

from aerobee.client.message import MessageQueue

_MESSAGE: Final = re.compile(r"/messages/([^/]+)/([^/]+)/([0-9]{1,9})/([0-9]{1,18})")


def message_url(queue: MessageQueue, offset: int, part: str = "") -> str:
    """Return where one message is shown, or with `part` something of it: "/body", "/path"."""
    topic, broker, queue_id = queue
    return f"/messages/{quote(topic, safe='')}/{quote(broker, safe='')}/{queue_id}/{offset}{part}"


def message_place(url: str) -> tuple[str, str, int, int] | None:
    """Return topic, broker, queue and offset of an address, None where it is no message's."""
    found = _MESSAGE.fullmatch(url)
    if found is None:
        return None
    return unquote(found[1]), unquote(found[2]), int(found[3]), int(found[4])
