"""Handing replies to the clients that wait for them (326): how many at a time, and how it went."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from aerobee.broker.members.registry import Members
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError, CallTimedOut, RequestError
from aerobee.remoting.headers.send import AnySend, PushReplyRequest
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.message.properties import Property, join_properties
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0  # Broker2Client.callClient
PATIENCE_S: Final = 1.0
"""How long a requester may say nothing before nobody is kept waiting for it any more."""

ACKED: Final = "acked"
REFUSED: Final = "refused"
SILENT: Final = "silent"
LOST: Final = "lost"
NOT_FOUND: Final = "not_found"
UNADDRESSED: Final = "unaddressed"
BUSY: Final = "busy"
OUTCOMES: Final = (ACKED, REFUSED, SILENT, LOST, NOT_FOUND, UNADDRESSED, BUSY)

Told = asyncio.Future[str | None]
"""What the replier is told of a push: why it failed, None if it did not."""


class _Push(msgspec.Struct, eq=False):
    """One reply on its way; `told` is done as soon as its replier need not wait any more."""

    client_id: str
    requester: "_Requester"
    began_s: float
    told: Told
    taken: asyncio.Future[Command]


class _Requester(msgspec.Struct, eq=False):
    """A connection that replies are pushed to: what is on its way, when it answered last."""

    under_way: dict[_Push, None]  # the oldest first
    heard_s: float = 0.0
    silent: bool = False  # the last that was known of it

    def is_waited_for(self, now_s: float) -> bool:
        """Whether a replier waits for it: of one that is silent, with one push at a time."""
        if not self.under_way:
            return True
        oldest_s = next(iter(self.under_way)).began_s
        if now_s - max(oldest_s, self.heard_s) > PATIENCE_S:
            self.silent = True
        return not self.silent


class Pushes:
    """The replies that are on their way to requesters; `outcomes` counts what became of them.

    `pushes_max` are under way at most, `per_client_max()` of one connection; past that the oldest
    gives up its place, if it has waited for PATIENCE_S. What waits is only the word that a reply
    has come: bodies are written at once, and what a requester does not read counts as all that is
    unsent (`NetLimits.unsent_bytes_max`).
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
        self._under_way: dict[_Push, None] = {}  # the oldest first
        self._requesters: dict[Connection, _Requester] = {}
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))

    @property
    def count(self) -> int:
        """How many are on their way, and not answered yet."""
        return len(self._under_way)

    def begin(
        self,
        header: AnySend,
        properties: dict[str, str],
        body: bytes | memoryview,
        hosts: tuple[str, str],
    ) -> Told:
        """Hand a reply to whom its REPLY_TO_CLIENT names; return what its replier will be told.

        `hosts` are the replier's address and the broker's, "ip:port". The words are RocketMQ's
        (ReplyMessageProcessor.pushReplyMessage). To a requester that has been silent for PATIENCE_S
        the reply is written all the same, and it is told at once that it was not taken. Raises
        RequestError (SYSTEM_BUSY) where too many are under way, nothing having been sent.
        """
        loop = asyncio.get_running_loop()
        told: Told = loop.create_future()
        client_id = properties.get(Property.REPLY_TO_CLIENT)
        if client_id is None:
            self.outcomes[UNADDRESSED] += 1
            told.set_result(f"reply message properties[{Property.REPLY_TO_CLIENT}] is null")
            return told
        connection = self._members.producer_connection(client_id)
        if connection is None:
            self.outcomes[NOT_FOUND] += 1
            told.set_result(f"push reply message fail, channel of <{client_id}> not found.")
            return told
        now_s = loop.time()
        requester = self._requesters.get(connection)
        if requester is None:
            requester = self._requesters[connection] = _Requester({})
        self._make_room(requester, now_s)
        waited_for = requester.is_waited_for(now_s)
        ext = encode_header(_push_header(header, properties, hosts))
        try:
            taken = connection.begin(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext, bytes(body), self._timeout_s
            )
        except AerobeeError:  # it left, or has more unanswered calls than any may have
            self._tell(told, client_id, LOST)
            return told
        push = _Push(client_id, requester, now_s, told, taken)
        self._under_way[push] = requester.under_way[push] = None
        taken.add_done_callback(lambda _: self._ended(push))
        if not waited_for:
            self._tell(told, client_id, SILENT)
        return told

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        self._requesters.pop(connection, None)

    def _make_room(self, requester: _Requester, now_s: float) -> None:
        """Let those go that have waited for long, as far as there is need; raises SYSTEM_BUSY."""
        own, own_max = requester.under_way, self._per_client_max()
        for pushes, most in ((own, own_max), (self._under_way, self._pushes_max)):
            while len(pushes) >= most:
                oldest = next(iter(pushes))
                if now_s - oldest.began_s <= PATIENCE_S:
                    self.outcomes[BUSY] += 1
                    raise RequestError(
                        ResponseCode.SYSTEM_BUSY,
                        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
                        f"{self.count} replies are on their way to requesters, {len(own)} to this"
                        " one",
                    )
                self._leave(oldest, SILENT)
                oldest.taken.cancel()

    def _ended(self, push: _Push) -> None:
        """A push was answered, or will not be."""
        taken, requester = push.taken, push.requester
        if push not in self._under_way:
            return  # it gave up its place
        error = taken.exception()
        if error is not None:
            self._leave(push, SILENT if isinstance(error, CallTimedOut) else LOST)
            return
        requester.heard_s, requester.silent = taken.get_loop().time(), False
        self._leave(push, ACKED if taken.result().code == ResponseCode.SUCCESS else REFUSED)

    def _leave(self, push: _Push, outcome: str) -> None:
        requester = push.requester
        del self._under_way[push], requester.under_way[push]
        if outcome == SILENT and requester.heard_s <= push.began_s:
            requester.silent = True
        self._tell(push.told, push.client_id, outcome)

    def _tell(self, told: Told, client_id: str, outcome: str) -> None:
        """Tell a replier how it went, unless it was told already."""
        if told.done():
            return
        self.outcomes[outcome] += 1
        if outcome == ACKED:
            told.set_result(None)
            return
        log.warning("reply_not_taken client=%s outcome=%s", client_id, outcome)
        told.set_result(f"push reply message to {client_id}fail.")


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
