"""Taking a message back that waits for its time (RecallMessageProcessor): 370.

What is stored is another message, which takes the first one out of its slot. So success says that
it is stored, not that it was in time.
"""

from aerobee.broker.sends.storing import Placed
from aerobee.broker.start.context import Context
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.recall import RecallMessageReply, RecallMessageRequest
from aerobee.remoting.message.properties import Property
from aerobee.remoting.message.recall_handle import decode_recall_handle
from aerobee.remoting.net.routes import Reply, Request, Routes
from aerobee.storage.errors import LogBusy, MessageTooLarge

routes: Routes[Context] = Routes("recall")

TAG = "_RECALL_TAG_"
BODY = b"0"
TIME_DIGITS_MAX = 19  # of a Java long


@routes.on(RequestCode.RECALL_MESSAGE, RecallMessageRequest)
async def recall(ctx: Context, request: Request[RecallMessageRequest]) -> Reply:
    """Store that a message is not wanted any more; the checks are RocketMQ's, in its order."""
    region = {"MSG_REGION": ctx.settings.region_id}
    try:
        properties = _checked(ctx, request.header)
        placed = _place(ctx, request.header.topic, properties)
        await _store(ctx, request, placed)
    except RequestError as error:
        return Reply(code=error.code, remark=error.remark, ext=region)
    return Reply(RecallMessageReply(msg_id=properties[Property.UNIQ_KEY]), ext=region)


def _checked(ctx: Context, header: RecallMessageRequest) -> dict[str, str]:
    """Return the properties of the message that takes another one back."""
    settings, now_ms = ctx.settings, ctx.now_ms()
    if not settings.recall_message_enable:
        raise _failed(ResponseCode.NO_PERMISSION, "operation is forbidden")
    if now_ms < settings.start_accept_send_request_time_stamp:
        raise _failed(ResponseCode.SERVICE_NOT_AVAILABLE, "broker service not available")
    writable = settings.broker_permission & Perm.WRITE
    if not writable and not settings.allow_recall_when_broker_not_writeable:
        raise _failed(ResponseCode.SERVICE_NOT_AVAILABLE, "broker service not available")
    if ctx.tables.topics.get(header.topic) is None:
        raise _failed(ResponseCode.TOPIC_NOT_EXIST, f"the topic[{header.topic}] not exist")
    try:
        handle = decode_recall_handle(header.recall_handle)
    except ValueError as error:
        raise RequestError(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid") from error
    if handle.topic != header.topic:
        raise _failed(ResponseCode.ILLEGAL_OPERATION, "topic not match")
    if handle.broker_name != settings.broker_name:
        raise _failed(ResponseCode.ILLEGAL_OPERATION, "broker service not available")
    time = handle.time_ms
    is_time = time.isascii() and time.isdecimal() and len(time) <= TIME_DIGITS_MAX
    left_ms = (int(time) if is_time else -1) - now_ms
    if not 0 < left_ms < settings.timer_max_delay_sec * 1000:
        raise _failed(ResponseCode.ILLEGAL_OPERATION, "timestamp invalid")
    return {
        Property.TAGS: TAG,
        Property.TIMER_DEL_UNIQKEY: handle.key,
        Property.UNIQ_KEY: handle.key,
        Property.TIMER_DELIVER_MS: time,
        Property.BORN_TIMESTAMP: str(now_ms),
        **({Property.PGROUP: header.producer_group} if header.producer_group else {}),
    }


def _place(ctx: Context, topic: str, properties: dict[str, str]) -> Placed:
    if not ctx.settings.timer_wheel_enable:
        raise _not_executed()
    try:
        return ctx.sends.storing.place(topic, 0, 0, BODY, properties)
    except (RequestError, MessageTooLarge) as error:
        raise _not_executed() from error


async def _store(ctx: Context, request: Request[RecallMessageRequest], placed: Placed) -> None:
    """Store it, and wait until it is as safe as the store promises; a slow disk is no error."""
    storing, host = ctx.sends.storing, request.connection.host_bytes
    for last in (False, True):
        try:
            storing.append(placed, host, placed.stored_ms, 0, 0)
            break
        except LogBusy as error:
            if last:
                raise _not_executed() from error
            await storing.room_prepared()
        except (RequestError, MessageTooLarge) as error:
            raise _not_executed() from error
    if storing.waits:
        await storing.durable()


def _failed(code: int, reason: str) -> RequestError:
    return RequestError(code, f"recall failed, {reason}")


def _not_executed() -> RequestError:
    return _failed(ResponseCode.SYSTEM_ERROR, "execute error")
