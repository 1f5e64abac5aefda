"""Queues that one member has for itself: 41 and 42 (AdminBrokerProcessor.lockBatchMQ)."""

from aerobee.broker.members.group import GroupQueue
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import LockBatchBody, LockBatchReply, decode_body, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("locks")


@routes.on(RequestCode.LOCK_BATCH_MQ)
def lock_batch(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Lock queues for a client that consumes them in order; answer with those it has.

    There are no replicas to ask, so that `lockInStrictMode` and `onlyThisBroker` are the same.
    """
    wanted = decode_body(LockBatchBody, request.command.body)
    held = ctx.consumers.locks.lock(wanted.consumer_group, wanted.client_id, wanted.mq_set)
    return Reply(body=encode_body(LockBatchReply(lock_ok_mq_set=held)))


@routes.on(RequestCode.UNLOCK_BATCH_MQ)
def unlock_batch(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Give locks back; from a queue's owner it says that the queue is given up, ordered or not."""
    given = decode_body(LockBatchBody, request.command.body)
    group = given.consumer_group
    ctx.consumers.locks.unlock(group, given.client_id, given.mq_set)
    name = ctx.settings.broker_name
    keys = [
        GroupQueue(group, queue.topic, queue.queue_id)
        for queue in given.mq_set
        if queue.broker_name == name
    ]
    ctx.consumers.handovers.release(request.connection, keys)
    return Reply()
