"""Answering PULL_MESSAGE: the checks, the read, and the reply (PullMessageProcessor)."""

from typing import TYPE_CHECKING, Final, Protocol

from aerobee.broker.acceleration import gather
from aerobee.broker.broadcast_offsets import FROM_PROXY, BroadcastOffsets
from aerobee.broker.faults import as_refusal
from aerobee.broker.filters import MessageFilter, SqlFilter
from aerobee.broker.hooks import PullEvent
from aerobee.broker.owned_queue import QueueKey
from aerobee.broker.pull_checks import PullChecks
from aerobee.broker.topic_queues import TopicQueue
from aerobee.remoting.bodies import SubscriptionGroupConfig, TopicConfig
from aerobee.remoting.codes import PullSysFlag, ResponseCode
from aerobee.remoting.command import FLAG_RESPONSE, VERSION, Codec, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.headers._fields import encode_header
from aerobee.remoting.headers.pull import PullMessageReply, PullMessageRequest
from aerobee.remoting.net.connection import Connection
from aerobee.storage.reading import ReadResult, ReadStatus

if TYPE_CHECKING:
    from aerobee.broker.context import Context
    from aerobee.broker.offsets import OffsetTable

MASTER_ID: Final = 0
HELD_MS_MAX: Final = 10 * 60 * 1000  # a client may not park a pull for longer

FOUND: Final = ReadStatus.FOUND  # to look it up in the enumeration takes a quarter microsecond
HEADER: Final = (
    b'{"code":%d,"extFields":{"groupSysFlag":"%d","maxOffset":"%d","minOffset":"%d",'
    b'"nextBeginOffset":"%d","suggestWhichBrokerId":"%d","topicSysFlag":"%d"},"flag":1,'
    b'"language":"JAVA","opaque":%d,"remark":"%b","serializeTypeCurrentRPC":"JSON",'
    b'"version":' + str(VERSION).encode() + b"}"
)

# GetMessageStatus to ResponseCode (PullMessageProcessor.composeResponseHeader)
CODES: Final = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


class Pull:
    """One pull request while the broker works on it or holds it."""

    __slots__ = ("codec", "connection", "header", "offset", "opaque", "request_code")

    def __init__(
        self,
        connection: Connection,
        header: PullMessageRequest,
        opaque: int,
        codec: int,
        request_code: int,
    ) -> None:
        self.connection = connection
        self.header = header
        self.opaque = opaque
        self.codec = codec
        self.request_code = request_code
        self.offset = header.queue_offset  # moves past unwanted messages while the pull is held


class PullServer(Protocol):
    """What a connection needs of whoever serves pulls."""

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer a pull that has just arrived; None when it is held."""

    def fault(self, pull: Pull, error: Exception) -> list[bytes | memoryview]:
        """Take note of what went wrong with a pull, and say what its client is told."""


class NoPulls:
    """Refuses pulls, as RocketMQ does on its fast port."""

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer like any other code that is not served."""
        raise RequestError(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {pull.request_code} not supported",
        )

    def fault(self, pull: Pull, error: Exception) -> list[bytes | memoryview]:
        """Answer like any other request."""
        return refusal(pull, as_refusal(error))


