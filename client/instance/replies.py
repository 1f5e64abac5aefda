"""The replies that requests of one instance wait for, and those that brokers push to it (326)."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Final

from aerobee.client.message import MessageQueue
from aerobee.client.received import BODY_BYTES_MAX, ReceivedMessage
from aerobee.remoting.clocks import steady_clock_ms, wall_clock_ms
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.complaints import Complaints
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.extras import ExtraMissing
from aerobee.remoting.headers.send import PushReplyRequest
from aerobee.remoting.message.compression import decompress, is_packed
from aerobee.remoting.message.properties import Property, join_properties, parse_properties
from aerobee.remoting.net.addresses import BadAddress, pack_address, parse_address

log = logging.getLogger(__name__)

UNKNOWN_OFFSET: Final = -1
"""The queue offset of a pushed reply: its broker stores it later, or not at all."""


class AwaitedReplies:
    """Requests by correlation id; `unwanted` counts replies that came twice, or too late."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}
        self.unwanted = 0
        self._complaints = Complaints(steady_clock_ms, log, logging.INFO)

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @contextlib.contextmanager
    def awaited(self, correlation_id: str) -> Iterator[asyncio.Future[ReceivedMessage]]:
        """Wait for the reply to one request within the block."""
        waiting: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = waiting
        try:
            yield waiting
        finally:
            del self._waiting[correlation_id]
            waiting.cancel()  # nothing, unless nobody waits any more

    def arrived(self, header: PushReplyRequest, body: bytes | memoryview) -> None:
        """Give a reply to the request that waits for it.

        It may be that none does, any more: the broker has done its part all the same
        (ClientRemotingProcessor.receiveReplyMessage). Raises RequestError for what is no reply.
        """
        properties = parse_properties(header.properties or "")
        waiting = self._waiting.get(properties.get(Property.CORRELATION_ID, ""))
        if waiting is None or waiting.done():
            self.unwanted += 1
            self._complaints.tell("reply not waited for properties=%.500s", header.properties)
            return
        waiting.set_result(_message(header, properties, body))


def _message(
    header: PushReplyRequest, properties: dict[str, str], body: bytes | memoryview
) -> ReceivedMessage:
    """Return a pushed reply as if it had been pulled; its body is unpacked."""
    now_ms = wall_clock_ms()
    properties[Property.ARRIVE_TIME] = str(now_ms)
    packed = data = bytes(body)
    try:
        if is_packed(packed, header.sys_flag):
            data = decompress(packed, header.sys_flag, bytes_max=BODY_BYTES_MAX)
        born_host = pack_address(*parse_address(header.born_host))
        store_host = pack_address(*parse_address(header.store_host))
    except (CorruptRecord, BadAddress, ExtraMissing, OSError) as error:
        log.warning("reply not understood from=%.60s error=%s", header.born_host, error)
        raise RequestError(ResponseCode.SYSTEM_ERROR, "process reply message fail") from error
    return ReceivedMessage(
        queue=MessageQueue(header.topic, "", header.queue_id),
        body=data,
        queue_offset=UNKNOWN_OFFSET,
        reconsume_times=header.reconsume_times or 0,
        position=0,
        born_timestamp_ms=header.born_timestamp,
        store_timestamp_ms=header.store_timestamp,
        flag=header.flag,
        sys_flag=header.sys_flag,
        body_bytes=len(packed),
        raw_properties=join_properties(properties).encode("utf-8", "replace"),
        raw_born_host=born_host,
        raw_store_host=store_host,
        parsed=properties,
        held_bytes=len(data),
    )
