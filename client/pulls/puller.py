"""One pull: the request for a queue's next messages and what its reply means."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.decoding import Decoded, UnpackLimits, decode_pulled
from aerobee.client.cluster.found import FoundReply
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.pull_frames import pull_frame, pull_template
from aerobee.client.pulls.raw import PullStatus, RawPull, read_reply
from aerobee.client.pulls.steady import SteadyPulls
from aerobee.client.pulls.subscriptions import Subscription
from aerobee.client.pulls.trouble import consuming_from, pulling
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import BATCH_MESSAGES, PullSettings
from aerobee.remoting.codes import PullSysFlag, RequestCode
from aerobee.remoting.command import FLAG_ONEWAY, Command, next_opaque
from aerobee.remoting.errors import AerobeeError, CorruptRecord
from aerobee.remoting.net.connection import Connection

log = logging.getLogger(__name__)

_TEMPLATES_MAX: Final = 4  # with a commit and without, of a subscription that changed

CUT_MAX: Final = 3  # replies cut off at the same place; then it is the broker's log that is so


class PullResult(NamedTuple):
    """What a pull brought; offsets count messages of the queue (PullResult.java).

        result = await consumer.pull(queue, 0)
        for message in result.messages:
            print(message.queue_offset, message.body)
        print("to go on at", result.next_offset, "of", result.max_offset)

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


class PullTerms(msgspec.Struct, frozen=True):
    """In whose name, and how, the queues of one consumer are pulled.

    `subscribed` says that heartbeats have told the brokers what the group wants; a `lite` pull
    always says it itself. With `suspends` the broker may hold a pull while there is nothing. Pulls
    commit the group's offset on the way if there is `carried`, which is called with the offset as
    soon as that is on its way. Filter hooks take messages out.
    """

    group: str
    settings: PullSettings
    hooks: Hooks
    lite: bool = False
    subscribed: bool = True
    suspends: bool = True
    carried: Callable[[MessageQueue, int], None] | None = None

    @property
    def code(self) -> int:
        """The request by which such pulls are known."""
        return RequestCode.LITE_PULL_MESSAGE if self.lite else RequestCode.PULL_MESSAGE

    @property
    def flags(self) -> int:
        """What every one of these requests says of itself."""
        flags = PullSysFlag.SUSPEND if self.suspends else 0
        if self.lite or not self.subscribed:
            flags |= PullSysFlag.SUBSCRIPTION
        return flags | PullSysFlag.LITE_PULL if self.lite else flags


