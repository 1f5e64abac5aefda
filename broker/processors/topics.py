"""Topic administration: 17, 18, 215, 316 and 351 (AdminBrokerProcessor)."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from aerobee.broker.cluster.announcing import until_known
from aerobee.broker.rules.attributes import (
    DEDUP_SECONDS,
    MESSAGE_TYPE,
    RETENTION_SECONDS,
    dedup_window_ms,
    parse_edits,
)
from aerobee.broker.rules.names import check_topic
from aerobee.broker.rules.system_topics import is_system_topic, system_topic_names
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.start.context import Context
from aerobee.broker.start.gone_topics import clean_topics, find_topics, forget_topics
from aerobee.broker.tables.turns import in_turns
from aerobee.remoting.bodies import (
    CreateTopicListBody,
    TopicConfig,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.topics import CreateTopicRequest, DeleteTopicRequest, TopicRequest
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes
from aerobee.remoting.words import LIGHT_QUEUE_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX

routes: Routes[Context] = Routes("topics")

MADE_PER_TURN: Final = 256  # of a list, some milliseconds
TOPICS_PER_TURN: Final = 16  # each has some queues, and each of those some files
QUEUES_MAX: Final = 32_767
PERM_MAX: Final = 15
FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


@routes.on(RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopicRequest)
async def update_and_create_topic(ctx: Context, request: Request[CreateTopicRequest]) -> Outcome:
    """Make a topic, or give it other queues, permissions or attributes."""
    header = request.header
    config = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=header.topic_filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
    )
    _check_name(ctx, header.topic)
    edits = parse_edits(header.attributes)
    _check_wanted(ctx, config, edits)
    config = ctx.tables.topics.update(config, edits)
    await until_known(ctx.cluster.announcements.announce(config))
    return Reply()


@routes.on(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
async def update_and_create_topics(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Make or change every topic of a list; none, where one of them may not be so.

    `attributes` of the body are edits: a key begins with + or -. RocketMQ leaves out all topics of
    a list in which one is as it is already.
    """
    wanted = decode_body(CreateTopicListBody, request.command.body).topic_config_list
    topics = ctx.tables.topics
    async for config in in_turns(wanted, MADE_PER_TURN):
        _check_name(ctx, config.topic_name)
        _check_wanted(ctx, config, config.attributes)
        topics.planned(config, config.attributes)
    topics.check_new([config.topic_name for config in wanted])
    changed: list[TopicConfig] = []
    try:
        async for config in in_turns(wanted, MADE_PER_TURN):
            changed.append(topics.update(config, config.attributes))
    finally:  # others may have changed what the checks have seen
        if changed:
            await until_known(ctx.cluster.announcements.announce(*changed))
    return Reply()


def _check_name(ctx: Context, topic: str) -> None:
    check_topic(topic)
    _check_system(ctx, topic)


def _check_wanted(ctx: Context, config: TopicConfig, edits: Mapping[str, str]) -> None:
    """Refuse what no topic may be, whatever it is so far."""
    for name, value, limit in (
        ("readQueueNums", config.read_queue_nums, QUEUES_MAX),
        ("writeQueueNums", config.write_queue_nums, QUEUES_MAX),
        ("perm", config.perm, PERM_MAX),
    ):
        if not 0 <= value <= limit:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"{name} is {value}, allowed: 0 to {limit}"
            )
    if config.topic_filter_type not in FILTER_TYPES:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"topicFilterType = [{config.topic_filter_type}] value invalid",
        )
    if not ctx.settings.enable_mixed_message_type and edits.get("+" + MESSAGE_TYPE) == "MIXED":
        raise RequestError(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
    _check_dedup(ctx.settings, edits.get("+" + DEDUP_SECONDS))
    if not ctx.settings.topic_retention_enable and "+" + RETENTION_SECONDS in edits:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"{RETENTION_SECONDS} is not obeyed here: topicRetentionEnable is false",
        )


