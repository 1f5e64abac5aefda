"""Answering PULL_MESSAGE: the checks, the read, and the reply (PullMessageProcessor)."""

from typing import TYPE_CHECKING, Final, Protocol

from aerobee.broker.compiled.choice import copied, gather, resident
from aerobee.broker.health.faults import as_refusal
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.members.subscriptions import MessageFilter, SqlFilter
from aerobee.broker.pulls.broadcasts import FROM_PROXY, BroadcastOffsets
from aerobee.broker.pulls.checks import PullChecks
from aerobee.broker.pulls.limits import PullLimits
from aerobee.broker.pulls.pull import Pull
from aerobee.broker.pulls.repeats import Check, Repeats, ServePulls
from aerobee.broker.pulls.replies import (
    FOUND,
    HEADER,
    encoded_reply,
    moved,
    nothing,
    refusal,
    reply_code,
)
from aerobee.broker.pulls.viewed import (
    Found,
    Unread,
    UnreadError,
    Viewed,
    ViewRead,
    ViewRequest,
    fetch_for,
)
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.writing.hooks import PullEvent
from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.bodies import SubscriptionGroupConfig, TopicConfig
from aerobee.remoting.codes import PullSysFlag, ResponseCode
from aerobee.remoting.command import Codec
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.storage.reads.results import ReadResult, ReadStatus

if TYPE_CHECKING:
    from aerobee.broker.pulls.parts import Pulling
    from aerobee.broker.tables.committed import OffsetTable
    from aerobee.storage.queues.consume_queue import ConsumeQueue

MASTER_ID: Final = 0
HELD_MS_MAX: Final = 10 * 60 * 1000  # a client may not park a pull for longer
FETCHES_MAX: Final = 3  # of one pull, whose place may change while it waits


class PullServer(Protocol):
    """What a connection needs of whoever serves pulls; `serve_run` may answer many at once."""

    serve_run: ServePulls | None

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer a pull that has just arrived; None when it is held."""

    def fault(self, pull: Pull, error: Exception) -> list[bytes | memoryview]:
        """Take note of what went wrong with a pull, and say what its client is told."""


class NoPulls:
    """Refuses pulls, as RocketMQ does on its fast port."""

    serve_run: ServePulls | None = None

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer like any other code that is not served."""
        raise RequestError(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {pull.request_code} not supported",
        )

    def fault(self, pull: Pull, error: Exception) -> list[bytes | memoryview]:
        """Answer like any other request."""
        return refusal(pull, as_refusal(error))


