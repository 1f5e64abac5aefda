"""Answering PULL_MESSAGE: the checks, the read, and the reply (PullMessageProcessor)."""

from typing import TYPE_CHECKING, Final, Protocol

from aerobee.broker.filters import MessageFilter, SqlFilter, check_property_filter
from aerobee.broker.hooks import PullEvent
from aerobee.broker.owned_queue import QueueKey
from aerobee.broker.remarks import Forbidden, further_details
from aerobee.broker.topic_queues import TopicQueue
from aerobee.remoting.codes import Perm, PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import FLAG_RESPONSE, VERSION, Codec, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.headers._fields import encode_header
from aerobee.remoting.headers.pull import PullMessageReply, PullMessageRequest
from aerobee.remoting.net.connection import Connection
from aerobee.storage.reading import ReadResult, ReadStatus

if TYPE_CHECKING:
    from aerobee.broker.context import Context

HELD_MS_MAX: Final = 10 * 60 * 1000  # a client may not park a pull for longer

FOUND: Final = (
    b'{"code":%d,"extFields":{"groupSysFlag":"%d","maxOffset":"%d","minOffset":"%d",'
    b'"nextBeginOffset":"%d","suggestWhichBrokerId":"0","topicSysFlag":"%d"},"flag":1,'
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


class NoPulls:
    """Refuses pulls, as RocketMQ does on its fast port."""

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer like any other code that is not served."""
        raise RequestError(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f" request type {pull.request_code} not supported",
        )


class Pulls:
    """Serves pulls, first when they come and again when a message or the deadline wakes them."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        settings = context.settings
        self._count_max = settings.max_transfer_count_on_message_in_memory
        self._bytes_max = settings.max_transfer_bytes_on_message_in_memory

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer a pull that has just arrived; None when it is held.

        Raises RequestError with the code of the first check that fails.
        """
        context, header = self._context, pull.header
        queue, wanted, flags = self._check(pull)
        handovers, key, connection = context.handovers, self._watched(header), pull.connection
        if header.sys_flag & PullSysFlag.COMMIT_OFFSET and (
            key is None or handovers.takes_commit(connection, key, header.commit_offset)
        ):
            context.offsets.commit(
                header.consumer_group, header.topic, header.queue_id, header.commit_offset
            )
        if key is None or handovers.begin_pull(connection, key):
            result = self._read(pull, queue, wanted)
        else:
            result = nothing(queue, pull.offset)
        context.offsets.pulled(
            header.consumer_group, header.topic, header.queue_id, result.next_offset
        )
        code = reply_code(result.status, header.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & PullSysFlag.SUSPEND:
            timeout_ms = header.suspend_timeout_millis
            if not context.settings.long_polling_enable:
                timeout_ms = context.settings.short_polling_time_mills
            if not context.holds.hold(pull, queue, min(max(timeout_ms, 0), HELD_MS_MAX)):
                raise RequestError(ResponseCode.SYSTEM_BUSY, "too many pulls wait in this broker")
            return None
        return self._reply(pull, code, result, flags)

    def serve_again(self, pull: Pull, expired: bool) -> bool:
        """Run a held pull once more and answer it; False when it goes on waiting."""
        try:
            queue, wanted, flags = self._check(pull)
            key = self._watched(pull.header)
            if key is None or self._context.handovers.may_pull(pull.connection, key):
                result = self._read(pull, queue, wanted)
            else:
                result = nothing(queue, pull.offset)
            code = reply_code(result.status, pull.offset)
            if not expired and code != ResponseCode.SUCCESS:
                if result.status is ReadStatus.NO_MATCHED_MESSAGE:
                    pull.offset = result.next_offset
                    return False
                if code == ResponseCode.PULL_NOT_FOUND:
                    return False
            if code == ResponseCode.PULL_NOT_FOUND and pull.offset != pull.header.queue_offset:
                code = ResponseCode.PULL_RETRY_IMMEDIATELY  # unwanted messages were passed over
            frames = self._reply(pull, code, result, flags)
        except RequestError as error:
            frames = refusal(pull, error)
        pull.connection.write(b"".join(frames))
        return True

    def _check(self, pull: Pull) -> tuple[TopicQueue, MessageFilter | None, tuple[int, int]]:
        """Run RocketMQ's checks in its order; return queue, filter, flags of topic, group."""
        context, header = self._context, pull.header
        settings = context.settings
        if not settings.broker_permission & Perm.READ:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{settings.broker_ip1}] pulling message is forbidden",
                Forbidden.BROKER,
            )
        if (
            pull.request_code == RequestCode.LITE_PULL_MESSAGE
            and not settings.lite_pull_message_enable
        ):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{settings.broker_ip1}] for lite pull consumer is forbidden",
            )
        group = context.groups.find(header.consumer_group)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                further_details(f"subscription group [{header.consumer_group}] does not exist, "),
            )
        if not group.consume_enable:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"subscription group no permission, {header.consumer_group}",
                Forbidden.GROUP,
            )
        topic = context.topics.get(header.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                further_details(f"topic[{header.topic}] not exist, apply first please! "),
            )
        if not topic.perm & Perm.READ:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the topic[{header.topic}] pulling message is forbidden",
                Forbidden.TOPIC,
            )
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[/{pull.connection.remote}]",
            )
        wanted = context.members.filter_for_pull(group, header)
        if isinstance(wanted, SqlFilter):
            self._check_expression(wanted, header)
        return (
            context.queues.get(header.topic, header.queue_id),
            wanted,
            (topic.topic_sys_flag, group.group_sys_flag),
        )

    def _check_expression(self, wanted: SqlFilter, header: PullMessageRequest) -> None:
        """Refuse an expression that cannot be compiled, and any where none is allowed."""
        brought = header.sys_flag & PullSysFlag.SUBSCRIPTION
        if not brought and wanted.problem() is not None:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        enabled = self._context.settings.enable_property_filter
        check_property_filter(wanted.expression_type, enabled=enabled)
        if wanted.problem() is not None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"parse the consumer's subscription failed, {wanted.problem()}",
            )

    def _watched(self, header: PullMessageRequest) -> QueueKey | None:
        """Return the queue of a pull if there is any hand-over that it might have to do with."""
        handovers = self._context.handovers
        if not (handovers.watched or handovers.fresh):
            return None
        return QueueKey(header.consumer_group, header.topic, header.queue_id)

    def _read(self, pull: Pull, queue: TopicQueue, wanted: MessageFilter | None) -> ReadResult:
        self._context.tick.commit_log()  # what this turn appended must be there to be read
        accept = None
        if isinstance(wanted, SqlFilter):
            accept = wanted.scan()
            wanted = None
        return self._context.store.read(
            queue.stored,
            pull.offset,
            min(pull.header.max_msg_nums, self._count_max),
            self._bytes_max,
            wanted,
            accept,
        )

    def _reply(
        self, pull: Pull, code: int, result: ReadResult, flags: tuple[int, int]
    ) -> list[bytes | memoryview]:
        context, header = self._context, pull.header
        context.metrics.pulled(header.topic, header.consumer_group, result.count, result.bytes)
        if context.hooks.after_pull:
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
            for hook in context.hooks.after_pull:
                hook(event)
        if pull.codec != Codec.JSON:
            return [encoded_reply(pull, code, result, flags)]
        payload = FOUND % (
            code,
            flags[1],
            result.max_offset,
            result.min_offset,
            result.next_offset,
            flags[0],
            pull.opaque,
            result.status.name.encode(),
        )
        size = len(payload)
        lengths = (size + 4 + result.bytes).to_bytes(4, "big") + size.to_bytes(4, "big")
        return [lengths, payload, *result.parts]


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


def encoded_reply(pull: Pull, code: int, result: ReadResult, flags: tuple[int, int]) -> bytes:
    """Encode a pull reply for a peer whose headers are not JSON."""
    header = PullMessageReply(
        suggest_which_broker_id=0,
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