@routes.on(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest)
async def delete_topic(ctx: Context, request: Request[DeleteTopicRequest]) -> Outcome:
    """Remove a topic with its messages' queues and the offsets committed in it.

    Retry topics that pop consumption made for it go as well. The nameservers forget it when the
    administrator's tool tells them (code 216), as with RocketMQ.
    """
    topic = request.header.topic
    if not topic.strip():
        raise RequestError(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    _check_system(ctx, topic)
    _check_writable(ctx)
    async with ctx.tables.topics.deletions:
        doomed = [topic, *_retry_topics(ctx, topic)]  # by now: it may have waited for others
        for name in doomed:
            try:
                ctx.store.delete_topic(name)  # first: the disk may refuse, and nothing has changed
            except OSError as error:
                raise _refused(f"topic {name} is not deleted, it is as before", error) from None
            forget_topics(ctx, [name])
            await asyncio.sleep(0)
    try:
        await (
            ctx.tables.offsets.flush()
        )  # an old one would pass over messages of the next topic so called
        await ctx.tables.topics.file.flush()
    except OSError as error:
        what = f"topic {topic} is deleted, but a restart may bring its name or offsets back"
        raise _refused(what, error) from None
    try:
        for name in doomed:
            await ctx.cold.views.removed(name)
    except OSError as error:
        what = f"topic {topic} is deleted, but copies of its messages are still there"
        raise _refused(what, error) from None
    return Reply()


def _retry_topics(ctx: Context, topic: str) -> Iterator[str]:
    """Yield the retry topics that pop consumption made for a topic, where they go with it."""
    if not ctx.settings.clear_retry_topic_when_delete_topic:
        return
    for group in ctx.tables.offsets.groups_of(topic):
        for separator in ("+", "_"):  # KeyBuilder: version 2 and 1 of pop retry topics
            retry = f"{RETRY_PREFIX}{group}{separator}{topic}"
            if ctx.tables.topics.get(retry) is not None:
                yield retry


@routes.on(RequestCode.CLEAN_UNUSED_TOPIC, NoHeader)
async def clean_unused_topics(ctx: Context, request: Request[NoHeader]) -> Outcome:
    """Remove the queues, committed offsets and copies of topics that the broker does not know.

    Not those of system topics, nor light queues, which are in no table.
    """
    _check_writable(ctx)
    system = system_topic_names(ctx.settings)

    def is_unused(name: str) -> bool:
        kept = name.startswith((SYSTEM_PREFIX, LIGHT_QUEUE_PREFIX)) or name in system
        return not kept and ctx.tables.topics.get(name) is None

    unused = await find_topics(ctx, is_unused)
    await clean_topics(ctx, "unused topics", unused, is_unused, TOPICS_PER_TURN)
    try:
        await ctx.cold.views.clean()
    except OSError as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"copies of unused topics are still there: the disk refuses: {error}; make room on it,"
            " or look after it, and clean again",
        ) from None
    return Reply()


@routes.on(RequestCode.GET_TOPIC_CONFIG, TopicRequest)
def get_topic_config(ctx: Context, request: Request[TopicRequest]) -> Outcome:
    """Return one topic's configuration as JSON."""
    config = ctx.tables.topics.get(request.header.topic)
    if config is None:
        raise RequestError(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic in this broker. topic: {request.header.topic}",
        )
    return Reply(body=encode_body(config))


def _check_dedup(settings: BrokerSettings, value: str | None) -> None:
    """Refuse a window in which retries are stored once, where it cannot be kept."""
    window_ms = dedup_window_ms({DEDUP_SECONDS: value}) if value is not None else 0
    if not window_ms:
        return
    if not settings.stores_retries_once:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{DEDUP_SECONDS} is not served by this broker: its dedupEntriesMax is 0",
        )
    if window_ms >= settings.file_reserved_time * 3_600_000:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"{DEDUP_SECONDS} must be less than what is kept, fileReservedTime is"
            f" {settings.file_reserved_time} hours",
        )


def _check_writable(ctx: Context) -> None:
    if ctx.store.read_only:
        raise RequestError(
            ResponseCode.SERVICE_NOT_AVAILABLE, "the store is read-only: no topic can be deleted"
        )


def _refused(what: str, error: OSError) -> RequestError:
    """Say what the disk's refusal left, and what to do about it."""
    where = f" ({error.filename})" if error.filename else ""
    return RequestError(
        ResponseCode.SYSTEM_ERROR,
        f"{what}: the disk refuses: {error.strerror or error}{where}; make room on it, or look"
        " after it, and delete the topic again",
    )


def _check_system(ctx: Context, topic: str) -> None:
    if ctx.settings.validate_system_topic_when_update_topic and is_system_topic(
        topic, ctx.settings
    ):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"The topic[{topic}] is conflict with system topic.",
        )
