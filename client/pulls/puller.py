"""One pull: the request for a queue's next messages and what its reply means."""

import enum
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aerobee.client.cluster.connections import Connections
from aerobee.client.cluster.routes import MASTER_ID, RouteCache
from aerobee.client.errors import BrokerRefused, Unavailable
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.received import Decoded, ReceivedMessage, decode_pulled
from aerobee.client.settings import PullSettings
from aerobee.client.subscriptions import Subscription
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import CorruptRecord, NotConnected
from aerobee.remoting.headers._fields import decode_header
from aerobee.remoting.headers.pull import PullMessageReply
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

CUT_MAX: Final = 3  # replies cut off at the same place; then it is the broker's log that is so


class PullStatus(enum.Enum):
    """The four outcomes of a pull (PullStatus.java)."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


STATUS_BY_CODE = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class PullResult(NamedTuple):
    """What a pull brought; offsets count messages of the queue (PullResult.java).

    `messages` are those that match the subscription; the next pull starts at `next_offset`, which
    lies past all that the broker or the client left out. `unreadable` are those that match and
    whose body cannot be unpacked, or is damaged: `body` is as it was stored, `damage` says why.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[ReceivedMessage]
    unreadable: Sequence[ReceivedMessage] = ()


class Puller:
    """Pulls one queue for one group (PullAPIWrapper.java).

    It follows the broker's advice on which replica to pull from next, and lets filter hooks take
    messages out.
    """

    def __init__(
        self,
        connections: Connections,
        routes: RouteCache,
        group: str,
        queue: MessageQueue,
        settings: PullSettings,
        *,
        lite: bool = False,
        subscribed: bool = True,
        suspends: bool = True,
        commits: bool = True,
        carried: Callable[[MessageQueue, int], None] | None = None,
        hooks: Hooks | None = None,
        broker_id: int = MASTER_ID,
    ) -> None:
        """Pull as described by the flags, first from the replica `broker_id`.

        `subscribed` says that heartbeats have told the brokers what the group wants; a `lite` pull
        always says it itself. With `suspends` the broker may hold a pull. `carried` is called
        with the offset that a pull commits as soon as that is on its way.
        """
        self.broker_id = broker_id  # where the broker advised to pull from next
        self._connections = connections
        self._routes = routes
        self._queue = queue
        self._group = group
        self._settings = settings
        self._commits = commits and not lite
        self._carried = carried
        self._hooks = hooks if hooks is not None and hooks.filter else None
        self._code = RequestCode.LITE_PULL_MESSAGE if lite else RequestCode.PULL_MESSAGE
        self._flags = PullSysFlag.SUSPEND if suspends else 0
        if lite or not subscribed:
            self._flags |= PullSysFlag.SUBSCRIPTION
        if lite:
            self._flags |= PullSysFlag.LITE_PULL
        self._cut = -1, 0  # an offset from which nothing can be decoded, and how often it could not
        self._ext = {
            "consumerGroup": group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "maxMsgNums": str(settings.batch_messages),
            "maxMsgBytes": str(settings.batch_bytes),
            "suspendTimeoutMillis": str(settings.suspend_ms),
            "bname": queue.broker_name,
        }

    async def pull(self, subscription: Subscription, offset: int, commit_offset: int) -> PullResult:
        """Fetch messages from `offset` on; the broker may hold the request while there are none.

        `commit_offset` is stored for the group on the way, unless it is 0, the broker no master, or
        pulls of this kind do not commit (`commits`, `lite`). Raises BrokerRefused for any code that
        is no outcome of a pull, Unavailable, CorruptRecord.
        """
        address, reply = await self._call(subscription, offset, commit_offset)
        status = STATUS_BY_CODE.get(reply.code)
        if status is None:
            raise BrokerRefused(reply.code, reply.remark, address)
        header = decode_header(PullMessageReply, reply.ext)
        self.broker_id = header.suggest_which_broker_id
        next_offset, bounds = header.next_begin_offset, (header.min_offset, header.max_offset)
        if status is not PullStatus.FOUND:
            return PullResult(status, next_offset, *bounds, [])
        messages, unreadable, cut_at = self._decode(reply, offset, next_offset, bounds)
        if cut_at is not None:  # the rest comes again
            next_offset = cut_at
        if subscription.tags:
            messages = subscription.select(messages)
            unreadable = subscription.select(unreadable)
        if self._hooks is not None:
            messages = self._hooks.select(self._group, self._queue, messages)
        for message in unreadable:
            self._complain(message)
        return PullResult(status, next_offset, *bounds, messages, unreadable)

    def _decode(
        self, reply: Command, offset: int, next_offset: int, bounds: tuple[int, int]
    ) -> Decoded:
        """Decode what a reply brought; raises CorruptRecord, of the same offset so many times."""
        settings = self._settings
        try:
            decoded = decode_pulled(
                bytes(reply.body),
                self._queue,
                bounds,
                span=(offset, next_offset) if next_offset > offset else None,
                again=self._cut[0] == offset and self._cut[1] >= CUT_MAX,
                body_bytes_max=settings.body_bytes_max,
                unpacked_bytes_max=settings.unpacked_bytes_max,
            )
        except CorruptRecord:
            self._cut = offset, 1 + (self._cut[1] if self._cut[0] == offset else 0)
            raise
        self._cut = -1, 0
        return decoded

    def _complain(self, message: ReceivedMessage) -> None:
        log.error(
            "message cannot be read group=%s queue=%s offset=%d message_id=%s: %s",
            self._group,
            self._queue,
            message.queue_offset,
            message.message_id,
            message.damage.reason if message.damage is not None else "",
        )

    async def pull_oneway(self, subscription: Subscription, offset: int) -> None:
        """Let the broker read from `offset` on, into its memory, and send nothing back."""
        _, connection, ext = await self._request(subscription, offset, 0)
        connection.oneway(Command(self._code, ext))

    async def _call(
        self, subscription: Subscription, offset: int, commit_offset: int
    ) -> tuple[str, Command]:
        """Return the broker's address and its reply."""
        address, connection, ext = await self._request(subscription, offset, commit_offset)
        reply = connection.begin(self._code, ext, b"", self._settings.timeout_ms / 1000)
        if ext["commitOffset"] != "0" and self._carried is not None:
            self._carried(self._queue, commit_offset)  # it is on its way, behind all before it
        return address, await reply

    async def _request(
        self, subscription: Subscription, offset: int, commit_offset: int
    ) -> tuple[str, Connection, dict[str, str]]:
        """Return the broker's address, the connection to it, and the fields of a request."""
        address, broker_id, connection = await self._reach()
        flags = self._flags
        commits = self._commits and commit_offset > 0 and broker_id == MASTER_ID
        if commits:
            flags |= PullSysFlag.COMMIT_OFFSET
        ext = self._ext.copy()
        ext["queueOffset"] = str(offset)
        ext["sysFlag"] = str(flags)
        ext["commitOffset"] = str(commit_offset if commits else 0)
        ext["expressionType"] = subscription.expression_type
        ext["subVersion"] = str(subscription.first_version)
        if flags & PullSysFlag.SUBSCRIPTION:
            ext["subscription"] = subscription.expression
        return address, connection, ext

    async def _reach(self) -> tuple[str, int, Connection]:
        """Return the address and id of the broker to pull from, and the connection to it."""
        address, broker_id = await self._find_broker()
        try:
            return address, broker_id, await self._connections.connect(address)
        except NotConnected:
            if not await self._routes.has_moved(self._queue, address):
                raise
        address, broker_id = await self._find_broker()
        return address, broker_id, await self._connections.connect(address)

    async def _find_broker(self) -> tuple[str, int]:
        self._routes.keep(self._queue.topic)
        found = self._routes.reading_address(self._queue.broker_name, self.broker_id)
        if found is None:
            await self._routes.refresh(self._queue.topic)
            found = self._routes.reading_address(self._queue.broker_name, self.broker_id)
        if found is None:
            raise Unavailable(f"no route names broker {self._queue.broker_name}")
        return found
