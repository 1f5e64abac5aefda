"""What a pull is answered with: the code that the outcome of a read stands for, and the frame."""

from typing import TYPE_CHECKING, Final

from aerobee.broker.writing.queues import TopicQueue
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import FLAG_RESPONSE, VERSION, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.headers.pull import PullMessageReply
from aerobee.remoting.headers.typed import encode_header
from aerobee.storage.reads.results import ReadResult, ReadStatus

if TYPE_CHECKING:
    from aerobee.broker.pulls.pull import Pull

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


def found_pieces(group_sys_flag: int, topic_sys_flag: int) -> tuple[bytes, ...]:
    """Return HEADER for a pull that has found messages and is not sent to another broker.

    It is cut where greatest, least and next offset and the opaque go.
    """
    cut = HEADER.replace(b"%b", b"FOUND").split(b"%d")
    return (
        b"%b0%b%d%b" % (cut[0], cut[1], group_sys_flag, cut[2]),
        cut[3],
        cut[4],
        b"%b0%b%d%b" % (cut[5], cut[6], topic_sys_flag, cut[7]),
        cut[8],
    )


def encoded_reply(
    pull: "Pull", code: int, result: ReadResult, flags: tuple[int, int], broker_id: int
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


def refusal(pull: "Pull", error: RequestError) -> list[bytes | memoryview]:
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