class Pulls:
    """Serves pulls, first when they come and again when a message or the deadline wakes them."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._offsets = context.offsets
        self._handovers = context.handovers
        self._commit_log = context.tick.commit_log
        self._read_store = context.store.read
        self._gather = gather(context)  # the records of a reply, where that is compiled
        self._count_pull = context.metrics.pulled
        self._faults = context.metrics.faults
        self._hooks = context.hooks
        settings = context.settings
        self._check = PullChecks(context).check
        self._count_max = settings.max_transfer_count_on_message_in_memory
        self._bytes_max = settings.max_transfer_bytes_on_message_in_memory
        self._slave_read = settings.slave_read_enable
        self._broadcasts = context.broadcasts if settings.enable_broadcast_offset_store else None

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer a pull that has just arrived; None when it is held.

        Raises RequestError with the code of the first check that fails.
        """
        header, connection, handovers = pull.header, pull.connection, self._handovers
        queue, wanted, topic, group = self._check(connection, header, pull.request_code)
        group_name, topic_name, queue_id = header.consumer_group, header.topic, header.queue_id
        key = None
        if handovers.watched or handovers.fresh:
            key = QueueKey(group_name, topic_name, queue_id)
        if header.sys_flag & PullSysFlag.COMMIT_OFFSET and (
            key is None or handovers.takes_commit(connection, key, header.commit_offset)
        ):
            self._offsets.commit(group_name, topic_name, queue_id, header.commit_offset)
        broadcasts, result = self._broadcasts, None
        if broadcasts is not None:
            if group_name in broadcasts.groups or header.request_source == FROM_PROXY:
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
                result = self._read(pull, queue, wanted, key)
            else:
                result = nothing(queue, pull.offset)
        self._offsets.pulled(group_name, topic_name, queue_id, result.next_offset)
        status = result.status
        code = 0 if status is FOUND else reply_code(status, header.queue_offset)
        if broadcasts is not None:
            sent_on = code == ResponseCode.PULL_OFFSET_MOVED
            broadcasts.pulled(connection, header, result.next_offset if sent_on else None)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PullSysFlag.SUSPEND:
            timeout_ms, context = header.suspend_timeout_millis, self._context
            if not context.settings.long_polling_enable:
                timeout_ms = context.settings.short_polling_time_mills
            if not context.holds.hold(pull, queue, min(max(timeout_ms, 0), HELD_MS_MAX)):
                raise RequestError(ResponseCode.SYSTEM_BUSY, "too many pulls wait in this broker")
            return None
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
            header, handovers = pull.header, self._handovers
            key = QueueKey(header.consumer_group, header.topic, header.queue_id)
            if handovers.may_pull(pull.connection, key):
                result = self._read(pull, queue, wanted, key if handovers.watched else None)
            else:
                result = nothing(queue, pull.offset)
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
        except RequestError as error:
            frames = refusal(pull, error)
        pull.connection.write(b"".join(frames))
        return True

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
        if offset is None:
            return None
        return moved(queue, offset)

    def _read(
        self,
        pull: Pull,
        queue: TopicQueue,
        wanted: MessageFilter | None,
        handed_over: QueueKey | None,
    ) -> ReadResult:
        header, offsets = pull.header, self._offsets
        if offsets.resets:
            offset = offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
            if offset is not None:
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
        bytes_max, bytes_wish = self._bytes_max, header.max_msg_bytes
        if bytes_wish is not None and bytes_wish < bytes_max:
            bytes_max = bytes_wish  # RocketMQ's broker knows nothing of it
        count_max = min(header.max_msg_nums, self._count_max)
        return self._read_store(
            queue.stored, pull.offset, count_max, bytes_max, wanted, accept, self._gather
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
            position = queue.stored.entry(last)[0]
            if not self._context.store.in_memory(position):
                return group.which_broker_when_consume_slowly
        return group.broker_id


def _finished(header: PullMessageRequest, offsets: "OffsetTable") -> bool:
    """Whether a consumer has consumed all that it has fetched, as far as its commits say."""
    committed = offsets.committed(header.consumer_group, header.topic, header.queue_id)
    return (committed or 0) >= header.queue_offset


def moved(queue: TopicQueue, offset: int) -> ReadResult:
    """Return what sends a client elsewhere in the queue."""
    stored = queue.stored
    return ReadResult(ReadStatus.OFFSET_RESET, offset, stored.min_offset, stored.max_offset)


def nothing(queue: TopicQueue, offset: int) -> ReadResult:
    """Return what a read past the end of a queue finds."""
    stored = queue.stored
    return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, stored.min_offset, stored.max_offset)


def reply_code(status: ReadStatus, offset: int) -> int:
    """Map the outcome of a read to the code that decides what the client does next."""
    if offset == 0 and status in (
        ReadStatus.NO_MATCHED_LOGIC_QUEUE,
        ReadStatus.NO_MESSAGE_IN_QUEUE,
    ):
        return ResponseCode.PULL_NOT_FOUND
    return CODES[status]


def encoded_reply(
    pull: Pull, code: int, result: ReadResult, flags: tuple[int, int], broker_id: int
) -> bytes:
    """Encode a pull reply for a peer whose headers are not JSON."""
    header = PullMessageReply(
        suggest_which_broker_id=broker_id,
        next_begin_offset=result.next_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
        topic_sys_flag=flags[0],
        group_sys_flag=flags[1],
    )
    return encode_frame(
        Command(
            code=code,
            ext=encode_header(header),
            body=b"".join(result.parts),
            opaque=pull.opaque,
            flag=FLAG_RESPONSE,
            remark=result.status.name,
            codec=pull.codec,
        )
    )


def refusal(pull: Pull, error: RequestError) -> list[bytes | memoryview]:
    """Encode the reply to a pull that failed a check."""
    return [
        encode_frame(
            Command(
                code=error.code,
                ext=dict(error.ext or {}),
                opaque=pull.opaque,
                flag=FLAG_RESPONSE,
                remark=error.remark,
                codec=pull.codec,
            )
        )
    ]
