"""Requests to send as bytes: headers made ready once for each queue, filled in for each message."""

import re
from typing import Final

import msgspec

from aerobee.client.message import MessageQueue
from aerobee.client.sending.outgoing import BATCH, SINGLE, Outgoing
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.command import FLAG_ONEWAY, VERSION, Language, language_name
from aerobee.remoting.message.layout import FRAME_FIELDS

# a plain send's own values are its time, its properties and its opaque
HEADER: Final = (
    '{"code":%(code)s,"extFields":{"a":%(group)s,"b":%(topic)s,"c":%(create_key)s,'
    '"d":"%(queues)d","e":"%(queue)d","f":"%(sys_flag)s","g":"%%d","h":"%(flag)s","i":%%b,'
    '"j":"0","k":"false","m":"%(batch)s","n":%(broker)s},"flag":%(oneway)s,'
    '"language":"%(language)s","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%(version)d}'
)
_VALUES: Final = re.compile(rb"%[bd]")
TEMPLATES_KEPT: Final = 65_536  # one for each queue

encode_json: Final = msgspec.json.Encoder().encode
pack_words: Final = FRAME_FIELDS.run().pack


class SendHeaders:
    """Frames of the sends of one producer group (SendMessageRequestHeaderV2.java).

    Their headers are JSON whatever else is spoken on a connection: brokers read these at least as
    fast as any other, and a plain message costs one look-up and the filling in of three values.
    """

    def __init__(self, group: str, settings: ProducerSettings) -> None:
        self._group = group
        self._settings = settings
        self._plain: dict[MessageQueue, bytes] = {}

    def frame(
        self, outgoing: Outgoing, queue: MessageQueue, opaque: int, *, oneway: bool = False
    ) -> bytes:
        """Write the request that sends a message, or batch, to a queue."""
        if outgoing.is_plain and not oneway:
            template = self._plain.get(queue)
            if template is None:
                if len(self._plain) >= TEMPLATES_KEPT:
                    self._plain.clear()  # of topics that come and go, most are not used again
                template = self._plain[queue] = self._template(queue)
        else:
            template = self._template(
                queue, outgoing.code, outgoing.sys_flag, outgoing.flag, oneway=oneway
            )
        header = template % (outgoing.born_ms, encode_json(outgoing.properties), opaque)
        size, body = len(header), outgoing.body
        return b"".join((pack_words(4 + size + len(body), size), header, body))

    def frame_of(self, outgoing: Outgoing, queue: MessageQueue, opaque: int) -> bytes:
        """Write the request that sends one message, as `frame` does."""
        return self.frame(outgoing, queue, opaque)

    def parts(self, queue: MessageQueue) -> tuple[bytes, bytes, bytes, bytes]:
        """Return what stands before, between and behind the values of a plain send's header.

        They are its time, its properties and its opaque.
        """
        before, between, more, behind = _VALUES.split(self._template(queue))
        return before, between, more, behind

    def _template(
        self,
        queue: MessageQueue,
        code: int = SINGLE,
        sys_flag: int = 0,
        flag: int = 0,
        *,
        oneway: bool = False,
    ) -> bytes:
        values = {
            "code": code,
            "group": _text(self._group),
            "topic": _text(queue.topic),
            "create_key": _text(self._settings.create_topic_key),
            "queues": self._settings.default_topic_queues,
            "queue": queue.queue_id,
            "sys_flag": sys_flag,
            "flag": flag,
            "batch": "true" if code == BATCH else "false",
            "broker": _text(queue.broker_name),
            "oneway": FLAG_ONEWAY if oneway else 0,
            "language": language_name(Language.PYTHON),
            "version": VERSION,
        }
        return (HEADER % values).encode()


def _text(text: str) -> str:
    """Write a text as JSON has it, free of signs that a template would fill in."""
    return encode_json(text).decode().replace("%", "\\u0025")
