"""Replies to pulls that found messages, without a Command for each."""

from typing import Final, NamedTuple

import msgspec

from aerobee.remoting.headers.pull import PullMessageReply
from aerobee.remoting.net.calls import AwaitsReply


class FoundReply(NamedTuple):
    """What such a reply says; the records are a view of what was read, for the time of one call.

    `code` is as a Command has it.
    """

    code: int
    header: PullMessageReply
    body: memoryview

    def kept(self) -> "FoundReply":
        """Return one that may be looked at later."""
        return self._replace(body=memoryview(bytes(self.body)))


class TakesFound(AwaitsReply):
    """Waits for the reply to a pull, and may get a `FoundReply` in place of the Command."""

    __slots__ = ()


class FoundHeader(msgspec.Struct, gc=False, rename={"ext_fields": "extFields"}):
    """A whole JSON header of a reply to a pull, decoded at once."""

    code: int
    ext_fields: PullMessageReply
    opaque: int
    flag: int = 0


decode_found: Final = msgspec.json.Decoder(FoundHeader, strict=False).decode
"""Reads a JSON header; raises MsgspecError, UnicodeError or RecursionError for any other reply."""
