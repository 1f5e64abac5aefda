"""Messages that were not consumed: 36.

It is answered when the message is as safe as a sent one: RocketMQ does not wait for its disk here.
"""

from msgspec.structs import replace

from aerobee.broker.start.context import Context
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.headers.send import SendBackRequest
from aerobee.remoting.message.message_id import KEPT_BESIDE
from aerobee.remoting.message.properties import Property
from aerobee.remoting.message.record import Record, decode_record
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("send_back")


@routes.on(RequestCode.CONSUMER_SEND_MSG_BACK, SendBackRequest)
async def consumer_send_message_back(ctx: Context, request: Request[SendBackRequest]) -> Outcome:
    """Store a message once more, for its group to try again later, or with the dead letters."""
    header, sends = request.header, ctx.sends
    config = sends.retries.group_config(header.group)
    if not ctx.settings.broker_permission & Perm.WRITE:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{ctx.settings.broker_ip1}] sending message is forbidden",
        )
    if config.retry_queue_nums <= 0:
        return Reply()  # the group does not want to see it again
    is_kept = header.offset >= KEPT_BESIDE
    if is_kept:
        record = await _kept(ctx, header)
    else:
        await ctx.cold.lookups.warm_record(header.offset)
        record = sends.storing.record(header.offset, body=False)
    if ctx.records is not None:
        ctx.records.check_consumed(request, record)
    target = sends.retries.destination(header, config, record, request.command.version)
    known = ctx.cluster.announcements.until_known(target.topic, is_new=target.is_new)
    if known is not None:
        record = replace(record, body=b"")  # who waits keeps none
        await known()
        record = await _kept(ctx, header) if is_kept else record
    await sends.storing.store_again(header.offset, target, record if is_kept else None)
    ctx.health.metrics.send_back(target.properties[Property.RETRY_TOPIC], header.group)
    return Reply()


async def _kept(ctx: Context, header: SendBackRequest) -> Record:
    """Return a message that compaction keeps beside the log; raises RequestError where it is not.

    In RocketMQ such a message names a place in a file of its copies, and the broker sends back what
    has that place in the log: a message of whichever topic.
    """
    position = header.offset
    try:
        return decode_record(await ctx.cold.lookups.record(position, header.origin_topic))
    except (CorruptRecord, RequestError) as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {position}"
        ) from error
