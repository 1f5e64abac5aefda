"""Messages that were not consumed: 36.

It is answered when the message is as safe as a sent one: RocketMQ does not wait for its disk here.
"""

import asyncio

from aerobee.broker.cluster.announcing import until_known
from aerobee.broker.processors.send import busy, durable, unavailable
from aerobee.broker.sends.retries import Destination, failed_record
from aerobee.broker.start.context import Context
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode, SysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import SendBackRequest
from aerobee.remoting.message.record import host_bytes
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes
from aerobee.storage.errors import LogBusy, MessageTooLarge, StoreError

routes: Routes[Context] = Routes("send_back")


@routes.on(RequestCode.CONSUMER_SEND_MSG_BACK, SendBackRequest)
async def consumer_send_message_back(ctx: Context, request: Request[SendBackRequest]) -> Outcome:
    """Store a message once more, for its group to try again later, or with the dead letters."""
    header = request.header
    config = ctx.sends.retries.group_config(header.group)
    if not ctx.settings.broker_permission & Perm.WRITE:
        raise RequestError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{ctx.settings.broker_ip1}] sending message is forbidden",
        )
    if config.retry_queue_nums <= 0:
        return Reply()  # the group does not want to see it again
    await ctx.cold.lookups.warm_record(header.offset)
    record = failed_record(ctx.writing, header.offset, body=False)
    target = ctx.sends.retries.destination(header, config, record, request.command.version)
    if target.is_new:
        ctx.cluster.announcements.announce(target.topic)
    if (announcement := ctx.cluster.announcements.of(target.topic)) is not None:
        await until_known(announcement)
    try:
        store_again(ctx, header.offset, target)
    except LogBusy:
        await asyncio.sleep(ctx.settings.wait_time_mills_in_send_queue / 1000)
        try:
            store_again(ctx, header.offset, target)
        except LogBusy as error:
            raise busy() from error
    if ctx.writing.tick.sync and not await durable(ctx):
        raise RequestError(ResponseCode.SYSTEM_ERROR, "FLUSH_DISK_TIMEOUT")
    return Reply()


def store_again(ctx: Context, position: int, target: Destination) -> None:
    """Append the message at a position as its group will get it."""
    record, now_ms = failed_record(ctx.writing, position), ctx.now_ms()
    stamp = Stamp(host_bytes(*record.born_host), ctx.store_host)
    sys_flag = (record.sys_flag & ~(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)) | stamp.sys_flag
    try:
        placed = ctx.sends.placing.place(
            target.topic.topic_name, target.queue_id, record.flag, record.body,
            dict(target.properties), now_ms,
        )  # fmt: skip
        ctx.sends.placing.append(
            placed, sys_flag, record.born_timestamp, stamp.at(now_ms, target.reconsume_times)
        )
    except LogBusy:
        raise
    except MessageTooLarge as error:
        raise RequestError(ResponseCode.MESSAGE_ILLEGAL, f"{error}") from error
    except StoreError as error:
        ctx.troubles.met(error)
        raise unavailable(str(error)) from error
    if not ctx.writing.tick.commit_log():
        raise unavailable(ctx.store.commit_log.refusal or "the log could not be written")
    ctx.writing.tick.schedule()  # somebody may wait for the message
