"""Handing replies to the clients that wait for them (326): how many at a time, and how it went."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from aerobee.broker.members.registry import Members
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError, CallTimedOut, RequestError
from aerobee.remoting.headers.send import AnySend, PushReplyRequest
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.message.properties import Property, join_properties
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0  # Broker2Client.callClient

ACKED: Final = "acked"
REFUSED: Final = "refused"
SILENT: Final = "silent"
LOST: Final = "lost"
NOT_FOUND: Final = "not_found"
UNADDRESSED: Final = "unaddressed"
BUSY: Final = "busy"
OUTCOMES: Final = (ACKED, REFUSED, SILENT, LOST, NOT_FOUND, UNADDRESSED, BUSY)


class Pushes:
    """The replies that are on their way to requesters; `outcomes` counts what became of them.

    `pushes_max` are under way at most, `per_client_max()` of one requester, so that one which says
    nothing keeps no room from others. Their bodies are held as those of all requests that wait
    (`NetLimits.waiting_total_bytes_max`), what a requester does not read as all that is unsent.
    """

    def __init__(
        self,
        members: Members,
        pushes_max: int,
        per_client_max: Callable[[], int],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._members = members
        self._pushes_max = pushes_max
        self._per_client_max = per_client_max
        self._timeout_s = timeout_s
        self._under_way: Counter[str] = Counter()  # by client id
        self.count = 0
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))

    async def push(
        self,
        header: AnySend,
        properties: dict[str, str],
        body: bytes | memoryview,
        hosts: tuple[str, str],
    ) -> str | None:
        """Hand a reply to whom its REPLY_TO_CLIENT names; return why it failed, None if it did not.

        `hosts` are the replier's address and the broker's, "ip:port". The words are RocketMQ's
        (ReplyMessageProcessor.pushReplyMessage). Raises RequestError (SYSTEM_BUSY) where too many
        are under way, nothing having been sent.
        """
        client_id = properties.get(Property.REPLY_TO_CLIENT)
        if client_id is None:
            self.outcomes[UNADDRESSED] += 1
            return f"reply message properties[{Property.REPLY_TO_CLIENT}] is null"
        connection = self._members.producer_connection(client_id)
        if connection is None:
            self.outcomes[NOT_FOUND] += 1
            return f"push reply message fail, channel of <{client_id}> not found."
        self._admit(client_id)
        try:
            outcome = await self._call(connection, header, properties, body, hosts)
        finally:
            self._leave(client_id)
        self.outcomes[outcome] += 1
        if outcome == ACKED:
            return None
        log.warning("reply_not_taken client=%s outcome=%s", client_id, outcome)
        return f"push reply message to {client_id}fail."

    async def _call(
        self,
        connection: Connection,
        header: AnySend,
        properties: dict[str, str],
        body: bytes | memoryview,
        hosts: tuple[str, str],
    ) -> str:
        ext = encode_header(_push_header(header, properties, hosts))
        try:
            reply = await connection.begin(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext, bytes(body), self._timeout_s
            )
        except CallTimedOut:
            return SILENT
        except AerobeeError:  # it left, or has more unanswered calls than any may have
            return LOST
        return ACKED if reply.code == ResponseCode.SUCCESS else REFUSED

    def _admit(self, client_id: str) -> None:
        own = self._under_way[client_id]
        if self.count >= self._pushes_max or own >= self._per_client_max():
            self.outcomes[BUSY] += 1
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                f"{self.count} replies are on their way to requesters, {own} to this one",
            )
        self.count += 1
        self._under_way[client_id] = own + 1

    def _leave(self, client_id: str) -> None:
        self.count -= 1
        self._under_way[client_id] -= 1
        if not self._under_way[client_id]:
            del self._under_way[client_id]


def _push_header(
    header: AnySend, properties: dict[str, str], hosts: tuple[str, str]
) -> PushReplyRequest:
    """Return what a requester is told of a reply beside its body, which travels as it was sent."""
    now_ms = wall_clock_ms()
    return PushReplyRequest(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=join_properties(properties | {Property.PUSH_REPLY_TIME: str(now_ms)}),
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=hosts[0],
        store_host=hosts[1],
        store_timestamp=now_ms,
    )