class PullProcessor:
    """Serves pulls, first when they come and again when a message or the deadline wakes them.

    Made anew when a setting has changed; `repeats` makes what knows pulls that come again.
    """

    def __init__(
        self, settings: BrokerSettings, parts: "Pulling", repeats: type[Repeats] = Repeats
    ) -> None:
        self._settings = settings
        self._holds = parts.holds
        self._cold_reads = parts.cold_reads
        self._views = parts.views
        self._store = store = parts.writing.store
        self._offsets = parts.tables.offsets
        self._handovers = parts.owners
        self._commit_log = parts.writing.tick.commit_log
        self._read_store = store.read
        compiled = settings.compiled_fast_path
        store.reader.use(resident(wanted=compiled), copied(wanted=compiled))
        self._gather = gather(wanted=compiled)  # the records of a reply, where that is compiled
        self._count_pull = parts.metrics.pulled
        self._faults, self._hooks = parts.faults, parts.hooks
        checks = PullChecks(settings, parts.members, parts.tables, parts.writing.queues)
        self._check = self._check_by(checks)
        self._repeats = repeats(settings, parts, self._check)
        self.serve_run = self._repeats.serve
        self._limits = PullLimits.of(settings)
        self._slave_read = settings.slave_read_enable
        self._broadcasts = parts.broadcasts if settings.enable_broadcast_offset_store else None

    def _check_by(self, checks: PullChecks) -> Check:  # a subclass knows more to check
        return checks.check

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer a pull that has just arrived; None when it is held.

        Raises RequestError with the code of the first check that fails.
        """
        header, connection, handovers = pull.header, pull.connection, self._handovers
        allowed = self._check(connection, header, pull.request_code)
        queue, wanted, topic, group = allowed
        group_name, topic_name, queue_id = header.consumer_group, header.topic, header.queue_id
        key = None
        if handovers.watched or handovers.fresh:
            key = GroupQueue(group_name, topic_name, queue_id)
        if header.sys_flag & PullSysFlag.COMMIT_OFFSET and (
            key is None or handovers.takes_commit(connection, key, header.commit_offset)
        ):
            self._offsets.commit(group_name, topic_name, queue_id, header.commit_offset)
        broadcasts, result = self._broadcasts, None
        if broadcasts is not None:
            if self._is_broadcast(pull, broadcasts):
                result = self._sent_on(pull, queue, broadcasts)
            else:
                broadcasts = None
        if result is None:
            if key is None or handovers.begin_pull(
                connection,
                key,
                header.queue_offset,
                finished=_finished(header, self._offsets),
            ):
                try:
                    result = self._read(pull, queue, wanted, key)
                except Unread as cold:
                    self._fetch(pull, queue, cold)
                    return None
            else:
                result = nothing(queue, pull.offset)
        code = self._outcome(pull, result, broadcasts)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PullSysFlag.SUSPEND:
            timeout_ms, settings = header.suspend_timeout_millis, self._settings
            if not settings.long_polling_enable:
                timeout_ms = settings.short_polling_time_mills
            if not self._holds.hold(pull, queue, min(max(timeout_ms, 0), HELD_MS_MAX)):
                raise RequestError(ResponseCode.SYSTEM_BUSY, "too many pulls wait in this broker")
            return None
        if result.status is FOUND and not queue.stored.batched:
            self._repeats.learn(pull, allowed)
        return self._reply(pull, code, queue, result, topic, group)

    def serve_again(self, pull: Pull, expired: bool) -> bool:
        """Run a held pull once more and answer it; False when it goes on waiting.

        Where more arrived than one read looks at, and nothing of it was wanted so far, the client
        is told to go on.
        """
        try:
            queue, wanted, topic, group = self._check(
                pull.connection, pull.header, pull.request_code
            )
            result = self._read_again(pull, queue, wanted, None)
            code = reply_code(result.status, pull.offset)
            if not expired and code != ResponseCode.SUCCESS:
                if result.next_offset >= result.max_offset and (
                    result.status is ReadStatus.NO_MATCHED_MESSAGE
                ):
                    pull.offset = result.next_offset
                    return False
                if code == ResponseCode.PULL_NOT_FOUND:
                    return False
            if code == ResponseCode.PULL_NOT_FOUND and pull.offset != pull.header.queue_offset:
                code = ResponseCode.PULL_RETRY_IMMEDIATELY  # unwanted messages were passed over
            frames = self._reply(pull, code, queue, result, topic, group)
        except Unread as cold:
            self._fetch_or_refuse(pull, queue, cold)
            return True
        except RequestError as error:
            frames = refusal(pull, error)
        pull.connection.write(b"".join(frames))
        return True

    def _read_again(
        self, pull: Pull, queue: TopicQueue, wanted: MessageFilter | None, fetched: Found | None
    ) -> ReadResult:
        """Read for a pull that has waited, unless its queue has gone to somebody else."""
        header, handovers = pull.header, self._handovers
        key = GroupQueue(header.consumer_group, header.topic, header.queue_id)
        if handovers.may_pull(pull.connection, key):
            return self._read(pull, queue, wanted, key if handovers.watched else None, fetched)
        return nothing(queue, pull.offset)

    def _outcome(self, pull: Pull, result: ReadResult, broadcasts: BroadcastOffsets | None) -> int:
        """Note where a pull has got to; return the code of its answer."""
        header = pull.header
        self._offsets.pulled(
            header.consumer_group, header.topic, header.queue_id, result.next_offset
        )
        status = result.status
        code = 0 if status is FOUND else reply_code(status, header.queue_offset)
        if broadcasts is not None:
            sent_on = code == ResponseCode.PULL_OFFSET_MOVED
            broadcasts.pulled(pull.connection, header, result.next_offset if sent_on else None)
        return code

    def _fetch(self, pull: Pull, queue: TopicQueue, cold: UnreadError) -> None:
        """Have what a pull reads fetched from the disk, and answer it then; RequestError if not."""
        pull.fetches += 1
        if pull.fetches > FETCHES_MAX:
            raise RequestError(ResponseCode.SYSTEM_BUSY, "the queue changes faster than it is read")
        connection, stored, files = pull.connection, queue.stored, self._store.files
        self._cold_reads.begin(
            pull.header.consumer_group,
            lambda: fetch_for(files, cold),
            cold.request.memory_bytes + self._store.settings.message_bytes_max,
            lambda fetched, error: self._fetched(pull, stored, fetched, error),
            connection,
            lambda: not connection.closed,
        )

    def _fetch_or_refuse(self, pull: Pull, queue: TopicQueue, cold: UnreadError) -> None:
        try:
            self._fetch(pull, queue, cold)
        except RequestError as error:
            pull.connection.write(b"".join(refusal(pull, error)))

    def _fetched(
        self, pull: Pull, stored: "ConsumeQueue", fetched: Found | None, error: Exception | None
    ) -> None:
        """Answer a pull for which the disk was read; raises nothing."""
        if pull.connection.closed:
            return
        if error is not None:
            self.failed(pull, error)
            return
        try:
            queue, wanted, topic, group = self._check(
                pull.connection, pull.header, pull.request_code
            )
            if (
                fetched is None
                or queue.stored is not stored
                or fetched.request.offset != pull.offset
            ):
                fetched = None  # the queue was deleted, or made anew
            try:
                result = self._read_again(pull, queue, wanted, fetched)
            except Unread as cold:
                self._fetch_or_refuse(pull, queue, cold)
                return
            broadcasts = self._broadcasts
            if broadcasts is not None and not self._is_broadcast(pull, broadcasts):
                broadcasts = None
            code = self._outcome(pull, result, broadcasts)
            pull.connection.write(b"".join(self._reply(pull, code, queue, result, topic, group)))
        except RequestError as refused:
            pull.connection.write(b"".join(refusal(pull, refused)))
        except Exception as fault:  # noqa: BLE001  of this pull alone
            self.failed(pull, fault)

    def _is_broadcast(self, pull: Pull, broadcasts: BroadcastOffsets) -> bool:
        header = pull.header
        return header.consumer_group in broadcasts.groups or header.request_source == FROM_PROXY

    def fault(self, pull: Pull, error: Exception) -> list[bytes | memoryview]:
        """Take note of an error that no check foresaw; the client is told SYSTEM_ERROR."""
        header = pull.header
        self._faults.caught(
            "pull", error, remote=pull.connection.remote, group=header.consumer_group,
            topic=header.topic, queue=header.queue_id, offset=pull.offset,
        )  # fmt: skip
        return refusal(pull, as_refusal(error))

    def failed(self, pull: Pull, error: Exception) -> None:
        """Answer a held pull whose serving raised; raises nothing, others wait to be served."""
        try:
            pull.connection.write(b"".join(self.fault(pull, error)))
        except Exception as another:  # noqa: BLE001  no memory even for this
            self._faults.caught("refusal", another)
            pull.connection.abort("internal error")

    def _sent_on(
        self, pull: Pull, queue: TopicQueue, broadcasts: BroadcastOffsets
    ) -> ReadResult | None:
        """Return the answer to a broadcasting client that has to begin elsewhere, else None."""
        offset = broadcasts.initial(pull.connection, pull.header)
        return None if offset is None else moved(queue, offset)

    def _read(
        self,
        pull: Pull,
        queue: TopicQueue,
        wanted: MessageFilter | None,
        handed_over: GroupQueue | None,
        fetched: Found | None = None,
    ) -> ReadResult:
        header, offsets = pull.header, self._offsets
        if offsets.resets:
            offset = offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
            if offset is not None and offset != pull.offset:  # who is there need not go there
                return moved(queue, offset)
        if handed_over is not None:
            offset = self._handovers.goes_on_at(pull.connection, handed_over, pull.offset)
            if offset is not None:
                return moved(queue, offset)
        self._commit_log()  # what this turn appended must be there to be read
        accept = None
        if wanted is not None and isinstance(wanted, SqlFilter):
            accept = wanted.scan()
            wanted = None
        count_max, bytes_max = self._limits.messages_of(header), self._limits.bytes_of(header)
        if (views := self._views).topics and header.topic in views.topics:
            view = views.find(header.topic, header.queue_id)
            if view is not None and pull.offset < view.end:
                if not isinstance(fetched, Viewed):
                    wish = ViewRequest(view, pull.offset, count_max, bytes_max, wanted)
                    raise ViewRead(wish)
                return fetched.result(queue.stored.max_offset, accept)
        if isinstance(fetched, Viewed):
            fetched = None  # the queue has it itself
        return self._read_store(
            queue.stored, pull.offset, count_max, bytes_max, wanted, accept, self._gather, fetched
        )

    def _reply(
        self,
        pull: Pull,
        code: int,
        queue: TopicQueue,
        result: ReadResult,
        topic: TopicConfig,
        group: SubscriptionGroupConfig,
    ) -> list[bytes | memoryview]:
        header, hooks = pull.header, self._hooks
        self._count_pull(header.topic, header.consumer_group, result.count, result.bytes)
        if hooks.after_pull:
            event = PullEvent(
                connection=pull.connection,
                group=header.consumer_group,
                topic=header.topic,
                queue_id=header.queue_id,
                offset=header.queue_offset,
                code=code,
                count=result.count,
                size_bytes=result.bytes,
            )
            for hook in hooks.after_pull:
                hook(event)
        broker_id = self._suggested(queue, result, group) if self._slave_read else MASTER_ID
        flags = topic.topic_sys_flag, group.group_sys_flag
        if pull.codec != Codec.JSON:
            return [encoded_reply(pull, code, result, flags, broker_id)]
        payload = HEADER % (
            code,
            flags[1],
            result.max_offset,
            result.min_offset,
            result.next_offset,
            broker_id,
            flags[0],
            pull.opaque,
            b"FOUND" if result.status is FOUND else result.status.name.encode(),
        )
        size = len(payload)
        lengths = (size + 4 + result.bytes).to_bytes(4, "big") + size.to_bytes(4, "big")
        return [lengths, payload, *result.parts]

    def _suggested(
        self, queue: TopicQueue, result: ReadResult, group: SubscriptionGroupConfig
    ) -> int:
        """Choose from which broker of its set a group should pull on, with slaveReadEnable.

        From its slow one, as the group's configuration names it, where what was looked at last is
        too old to be in memory.
        """
        last = result.next_offset - 1
        looked = result.status in (ReadStatus.FOUND, ReadStatus.NO_MATCHED_MESSAGE)
        if looked and queue.stored.min_offset <= last < queue.stored.max_offset:
            store = self._store
            position = store.reader.position_of(queue.stored, last)
            if position is None or not store.in_memory(position):
                return group.which_broker_when_consume_slowly
        return group.broker_id


def _finished(header: PullMessageRequest, offsets: "OffsetTable") -> bool:
    """Whether a consumer has consumed all that it has fetched, as far as its commits say."""
    committed = offsets.committed(header.consumer_group, header.topic, header.queue_id)
    return (committed or 0) >= header.queue_offset
