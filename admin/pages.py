"""Tables of a broker that are read page by page: topics (21) and groups (201)."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from aerobee.admin.calls import AdminCalls
from aerobee.remoting.bodies import (
    DataVersion,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    decode_body,
)
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.headers.groups import AllGroupConfigReply, AllGroupConfigRequest
from aerobee.remoting.headers.topics import AllTopicConfigReply, AllTopicConfigRequest
from aerobee.remoting.headers.typed import decode_header

PAGE: Final = 2000
"""Entries of a page; brokers give no more (splitMetadataSize)."""
BEGINNINGS_MAX: Final = 8
"""How often a table is read from its beginning because it changed meanwhile."""
PAGE_TIMEOUT_MS: Final = 10_000

C = TypeVar("C")
Page = tuple[dict[str, C], DataVersion, int]


async def all_topics(admin: AdminCalls, address: str) -> dict[str, TopicConfig]:
    """Return every topic of a broker, as it keeps them; raises BrokerRefused, Unavailable."""

    async def page(begin: int, version: str | None) -> Page[TopicConfig]:
        header = AllTopicConfigRequest(topic_seq=begin, max_topic_num=PAGE, data_version=version)
        reply = await admin.connections.request(
            address,
            RequestCode.GET_ALL_TOPIC_CONFIG,
            header,
            timeout_ms=admin.at_least(PAGE_TIMEOUT_MS),
        )
        body = decode_body(TopicConfigSerializeWrapper, reply.body)
        total = len(body.topic_config_table)
        if "totalTopicNum" in reply.ext:  # brokers from 5.1 on give pages
            total = decode_header(AllTopicConfigReply, reply.ext).total_topic_num
        return body.topic_config_table, body.data_version, total

    return await _every(page, address)


async def all_groups(admin: AdminCalls, address: str) -> dict[str, SubscriptionGroupConfig]:
    """Return every consumer group of a broker; raises BrokerRefused, Unavailable."""

    async def page(begin: int, version: str | None) -> Page[SubscriptionGroupConfig]:
        header = AllGroupConfigRequest(group_seq=begin, max_group_num=PAGE, data_version=version)
        reply = await admin.connections.request(
            address,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            header,
            timeout_ms=admin.at_least(PAGE_TIMEOUT_MS),
        )
        body = decode_body(SubscriptionGroupWrapper, reply.body)
        total = len(body.subscription_group_table)
        if "totalGroupNum" in reply.ext:
            total = decode_header(AllGroupConfigReply, reply.ext).total_group_num
        return body.subscription_group_table, body.data_version, total

    return await _every(page, address)


async def _every(
    page: Callable[[int, str | None], Awaitable[Page[C]]], address: str
) -> dict[str, C]:
    """Read page after page of one state of a table; a broker whose table changes begins anew."""
    for _ in range(BEGINNINGS_MAX):
        entries, version, total = await page(0, None)
        same = True
        while entries and len(entries) < total and same:
            known = msgspec.json.encode(version).decode()
            more, latest, total = await page(len(entries), known)
            same = latest == version
            if not more.keys() - entries.keys():
                break
            entries |= more
        if same:
            return entries
    raise Unavailable(
        f"{address}: its table changed {BEGINNINGS_MAX} times while it was read; try again when"
        " fewer topics or groups are made"
    )
