"""What there is of lite topics, which is nothing: 200074 to 200079 (LiteManagerProcessor).

A topic may be declared as one (`message.type=LITE`), and light queues are kept; no group is bound
to such a topic, and nobody can subscribe to it.
"""

from aerobee.broker.rules.attributes import MESSAGE_TYPE
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import LiteBroker, LiteParent, LiteTopic, encode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.admin import (
    LiteClientRequest,
    LiteGroupRequest,
    LiteTopicRequest,
)
from aerobee.remoting.headers.topics import TopicRequest
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

routes: Routes[Context] = Routes("lite info")


@routes.on(RequestCode.GET_BROKER_LITE_INFO)
def broker_info(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Return how many light queues there are and may be; of lite topics all is 0."""
    topics = {queue.topic for queue in ctx.store.queues}
    body = LiteBroker(
        max_lmq_num=ctx.settings.max_lmq_consume_queue_num,
        current_lmq_num=sum(map(ctx.store.queues.is_light, topics)),
        cq_table_size=len(topics),
        offset_table_size=len(ctx.tables.offsets),
    )
    return Reply(body=encode_body(body))


@routes.on(RequestCode.GET_PARENT_TOPIC_INFO, TopicRequest)
def parent_info(ctx: Context, request: Request[TopicRequest]) -> Outcome:
    """Describe a topic that was declared to have lite topics."""
    topic = request.header.topic
    _check_parent(ctx, topic)
    topics = {queue.topic for queue in ctx.store.queues}
    light = sum(map(ctx.store.queues.is_light, topics))
    return Reply(body=encode_body(LiteParent(topic=topic, lmq_num=light)))


@routes.on(RequestCode.GET_LITE_TOPIC_INFO, LiteTopicRequest)
def topic_info(ctx: Context, request: Request[LiteTopicRequest]) -> Outcome:
    """Describe a lite topic, which nobody has sent to."""
    header = request.header
    _check_parent(ctx, header.parent_topic)
    body = LiteTopic(parent_topic=header.parent_topic, lite_topic=header.lite_topic)
    return Reply(body=encode_body(body))


@routes.on(RequestCode.GET_LITE_CLIENT_INFO, LiteClientRequest)
def client_info(ctx: Context, request: Request[LiteClientRequest]) -> Outcome:
    """Refuse to describe a subscriber: no group is bound to lite topics."""
    topic, group = request.header.parent_topic, request.header.group
    _check_parent(ctx, topic)
    _check_group(ctx, group)
    raise _refused(f"Subscription [{group}]-[{topic}] not match.")


@routes.on(RequestCode.GET_LITE_GROUP_INFO, LiteGroupRequest)
def group_info(ctx: Context, request: Request[LiteGroupRequest]) -> Outcome:
    """Refuse to describe a group: none is bound to lite topics."""
    raise _not_bound(ctx, request.header.group)


@routes.on(RequestCode.TRIGGER_LITE_DISPATCH, LiteGroupRequest)
def dispatch(ctx: Context, request: Request[LiteGroupRequest]) -> Outcome:
    """Refuse to wake a group: none is bound to lite topics."""
    raise _not_bound(ctx, request.header.group)


def _check_parent(ctx: Context, topic: str) -> None:
    config = ctx.tables.topics.get(topic)
    if config is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"Topic [{topic}] not exist.")
    if config.attributes.get(MESSAGE_TYPE) != "LITE":
        raise _refused(f"Topic [{topic}] type not match.")


def _check_group(ctx: Context, group: str) -> None:
    if ctx.tables.groups.find(group) is None:
        raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group [{group}] not exist.")


def _not_bound(ctx: Context, group: str) -> RequestError:
    _check_group(ctx, group)
    return _refused(f"Group [{group}] is not a LITE group.")


def _refused(remark: str) -> RequestError:
    return RequestError(ResponseCode.INVALID_PARAMETER, remark)