class Puller:
    """Pulls one queue, by one subscription, on a consumer's terms (PullAPIWrapper.java).

    It follows the broker's advice on which replica to pull from next, first from `broker_id`.
    """

    def __init__(
        self,
        brokers: Brokers,
        terms: PullTerms,
        queue: MessageQueue,
        subscription: Subscription,
        broker_id: int = MASTER_ID,
    ) -> None:
        self.queue = queue
        self.settings = terms.settings
        self.broker_id = broker_id  # where the broker advised to pull from next
        self._brokers = brokers
        self._group = terms.group
        self._subscription = subscription
        self._carried = terms.carried
        self._hooks = terms.hooks if terms.hooks.filter else None
        self._limits = UnpackLimits(self.settings.body_bytes_max, self.settings.unpacked_bytes_max)
        self._code, self._flags = terms.code, terms.flags
        self._timeout_s = terms.settings.timeout_ms / 1000
        self._bounds = -1, -1  # of the queue, as the last reply told them
        self._cut = -1, 0  # an offset from which nothing can be decoded, and how often it could not
        self._templates: dict[tuple[int, int], bytes] = {}
        self._reached: tuple[tuple[str, int], Connection] | None = None  # by the last pull
        self._ext = {
            "consumerGroup": terms.group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "maxMsgNums": str(self.settings.batch_messages or BATCH_MESSAGES),
            "maxMsgBytes": str(self.settings.batch_bytes),
            "suspendTimeoutMillis": str(self.settings.suspend_ms),
            "bname": queue.broker_name,
        }
        if self.settings.asks_for_full_replies:
            self._ext["AEROBEE_FULL_REPLY"] = "true"  # others know nothing of it

    async def pull(self, offset: int, commit_offset: int = 0) -> PullResult:
        """Fetch messages from `offset` on; the broker may hold the request while there are none.

        `commit_offset` is stored for the group on the way, unless it is 0, the broker no master, or
        pulls on these terms do not commit. Raises BrokerRefused for any code that is no outcome of
        a pull, Unavailable, CorruptRecord.
        """
        place, connection = await self._reach()
        frame, opaque, carries = self._frame(offset, commit_offset, place[1])
        reply = connection.begin_frame(frame, opaque, self._code, self._timeout_s)
        self._tell_carried(commit_offset, carries=carries)
        return self.read(await reply, offset)

    async def begin(self, steady: SteadyPulls, offset: int, commit_offset: int) -> None:
        """Send what `pull` does, with `steady` for who takes the reply; `read` reads it."""
        place, connection = await self._reach()
        self._begin_for(steady, place, connection, offset, commit_offset)

    def begin_again(
        self, steady: SteadyPulls, offset: int, commit_offset: int, *, at_once: bool = False
    ) -> bool:
        """Do the same without waiting for anything; False where the broker has to be looked for.

        With `at_once` the request leaves before whatever else this turn of the loop brings.
        """
        if self._reached is None:
            return False
        place, connection = self._reached
        if connection.closed or not self._brokers.reads_at(
            self.queue, self.broker_id, *self._reached
        ):
            return False
        self._begin_for(steady, place, connection, offset, commit_offset, at_once=at_once)
        return True

    def read(self, reply: Command | FoundReply, offset: int) -> PullResult:
        """Return what a reply to a pull from `offset` on has brought; raises what `pull` does."""
        assert self._reached is not None
        (address, asked), _ = self._reached
        raw = read_reply(reply, address, asked)
        self.broker_id = raw.advised
        next_offset, bounds = raw.next_offset, (raw.min_offset, raw.max_offset)
        if bounds == self._bounds:
            bounds = self._bounds  # one for the messages of many pulls
        self._bounds = bounds
        if raw.status is not PullStatus.FOUND:
            return PullResult(raw.status, next_offset, *bounds, [])
        messages, unreadable, cut_at = self._decode(raw, offset, bounds)
        if cut_at is not None:  # the rest comes again
            next_offset = cut_at
        if self._subscription.tags:
            messages = self._subscription.select(messages)
            unreadable = self._subscription.select(unreadable)
        if self._hooks is not None:
            messages = self._hooks.select(self._group, self.queue, messages)
        for message in unreadable:
            self._complain(message)
        return PullResult(raw.status, next_offset, *bounds, messages, unreadable)

    @property
    def is_hooked(self) -> bool:
        """Whether a program looks at what a pull brings, which may take its time."""
        return self._hooks is not None

    async def pull_oneway(self, offset: int) -> None:
        """Let the broker read from `offset` on, into its memory, and send nothing back."""
        place, connection = await self._reach()
        frame, _, _ = self._frame(offset, 0, place[1], oneway=True)
        connection.oneway_frame(frame)

    def failed(self, error: AerobeeError) -> None:
        """Tell that a pull has failed: once, with those of other queues that fail alike."""
        queue, group = self.queue, self._group
        alone = isinstance(error, CorruptRecord)  # what this queue holds is at fault
        what = pulling(queue, group) if alone else consuming_from(queue.broker_name, group)
        self._brokers.routes.outages.failed(what, error)

    def recovered(self) -> None:
        """Tell that pulls which failed have an answer again."""
        outages = self._brokers.routes.outages
        outages.over(consuming_from(self.queue.broker_name, self._group))
        outages.over(pulling(self.queue, self._group))

    def _decode(self, raw: RawPull, offset: int, bounds: tuple[int, int]) -> Decoded:
        """Decode what a reply brought; raises CorruptRecord, of the same offset so many times."""
        try:
            decoded = decode_pulled(
                raw.body,
                self.queue,
                bounds,
                span=(offset, raw.next_offset) if raw.next_offset > offset else None,
                again=self._cut[0] == offset and self._cut[1] >= CUT_MAX,
                limits=self._limits,
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
            self.queue,
            message.queue_offset,
            message.message_id,
            message.damage.reason if message.damage is not None else "",
        )

    async def _reach(self) -> tuple[tuple[str, int], Connection]:
        """Return the broker's address and id, and the connection to it; raises Unavailable."""
        self._reached = await self._brokers.connect_to_read(self.queue, self.broker_id)
        return self._reached

    def _begin_for(
        self,
        steady: SteadyPulls,
        place: tuple[str, int],
        connection: Connection,
        offset: int,
        commit_offset: int,
        *,
        at_once: bool = False,
    ) -> None:
        frame, opaque, carries = self._frame(offset, commit_offset, place[1])
        connection.begin_frame_for(
            steady, frame, opaque, self._code, self._timeout_s, at_once=at_once
        )
        self._tell_carried(commit_offset, carries=carries)

    def _tell_carried(self, commit_offset: int, *, carries: bool) -> None:
        if carries and self._carried is not None:
            self._carried(self.queue, commit_offset)  # it is on its way, behind all before it

    def _frame(
        self, offset: int, commit_offset: int, asked: int, *, oneway: bool = False
    ) -> tuple[bytes, int, bool]:
        """Return a request to a broker, its opaque, and whether it commits the offset."""
        flags = self._flags
        carries = self._carried is not None and commit_offset > 0 and asked == MASTER_ID
        if carries:
            flags |= PullSysFlag.COMMIT_OFFSET
        version = self._subscription.first_version
        kind = (flags, version) if not oneway else (flags, -1)
        template = self._templates.get(kind)
        if template is None:
            if len(self._templates) > _TEMPLATES_MAX:
                self._templates.clear()
            template = self._templates[kind] = self._template(flags, version, oneway=oneway)
        opaque = next_opaque()
        frame = pull_frame(template, offset, commit_offset if carries else 0, opaque)
        return frame, opaque, carries

    def _template(self, flags: int, version: int, *, oneway: bool) -> bytes:
        subscription = self._subscription
        ext = self._ext | {
            "sysFlag": str(flags),
            "expressionType": subscription.expression_type,
            "subVersion": str(version),
        }
        if flags & PullSysFlag.SUBSCRIPTION:
            ext["subscription"] = subscription.expression
        return pull_template(self._code, ext, FLAG_ONEWAY if oneway else 0)
